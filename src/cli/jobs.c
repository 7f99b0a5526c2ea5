/* See jobs.h. */
#include "cli/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* This program again, as `headroom devices --quick`, without a word. */
static bool measure_apart(void) {
  char *arguments[] = {"headroom", "devices", "--quick", "--quiet", NULL};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  pid_t child;
  int status = 0;
  bool started = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
                 posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
                 posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  while (started && waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A GPU that is here, without rates, and with a place to keep them. */
static bool wants_rates(hr_job *job) {
  bool here = job->facts.kind == HR_CUDA && !job->facts.absent;
  return here && !job->rates.measured && hr__rates_path(&job->facts, &job->arena) != NULL;
}

static hr_status job_open(const hr_cli *cli, const hr_job_source *source, hr_job **out, hr_error *err) {
  return hr__cli_flag(cli, "auto") ? hr__job_open_all(source, out, err) : hr__job_open(source, out, err);
}

hr_status hr__cli_job_open(const hr_cli *cli, const hr_job_source *source, hr_job **out, hr_error *err) {
  HR_TRY(job_open(cli, source, out, err));
  if (!wants_rates(*out) || !measure_apart()) return HR_OK;
  hr__job_close(*out);
  *out = NULL;
  return job_open(cli, source, out, err);
}
