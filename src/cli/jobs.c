/* See jobs.h. */
#include "cli/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "cli/waiting.h"
#include "job/settings.h"
#include "measure/measure.h"
#include "plan/memory.h"

extern char **environ;

/* `headroom devices --quick RECIPE --set ...`; NULL: out of memory. */
static char **arguments_make(const hr_job_source *source, hr_arena *arena) {
  static const char *const always[] = {"headroom", "devices", "--quick", "--quiet", "--"};
  enum { ALWAYS = sizeof always / sizeof always[0] };
  const char **arguments = hr__arena_array(arena, ALWAYS + 2 * source->n_overrides + 2, sizeof *arguments);
  if (!arguments) return NULL;
  size_t count = 0;
  for (; count < ALWAYS - 1; count++)
    arguments[count] = always[count];
  for (size_t i = 0; i < source->n_overrides; i++) {
    arguments[count++] = "--set";
    arguments[count++] = source->overrides[i];
  }
  arguments[count++] = always[ALWAYS - 1];
  arguments[count] = source->path;
  return (char **)arguments;
}

/* This program again, without a word. */
static bool measure_apart(const hr_job_source *source, hr_arena *arena) {
  char **arguments = arguments_make(source, arena);
  if (!arguments) return false;
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

/* Whether another plan might be made by other rates: something was chosen, or copies go along with the step. */
static bool rates_decide(const hr_job *job) {
  bool copies = false;
  for (size_t n = 0; n < job->graph->n_nodes && !copies; n++)
    copies = job->graph->nodes[n].op->transfer != HR_TRANSFER_NONE;
  return copies || job->chosen.any || job->search.n_knobs > 0;
}

/* A GPU that is here, of which something is not known, and a place to keep it. */
static bool wants_rates(hr_job *job, hr_cli_rates wanted) {
  bool here = job->facts.kind == HR_CUDA && !job->facts.absent;
  if (!here || job->torch || hr__rates_path(&job->facts, &job->arena) == NULL) return false;
  if (wanted == HR_CLI_RATES_PLAN && !rates_decide(job)) return false;
  hr_graph *graph = NULL; /* as the other process has it: with what is open left as it is */
  hr_error ignored = {0};
  bool lacks = !job->rates.measured;
  if (!lacks && wanted == HR_CLI_RATES_NODES && hr__compile(job->recipe, NULL, NULL, &graph, &ignored) == HR_OK)
    (void)hr__measure_lacks(graph, &job->rates, &lacks, &ignored);
  hr__graph_destroy(graph);
  return lacks;
}

/* Whether a GPU is here and can be used; its name. What is missing for one is told where a recipe asks for it. */
static bool gpu_is_here(hr_cli *cli) {
  hr_device *device = NULL;
  hr_error none = {0};
  if (cli->gpu_looked_for) return cli->gpu != NULL;
  cli->gpu_looked_for = true;
  if (hr__cuda_open(&device, &none) != HR_OK) return false;
  cli->gpu = hr__arena_text(&cli->arena, device->facts.name);
  hr__device_close(device);
  if (cli->gpu && !cli->quiet && !cli->json)
    fprintf(stderr, "device: %s, the GPU of this machine (--set memory.device=cpu: its processor)\n", cli->gpu);
  return cli->gpu != NULL;
}

/* A recipe that names no device is for the GPU of this machine, where one can be used, else for its processor. */
static hr_status device_choose(hr_cli *cli, hr_job_source *source, hr_error *err) {
  hr_recipe *recipe = NULL;
  HR_TRY(hr__settings_load(source->path, source->overrides, source->n_overrides, &recipe, err));
  bool named = hr__recipe_given(recipe, "memory.device") || hr__memory_gpu(recipe);
  hr__recipe_destroy(recipe);
  if (named || !gpu_is_here(cli)) return HR_OK;
  const char **overrides = hr__arena_array(&cli->arena, source->n_overrides + 1, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  for (size_t i = 0; i < source->n_overrides; i++)
    overrides[i] = source->overrides[i];
  overrides[source->n_overrides++] = "memory.device=cuda";
  source->overrides = overrides;
  return HR_OK;
}

static hr_status job_open(const hr_cli *cli, const hr_job_source *source, hr_job **out, hr_error *err) {
  hr_waiting waiting;
  hr__waiting_begin(&waiting, cli, "planning");
  hr_job_watch watch = {&waiting, hr__waiting_search};
  hr_status status = hr__job_open_watched(source, hr__cli_flag(cli, "auto"), &watch, out, err);
  hr__waiting_end(&waiting);
  return status;
}

static bool rates_measure(const hr_cli *cli, hr_job *job) {
  hr_waiting waiting;
  hr__waiting_begin(&waiting, cli, "measuring the GPU, once");
  bool measured = measure_apart(&job->source, &job->arena);
  hr__waiting_end(&waiting);
  return measured;
}

hr_status hr__cli_job_open(hr_cli *cli, const hr_job_source *given, hr_cli_rates wanted, hr_job **out, hr_error *err) {
  hr_job_source source = *given;
  HR_TRY(device_choose(cli, &source, err));
  HR_TRY(job_open(cli, &source, out, err));
  if (!wants_rates(*out, wanted) || !rates_measure(cli, *out)) return HR_OK;
  hr__job_close(*out);
  *out = NULL;
  return job_open(cli, &source, out, err);
}
