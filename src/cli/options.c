/* Arguments: getopt_long fed from the command's own table. Global options may stand before or after the command. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const hr_cli_option global_options[] = {
    {"set", "KEY=VALUE", "overrides one setting of the recipe (repeatable; null removes a part)"},
    {"json", NULL, "results and errors as one JSON object on stdout"},
    {"quiet", NULL, "no tables, progress or remarks; errors, JSON and dumps stay"},
    {"color", "WHEN", "auto, always or never"},
    {"help", NULL, "this text"},
    {"version", NULL, "version of the program"},
};
enum { GLOBAL_OPTIONS = sizeof global_options / sizeof global_options[0] };

/* getopt returns these for long options: global ones first, then the command's. */
enum { FIRST_GLOBAL = 256, FIRST_OWN = 512 };

const char *hr__cli_nearest(const char *typed, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t least = strlen(typed) / 2 + 1; /* further away is no typing error */
  for (size_t i = 0; i < count; i++) {
    size_t distance = strncmp(names[i], typed, strlen(typed)) == 0 ? 1 : hr__text_distance(typed, names[i]);
    if (distance < least) {
      least = distance;
      best = names[i];
    }
  }
  return best;
}

static hr_status override_add(hr_cli *cli, const char *text, hr_error *err) {
  if (hr__arena_grow(&cli->arena, (void **)&cli->overrides, &cli->cap_overrides, cli->n_overrides,
                     sizeof *cli->overrides) != 0)
    return hr__nomem(err);
  cli->overrides[cli->n_overrides++] = text;
  return HR_OK;
}

hr_status hr__cli_override(hr_cli *cli, hr_error *err, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  va_end(list);
  char *text = length < 0 ? NULL : hr__arena_array(&cli->arena, (size_t)length + 1, 1);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text != NULL ? override_add(cli, text, err) : hr__nomem(err);
}

static hr_status set_take(hr_cli *cli, const char *text, hr_error *err) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text)
    return hr__fail(err, HR_USAGE, "--set", "write --set key.path=value, such as --set training.batch_size=4",
                    "'%s' is not of the form KEY=VALUE", text);
  return override_add(cli, text, err);
}

static hr_status global_take(hr_cli *cli, int index, const char *value, hr_error *err) {
  switch (index) {
  case 0:
    return set_take(cli, value, err);
  case 1:
    cli->json = true;
    return HR_OK;
  case 2:
    cli->quiet = true;
    return HR_OK;
  case 3:
    if (strcmp(value, "auto") == 0)
      cli->color = HR_COLOR_AUTO;
    else if (strcmp(value, "always") == 0)
      cli->color = HR_COLOR_ALWAYS;
    else if (strcmp(value, "never") == 0)
      cli->color = HR_COLOR_NEVER;
    else
      return hr__fail(err, HR_USAGE, "--color", "use auto, always or never", "'%s' is not a way to colour", value);
    return HR_OK;
  case 4:
    cli->help = true;
    return HR_OK;
  default:
    cli->version = true;
    return HR_OK;
  }
}

/* "it is an option of plan, apply": the commands that have it; false: none does. */
static bool others_have(const char *name, char out[96]) {
  size_t length = 0;
  for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++)
    for (size_t i = 0; i < (*c)->n_options && length < 96; i++)
      if (strcmp((*c)->options[i].name, name) == 0)
        length +=
            (size_t)snprintf(out + length, 96 - length, "%s%s", length > 0 ? ", " : "it is an option of ", (*c)->name);
  return length > 0;
}

/* What getopt refused, as a message with the nearest option that exists. */
static hr_status option_refuse(const struct option *known, size_t count, const char *typed, bool no_value,
                               hr_error *err) {
  if (no_value) return hr__fail(err, HR_USAGE, NULL, NULL, "option '%s' needs a value", typed);

  char name[64];
  snprintf(name, sizeof name, "%s", typed + strspn(typed, "-"));
  char *equals = strchr(name, '=');
  if (equals != NULL) *equals = '\0';
  const char *names[GLOBAL_OPTIONS + HR_CLI_OPTIONS];
  bool takes_none = false;
  for (size_t i = 0; i < count; i++) {
    names[i] = known[i].name;
    if (strcmp(known[i].name, name) == 0 && known[i].has_arg == no_argument) takes_none = true;
  }
  if (takes_none) return hr__fail(err, HR_USAGE, NULL, NULL, "option '--%s' takes no value", name);
  char remedy[96];
  if (others_have(name, remedy)) return hr__fail(err, HR_USAGE, NULL, remedy, "unknown option '%s'", typed);
  const char *nearest = hr__cli_nearest(name, names, count);
  if (nearest != NULL) snprintf(remedy, sizeof remedy, "did you mean --%s?", nearest);
  return hr__fail(err, HR_USAGE, NULL, nearest != NULL ? remedy : NULL, "unknown option '%s'", typed);
}

static hr_status listed_add(hr_cli *cli, const char *word, hr_error *err) {
  if (hr__arena_grow(&cli->arena, (void **)&cli->listed, &cli->cap_listed, cli->n_listed, sizeof *cli->listed) != 0)
    return hr__nomem(err);
  cli->listed[cli->n_listed++] = word;
  return HR_OK;
}

static hr_status twice_refuse(const char *name, hr_error *err) {
  const char *remedy =
      strcmp(name, "gpu") == 0 ? "give it once: a plan is for one GPU, several are not planned" : "give it once";
  return hr__fail(err, HR_USAGE, NULL, remedy, "option '--%s' is given twice", name);
}

/* A value of the command's own option; one that takes several words gets all that follow, up to the next option. */
static hr_status own_take(hr_cli *cli, int index, int argc, char **argv, hr_error *err) {
  const char *argument = cli->command->options[index].argument;
  size_t length = argument != NULL ? strlen(argument) : 0;
  bool several = length >= 3 && strcmp(argument + length - 3, "...") == 0;
  if (argument != NULL && !several && cli->values[index] != NULL) /* neither of the two would be dropped on purpose */
    return twice_refuse(cli->command->options[index].name, err);
  cli->values[index] = optarg != NULL ? optarg : "";
  if (!several) return HR_OK;
  HR_TRY(listed_add(cli, optarg, err));
  while (optind < argc && argv[optind][0] != '-')
    HR_TRY(listed_add(cli, argv[optind++], err));
  return HR_OK;
}

/* Takes options up to the first argument that is none (without a command) or all of them (with one). */
static hr_status options_take(hr_cli *cli, int argc, char **argv, hr_error *err) {
  struct option known[GLOBAL_OPTIONS + HR_CLI_OPTIONS + 1] = {0};
  size_t count = 0;
  for (size_t i = 0; i < GLOBAL_OPTIONS; i++)
    known[count++] =
        (struct option){global_options[i].name, global_options[i].argument != NULL ? required_argument : no_argument,
                        NULL, FIRST_GLOBAL + (int)i};
  for (size_t i = 0; cli->command != NULL && i < cli->command->n_options; i++)
    known[count++] = (struct option){cli->command->options[i].name,
                                     cli->command->options[i].argument != NULL ? required_argument : no_argument, NULL,
                                     FIRST_OWN + (int)i};
  opterr = 0;
  for (;;) {
    int code = getopt_long(argc, argv, cli->command == NULL ? "+:hq" : ":hq", known, NULL);
    if (code == -1) return HR_OK;
    if (code == 'h') code = FIRST_GLOBAL + 4;
    if (code == 'q') code = FIRST_GLOBAL + 2;
    if (code == '?' || code == ':') {
      /* A short option has its letter in optopt; a long one is the last word that was looked at. */
      char letter[3] = {'-', (char)optopt, '\0'};
      bool is_short = optopt > 0 && optopt < FIRST_GLOBAL;
      return option_refuse(known, count, is_short ? letter : argv[optind - 1], code == ':', err);
    }
    if (code >= FIRST_OWN)
      HR_TRY(own_take(cli, code - FIRST_OWN, argc, argv, err));
    else
      HR_TRY(global_take(cli, code - FIRST_GLOBAL, optarg, err));
  }
}

static hr_status command_find(hr_cli *cli, const char *name, hr_error *err) {
  const char *names[16];
  size_t count = 0;
  for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++) {
    if (strcmp((*c)->name, name) == 0) {
      cli->command = *c;
      return HR_OK;
    }
    names[count++] = (*c)->name;
  }
  const char *nearest = hr__cli_nearest(name, names, count);
  char remedy[96];
  if (nearest != NULL) snprintf(remedy, sizeof remedy, "did you mean 'headroom %s'?", nearest);
  return hr__fail(err, HR_USAGE, NULL, nearest != NULL ? remedy : NULL, "unknown command '%s'", name);
}

/* --json decides how errors are shown, so it is looked for before anything can fail. */
static bool json_asked(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--json") == 0) return true;
  return false;
}

hr_status hr__cli_parse(hr_cli *cli, int argc, char **argv, hr_error *err) {
  cli->json = json_asked(argc, argv);
  cli->program = argc > 0 && strchr(argv[0], '/') != NULL ? argv[0] : "headroom";
  optind = 1;
  HR_TRY(options_take(cli, argc, argv, err));
  if (optind >= argc) {
    if (cli->help || cli->version) return HR_OK;
    return hr__fail(err, HR_USAGE, NULL, "headroom plan recipes/demo.yaml", "no command given");
  }
  if (strcmp(argv[optind], "help") == 0) {
    cli->help = true;
    return optind + 1 < argc ? command_find(cli, argv[optind + 1], err) : HR_OK;
  }
  HR_TRY(command_find(cli, argv[optind], err));

  /* getopt again over what follows the command, which stands where the program name is expected. */
  int first = optind;
  optind = 0;
  HR_TRY(options_take(cli, argc - first, argv + first, err));
  for (int i = optind; i < argc - first; i++) {
    if (cli->n_arguments >= cli->command->max_arguments)
      return hr__fail(err, HR_USAGE, NULL, "one recipe at a time; settings are changed with --set key.path=value",
                      "unexpected argument '%s'", argv[first + i]);
    cli->arguments[cli->n_arguments++] = argv[first + i];
  }
  if (!cli->help && !cli->version && cli->n_arguments < cli->command->min_arguments) {
    char remedy[160];
    snprintf(remedy, sizeof remedy, "headroom %s %s", cli->command->name, cli->command->usage);
    return hr__fail(err, HR_USAGE, NULL, remedy, "headroom %s needs a recipe", cli->command->name);
  }
  return HR_OK;
}

int hr__cli_option_index(const hr_cli *cli, const char *name) {
  for (size_t i = 0; i < cli->command->n_options; i++)
    if (strcmp(cli->command->options[i].name, name) == 0) return (int)i;
  return -1;
}

bool hr__cli_flag(const hr_cli *cli, const char *name) {
  return hr__cli_value(cli, name) != NULL;
}

const char *hr__cli_value(const hr_cli *cli, const char *name) {
  int index = hr__cli_option_index(cli, name);
  return index >= 0 ? cli->values[index] : NULL;
}

hr_status hr__cli_int(const hr_cli *cli, const char *name, int64_t least, int64_t fallback, int64_t *out,
                      hr_error *err) {
  const char *text = hr__cli_value(cli, name);
  *out = fallback;
  if (text == NULL) return HR_OK;
  char place[64];
  snprintf(place, sizeof place, "--%s", name);
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least)
    return hr__fail(err, HR_USAGE, place, NULL, "'%s' is not a whole number of at least %" PRId64, text, least);
  *out = value;
  return HR_OK;
}

static void option_print(const hr_cli_option *option, FILE *to) {
  if (option->meaning == NULL) return;
  char head[48];
  snprintf(head, sizeof head, "--%s%s%s", option->name, option->argument != NULL ? " " : "",
           option->argument != NULL ? option->argument : "");
  fprintf(to, "  %-27s %s\n", head, option->meaning);
}

static void examples_print(const char *program, const char *examples, FILE *to) {
  if (examples == NULL) return;
  fprintf(to, "\nexamples:\n");
  for (const char *line = examples; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    fprintf(to, "  %s %.*s\n", program, (int)length, line);
    line += length + (line[length] != '\0');
  }
}

void hr__cli_help(const hr_cli *cli, FILE *to) {
  const hr_cli_command *command = cli->command;
  if (command == NULL) {
    fprintf(to, "headroom trains neural networks inside a memory budget that it names beforehand, to the byte.\n\n"
                "usage: headroom COMMAND [OPTIONS] [RECIPE]\n\ncommands:\n");
    for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++)
      fprintf(to, "  %-10s %s\n", (*c)->name, (*c)->summary);
    fprintf(to, "\noptions of every command:\n");
  } else {
    fprintf(to, "usage: headroom %s [OPTIONS] %s\n\n%s\n", command->name, command->usage, command->summary);
    if (command->details != NULL) fprintf(to, "%s\n", command->details);
    fprintf(to, "\noptions:\n");
    for (size_t i = 0; i < command->n_options; i++)
      option_print(&command->options[i], to);
  }
  for (size_t i = 0; i < GLOBAL_OPTIONS; i++)
    option_print(&global_options[i], to);
  examples_print(cli->program, command == NULL ? "plan recipes/demo.yaml\nplan --help" : command->examples, to);
  fprintf(to, "\nexit codes: 0 ok, 1 failure, 2 usage, 3 does not fit, 4 measured peak above the plan,\n"
              "  5 bad or damaged input, 130/143 stopped by a signal after saving\n");
}
