/* What every command writes the same way: errors, JSON, colours. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"
#include "cli/cli.h"
#include "recipe/recipe.h"

FILE *hr__cli_progress(const hr_cli *cli) {
  return cli->quiet || cli->json ? NULL : stderr;
}

hr_style hr__cli_style(const hr_cli *cli, FILE *stream) {
  if (!hr__text_colors(cli->color, stream)) return (hr_style){"", "", "", "", "", ""};
  return (hr_style){"\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[0m"};
}

/* What an error says, with the stage that it is of. */
typedef struct told {
  char text[sizeof((hr_error *)0)->message + 2 * HR_STAGE_NAME];
} told;

static const char *error_tell(const hr_cli *cli, const hr_error *err, told *out) {
  const char *message = err->message[0] != '\0' ? err->message : hr_status_text(err->status);
  snprintf(out->text, sizeof out->text, "%s%s%s%s", cli->stage ? "stage " : "", cli->stage ? cli->stage : "",
           cli->stage ? ": " : "", message);
  return out->text;
}

json_t *hr__cli_error_json(const hr_cli *cli, const hr_error *err) {
  told words;
  json_t *error = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s*}", "code", hr_status_name(err->status), "exit_code",
                            hr_status_exit_code(err->status), "message", error_tell(cli, err, &words), "place",
                            err->place, "remedy", err->remedy, "stage", cli->stage);
  return error ? json_pack("{s:o}", "error", error) : NULL;
}

const char *hr__cli_hint(const hr_cli *cli, char out[HR_CLI_HINT]) {
  snprintf(out, HR_CLI_HINT, "headroom %s%s--help", cli->command != NULL ? cli->command->name : "",
           cli->command != NULL ? " " : "");
  return out;
}

void hr__cli_wrap(FILE *to, const char *text, size_t column, size_t indent) {
  if (isatty(fileno(to)))
    hr__text_wrap(text, column, indent, (size_t)hr__terminal_columns(to), to);
  else
    fputs(text, to);
}

void hr__cli_tell(const hr_cli *cli, FILE *to, const char *color, const char *label, const char *text) {
  hr_style style = hr__cli_style(cli, to);
  fprintf(to, "%s%s%s%s ", *color ? style.bold : "", color, label, *color ? style.end : "");
  hr__cli_wrap(to, text, strlen(label) + 1, *label == ' ' ? 4 : 2);
  fputc('\n', to);
}

void hr__cli_show_error(const hr_cli *cli, const hr_error *err) {
  hr_error ignored = {0};
  if (cli->json) {
    char hint[HR_CLI_HINT];
    json_t *object = hr__cli_error_json(cli, err);
    if (object != NULL && err->status == HR_USAGE)
      json_object_set_new(json_object_get(object, "error"), "help", json_string(hr__cli_hint(cli, hint)));
    if (object != NULL && hr__cli_put_json(object, &ignored) == HR_OK) return;
  }
  told words;
  hr_style style = hr__cli_style(cli, stderr);
  hr__cli_tell(cli, stderr, style.red, "error:", error_tell(cli, err, &words));
  if (err->place[0] != '\0') hr__cli_tell(cli, stderr, "", "  at", err->place);
  if (err->remedy[0] != '\0') hr__cli_tell(cli, stderr, "", "  try:", err->remedy);
  char hint[HR_CLI_HINT];
  if (err->status == HR_USAGE) hr__cli_tell(cli, stderr, "", "  help:", hr__cli_hint(cli, hint));
}

static hr_status output_failed(hr_error *err) {
  return hr__fail_errno(err, "standard output", "write", errno != 0 ? errno : EIO);
}

hr_status hr__cli_put_json(json_t *object, hr_error *err) {
  if (object == NULL) return hr__nomem(err);
  errno = 0;
  int failed = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  json_decref(object);
  if (failed != 0 || fputc('\n', stdout) == EOF) return output_failed(err);
  return hr__cli_flush(err);
}

hr_status hr__cli_flush(hr_error *err) {
  errno = 0; /* an earlier write may have failed, and what it left here is long gone */
  return fflush(stdout) != 0 || ferror(stdout) ? output_failed(err) : HR_OK;
}
