/* Help: made from the tables that options are read by, in 80 columns. */
#include <string.h>

#include "cli/cli.h"

enum { COLUMNS = 80, HEAD = 21, NAME = 8, EXAMPLE = 6 }; /* EXAMPLE: blanks before the rest of a long one */

static void wrapped(const char *text, size_t column, size_t indent, FILE *to) {
  hr__text_wrap(text, column, indent, COLUMNS, to);
  fputc('\n', to);
}

static void option_print(const hr_cli_option *option, FILE *to) {
  if (option->meaning == NULL) return;
  char head[48];
  snprintf(head, sizeof head, "--%s%s%s", option->name, option->argument != NULL ? " " : "",
           option->argument != NULL ? option->argument : "");
  bool fits = strlen(head) < HEAD;
  int width = fprintf(to, "  %-*s%s", HEAD - 1, head, fits ? " " : "  ");
  wrapped(option->meaning, (size_t)width, 2 + HEAD, to);
}

/* The bytes of the next word of a command, with the blank before it; what stands in quotes is of one word. */
static size_t word_length(const char *line) {
  size_t length = 1;
  for (char quote = 0; line[length] && (quote || line[length] != ' '); length++)
    if (strchr("\"'", line[length]) && (!quote || quote == line[length])) quote = quote ? 0 : line[length];
  return length;
}

/* A command of the shell, on several lines where it is too long for one: an option stays beside its value. */
static void example_print(const char *program, const char *line, FILE *to) {
  const char *slash = strrchr(program, '/');
  if (slash && strlen(program) > COLUMNS - 4) program = slash + 1; /* no line has room for it and " \" */
  size_t column = (size_t)fprintf(to, "  %s", program);
  while (*line) {
    size_t word = word_length(line);
    bool option = strncmp(line, " --", 3) == 0;
    if (option && line[word] && strncmp(line + word, " --", 3) != 0) word += word_length(line + word);
    if (column + word + (line[word] ? 2 : 0) > COLUMNS && column > EXAMPLE) {
      fprintf(to, " \\\n%*s", EXAMPLE - 1, "");
      column = EXAMPLE - 1;
    }
    column += (size_t)fprintf(to, "%.*s", (int)word, line);
    line += word;
  }
  fputc('\n', to);
}

static void examples_print(const char *program, const char *examples, FILE *to) {
  if (examples == NULL) return;
  fprintf(to, "\nexamples:\n");
  for (const char *line = examples; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    char text[512];
    snprintf(text, sizeof text, " %.*s", (int)length, line);
    example_print(program, text, to);
    line += length + (line[length] != '\0');
  }
}

void hr__cli_help(const hr_cli *cli, FILE *to) {
  const hr_cli_command *command = cli->command;
  if (command == NULL) {
    wrapped("headroom trains neural networks inside a memory budget that it names beforehand, to the byte.", 0, 0, to);
    fprintf(to, "\nusage: headroom COMMAND [OPTIONS] [RECIPE]\n\ncommands:\n");
    for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++) {
      int width = fprintf(to, "  %-*s ", NAME, (*c)->name);
      wrapped((*c)->summary, (size_t)width, 3 + NAME, to);
    }
    fprintf(to, "\noptions of every command:\n");
  } else {
    fprintf(to, "usage: headroom %s [OPTIONS]%s%s\n\n", command->name, command->usage[0] != '\0' ? " " : "",
            command->usage);
    wrapped(command->summary, 0, 0, to);
    if (command->details != NULL) wrapped(command->details, 0, 0, to);
    fprintf(to, "\noptions:\n");
    for (size_t i = 0; i < command->n_options; i++)
      option_print(&command->options[i], to);
  }
  for (size_t i = 0; i < HR_CLI_GLOBAL_OPTIONS; i++)
    option_print(&hr_cli_global_options[i], to);
  examples_print(cli->program, command == NULL ? "plan recipes/demo.yaml\nplan --help" : command->examples, to);
  fprintf(to, "\nexit codes: 0 ok, 1 failure, 2 usage, 3 does not fit, 4 peak above the plan,\n"
              "  5 bad or damaged input, 129/130/143 stopped by a signal after saving\n");
}
