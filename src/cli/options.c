/* Arguments: getopt_long fed from the command's own table. Global options may stand before or after the command. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/unknown.h"

const hr_cli_option hr_cli_global_options[HR_CLI_GLOBAL_OPTIONS] = {
    {"set", "KEY=VALUE", "one setting of the recipe; repeatable; null removes it"},
    {"json", NULL, "results and errors as one JSON object on stdout"},
    {"quiet", NULL, "no tables, progress, remarks; errors, JSON, dumps stay"},
    {"color", "WHEN", "auto, always or never"},
    {"help", NULL, "this text"},
    {"version", NULL, "version of the program"},
};

/* getopt returns these for long options: global ones first, then the command's. */
enum { FIRST_GLOBAL = 256, FIRST_OWN = 512 };

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

enum { BYTES_LEAST = 1 << 20 }; /* a budget below this is a number that lacks its unit */

/* A size as a setting takes it. Anything else that YAML would understand (null) is no value of these options. */
hr_status hr__cli_size_override(hr_cli *cli, const char *option, const char *path, hr_error *err) {
  const char *value = hr__cli_value(cli, option);
  if (value == NULL) return HR_OK;
  uint64_t bytes;
  if (!hr__size_parse(value, &bytes)) {
    char place[64];
    snprintf(place, sizeof place, "--%s", option);
    return hr__fail(err, HR_USAGE, place, "write it as 512MiB, 24GB or plain bytes", "'%s' is not a size", value);
  }
  if (bytes < BYTES_LEAST && value[strspn(value, "0123456789")] == '\0') {
    char place[64], remedy[128];
    snprintf(place, sizeof place, "--%s", option);
    snprintf(remedy, sizeof remedy, "write the unit: --%s %.40sGiB", option, value);
    return hr__fail(err, HR_USAGE, place, remedy, "%s bytes are too few for anything", value);
  }
  return hr__cli_override(cli, err, "%s=%s", path, value);
}

hr_status hr__cli_stage_override(hr_cli *cli, hr_error *err) {
  const char *name = hr__cli_value(cli, "stage");
  return name ? hr__cli_override(cli, err, "stage=%s", name) : HR_OK;
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

static hr_status listed_add(hr_cli *cli, char *word, hr_error *err) {
  hr__path_clean(word); /* FILE... is the only option that takes several */
  if (hr__arena_grow(&cli->arena, (void **)&cli->listed, &cli->cap_listed, cli->n_listed, sizeof *cli->listed) != 0)
    return hr__nomem(err);
  cli->listed[cli->n_listed++] = word;
  return HR_OK;
}

static hr_status repeated_add(hr_cli *cli, int option, const char *value, hr_error *err) {
  if (hr__arena_grow(&cli->arena, (void **)&cli->repeated, &cli->cap_repeated, cli->n_repeated,
                     sizeof *cli->repeated) != 0)
    return hr__nomem(err);
  cli->repeated[cli->n_repeated].option = option;
  cli->repeated[cli->n_repeated++].value = value;
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
  bool repeats = length >= 3 && strcmp(argument + length - 3, " ..") == 0;
  if (repeats) HR_TRY(repeated_add(cli, index, optarg, err));
  if (argument != NULL && !several && !repeats &&
      cli->values[index] != NULL) /* neither of the two would be dropped on purpose */
    return twice_refuse(cli->command->options[index].name, err);
  if (optarg != NULL && strcmp(argument, "DIR") == 0) hr__path_clean(optarg);
  cli->values[index] = optarg != NULL ? optarg : "";
  if (!several) return HR_OK;
  HR_TRY(listed_add(cli, optarg, err));
  while (optind < argc && argv[optind][0] != '-')
    HR_TRY(listed_add(cli, argv[optind++], err));
  return HR_OK;
}

/* Takes options up to the first argument that is none (without a command) or all of them (with one). */
static hr_status options_take(hr_cli *cli, int argc, char **argv, hr_error *err) {
  struct option known[HR_CLI_GLOBAL_OPTIONS + HR_CLI_OPTIONS + 1] = {0};
  size_t count = 0;
  for (size_t i = 0; i < HR_CLI_GLOBAL_OPTIONS; i++)
    known[count++] = (struct option){hr_cli_global_options[i].name,
                                     hr_cli_global_options[i].argument != NULL ? required_argument : no_argument, NULL,
                                     FIRST_GLOBAL + (int)i};
  for (size_t i = 0; cli->command != NULL && i < cli->command->n_options; i++)
    known[count++] = (struct option){cli->command->options[i].name,
                                     cli->command->options[i].argument != NULL ? required_argument : no_argument, NULL,
                                     FIRST_OWN + (int)i};
  opterr = 0;
  for (;;) {
    int code = getopt_long(argc, argv, cli->command == NULL ? "+:hq" : ":hqf", known, NULL);
    if (code == -1) return HR_OK;
    if (code == 'h') code = FIRST_GLOBAL + 4;
    if (code == 'q') code = FIRST_GLOBAL + 2;
    if (code == 'f') { /* of the one command that follows anything */
      int follow = hr__cli_option_index(cli, "follow");
      code = follow >= 0 ? FIRST_OWN + follow : '?';
    }
    if (code == '?' || code == ':') {
      /* A short option has its letter in optopt; a long one is the last word that was looked at. */
      char letter[3] = {'-', (char)optopt, '\0'};
      bool is_short = optopt > 0 && optopt < FIRST_GLOBAL;
      return hr__cli_unknown_option(cli, known, count, is_short ? letter : argv[optind - 1],
                                    optind < argc ? argv[optind] : NULL, code == ':', err);
    }
    const char *typed = argv[optind - (optarg != NULL && optarg == argv[optind - 1] ? 2 : 1)];
    if (code >= FIRST_OWN && hr__cli_is_of_another(typed, cli->command->options[code - FIRST_OWN].name))
      return hr__cli_unknown_option(cli, known, count, typed, optarg, false, err);
    if (code >= FIRST_OWN)
      HR_TRY(own_take(cli, code - FIRST_OWN, argc, argv, err));
    else
      HR_TRY(global_take(cli, code - FIRST_GLOBAL, optarg, err));
  }
}

static hr_status command_find(hr_cli *cli, const char *name, hr_error *err) {
  for (const hr_cli_command *const *c = hr_cli_commands; *c != NULL; c++)
    if (strcmp((*c)->name, name) == 0) {
      cli->command = *c;
      return HR_OK;
    }
  return hr__cli_unknown_command(name, err);
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
      return hr__fail(err, HR_USAGE, NULL,
                      cli->command->subject ? "give one, and a text in quotes"
                                            : "one recipe at a time; settings are changed with --set key.path=value",
                      "unexpected argument '%s'", argv[first + i]);
    hr__path_clean(argv[first + i]); /* every argument is a path */
    cli->arguments[cli->n_arguments++] = argv[first + i];
  }
  if (!cli->help && !cli->version && cli->n_arguments < cli->command->min_arguments) {
    char remedy[160];
    snprintf(remedy, sizeof remedy, "headroom %s %s", cli->command->name, cli->command->usage);
    return hr__fail(err, HR_USAGE, NULL, remedy, "headroom %s needs %s", cli->command->name,
                    cli->command->subject ? cli->command->subject : "a recipe");
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

const char *hr__cli_given(const hr_cli *cli, const char *name, size_t *at) {
  int index = hr__cli_option_index(cli, name);
  while (*at < cli->n_repeated) {
    size_t i = (*at)++;
    if (cli->repeated[i].option == index) return cli->repeated[i].value;
  }
  return NULL;
}

hr_status hr__cli_float(const hr_cli *cli, const char *name, double least, double most, double fallback, double *out,
                        hr_error *err) {
  const char *text = hr__cli_value(cli, name);
  *out = fallback;
  if (text == NULL) return HR_OK;
  char place[64], *end = NULL;
  snprintf(place, sizeof place, "--%s", name);
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= least && value <= most))
    return hr__fail(err, HR_USAGE, place, NULL, "'%s' is not a number between %g and %g", text, least, most);
  *out = value;
  return HR_OK;
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
