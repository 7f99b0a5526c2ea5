/* headroom: the program. Finds the command, runs it, shows its error, and leaves with the code that the status maps to.
 */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/argument.h"
#include "format/json.h"
#include "headroom.h"

const hr_cli_command *const hr_cli_commands[] = {&hr_cli_plan,    &hr_cli_train,   &hr_cli_profile,  &hr_cli_report,
                                                 &hr_cli_monitor, &hr_cli_log,     &hr_cli_generate, &hr_cli_embed,
                                                 &hr_cli_merge,   &hr_cli_apply,   &hr_cli_dump,     &hr_cli_tokenize,
                                                 &hr_cli_prepare, &hr_cli_devices, &hr_cli_env,      NULL};

static hr_status run(hr_cli *cli, int argc, char **argv, hr_error *err) {
  HR_TRY(hr__cli_parse(cli, argc, argv, err));
  if (cli->version) {
    printf("headroom %s\n", HR_VERSION);
    return hr__cli_flush(err);
  }
  if (cli->help) {
    hr__cli_help(cli, stdout);
    return hr__cli_flush(err);
  }
  hr_status status = cli->command->run(cli, err);
  return cli->answered || cli->run_given || cli->command->subject ? status : hr__cli_argument_explain(cli, status, err);
}

/* Whoever read standard output has seen enough (headroom dump ... | head): nothing that a person needs to be told. */
static bool reader_gone(void) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int main(int argc, char **argv) {
  hr__json_init();
  /* A closed pipe and a limit of file sizes are then errors of a write: a run still saves, or goes on. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);

  hr_cli cli = {0};
  hr_error err = {0};
  hr__arena_init(&cli.arena);
  hr_status status = run(&cli, argc, argv, &err);
  if (status != HR_OK && !cli.answered && !(status == HR_IO && reader_gone())) {
    err.status = status;
    hr__cli_show_error(&cli, &err);
  }
  hr__arena_fini(&cli.arena);
  return hr_status_exit_code(status);
}
