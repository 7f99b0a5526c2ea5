/* The command line: one struct per call, one file per subcommand, one table per command that both getopt and the help
 * text are made from. Results go to stdout, everything for a person who waits goes to stderr. */
#ifndef HR_CLI_CLI_H
#define HR_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/text.h"

typedef struct hr_cli_option {
  const char *name;     /* long name without dashes */
  const char *argument; /* what help calls the value; NULL: a flag; ending in "...": all words up to the next option;
                           ending in " ..": it may be given several times (hr__cli_given) */
  const char *meaning;  /* NULL: not shown in help */
} hr_cli_option;

enum {
  HR_CLI_ARGUMENTS = 64,
  HR_CLI_OPTIONS = 32,
  HR_CLI_GLOBAL_OPTIONS = 6
}; /* of one command without those of all, and these */
extern const hr_cli_option hr_cli_global_options[HR_CLI_GLOBAL_OPTIONS];

typedef struct hr_cli hr_cli;

typedef struct hr_cli_command {
  const char *name;
  const char *usage;   /* positional arguments as help shows them */
  const char *summary; /* one line */
  const char *details; /* (optional) further lines of help */
  const char *subject; /* what its argument is where that is no recipe; NULL: a recipe */
  /* Calls that work as they are in the root of the source tree, one a line, without the program's name. Tests run them.
   */
  const char *examples;
  const hr_cli_option *options;
  size_t n_options;
  int min_arguments, max_arguments;
  hr_status (*run)(hr_cli *cli, hr_error *err);
} hr_cli_command;

struct hr_cli {
  hr_arena arena;
  const char *program;           /* as it was called where that was by a path, else "headroom" */
  const hr_cli_command *command; /* NULL until known */
  bool json, help, version;
  bool quiet;          /* no tables, progress or remarks: only errors, JSON, and the text of dump */
  bool run_given;      /* the argument is the folder of a run: errors say what is wrong with it */
  bool answered;       /* the output already tells what the status says */
  const char *gpu;     /* of this machine; NULL: none that can be used, as far as it was looked for */
  bool gpu_looked_for; /* cli/jobs.c */
  const char *stage;   /* of a recipe with stages: the one at work, which errors name; NULL: none */
  hr_color_mode color;
  const char **overrides; /* --set, in order */
  size_t n_overrides, cap_overrides;
  const char *arguments[HR_CLI_ARGUMENTS];
  int n_arguments;
  const char *values[HR_CLI_OPTIONS]; /* by position in the command's options; "" for a flag that was given */
  const char **listed;                /* words of the one option that takes several, each time it was given, in order */
  size_t n_listed, cap_listed;
  struct {
    int option;
    const char *value;
  } * repeated; /* values of options that may be given several times, in order */
  size_t n_repeated, cap_repeated;
};

extern const hr_cli_command hr_cli_plan, hr_cli_train, hr_cli_profile, hr_cli_report, hr_cli_monitor, hr_cli_log,
    hr_cli_apply, hr_cli_dump, hr_cli_generate, hr_cli_embed, hr_cli_merge, hr_cli_tokenize, hr_cli_prepare,
    hr_cli_devices, hr_cli_env;
extern const hr_cli_command *const hr_cli_commands[]; /* ends with NULL */

/* Fills `cli` from the arguments. HR_USAGE names the nearest thing that exists. */
hr_status hr__cli_parse(hr_cli *cli, int argc, char **argv, hr_error *err);
bool hr__cli_flag(const hr_cli *cli, const char *name);
/* Number of an option of the command in `values`; -1: it has none of that name. */
int hr__cli_option_index(const hr_cli *cli, const char *name);
const char *hr__cli_value(const hr_cli *cli, const char *name); /* NULL when not given */
/* The next value of an option that may be given several times; *at begins as 0. NULL: no more. */
const char *hr__cli_given(const hr_cli *cli, const char *name, size_t *at);
/* A number within limits; `fallback` when the option was not given. */
hr_status hr__cli_float(const hr_cli *cli, const char *name, double least, double most, double fallback, double *out,
                        hr_error *err);
/* A whole number >= `least`; `fallback` when the option was not given. */
hr_status hr__cli_int(const hr_cli *cli, const char *name, int64_t least, int64_t fallback, int64_t *out,
                      hr_error *err);

/* An override from an option of the command's own, after those of --set. */
__attribute__((format(printf, 3, 4))) hr_status hr__cli_override(hr_cli *cli, hr_error *err, const char *format, ...);

/* The same of an option that is a size, where it was given. */
/* --stage NAME: the recipe's stage of that name alone. */
#define HR_STAGE_OPTION                                                                                                \
  { "stage", "NAME", "one stage of the recipe alone" }
hr_status hr__cli_stage_override(hr_cli *cli, hr_error *err);
hr_status hr__cli_size_override(hr_cli *cli, const char *option, const char *path, hr_error *err);

/* Help on the command, or on the program where none was given. One screen: 40 lines of 80 columns. */
void hr__cli_help(const hr_cli *cli, FILE *to);

/* The nearest of `count` names to what was typed, or NULL when none is near. */
const char *hr__cli_nearest(const char *typed, const char *const *names, size_t count);

/* Escape codes, empty without colours. */
typedef struct hr_style {
  const char *bold, *dim, *red, *green, *yellow, *end;
} hr_style;
hr_style hr__cli_style(const hr_cli *cli, FILE *stream);

/* Text for people, from a column on: broken between words by the width of a terminal, with further lines behind
 * `indent` blanks; elsewhere as it is, for programs that look for it. */
void hr__cli_wrap(FILE *to, const char *text, size_t column, size_t indent);
/* The same as a line behind a label, which is in colour ("warning:") or not (color ""). */
void hr__cli_tell(const hr_cli *cli, FILE *to, const char *color, const char *label, const char *text);

/* Where progress is shown: stderr, or with --quiet and --json nowhere (NULL). */
FILE *hr__cli_progress(const hr_cli *cli);

/* The one place that shows an error: text on stderr, with --json an object on stdout. */
void hr__cli_show_error(const hr_cli *cli, const hr_error *err);

/* {"error": {...}}; NULL: out of memory. */
json_t *hr__cli_error_json(const hr_cli *cli, const hr_error *err);
/* What `message` of a wrong call is followed by: the help that shows how it is called. */
enum { HR_CLI_HINT = 64 };
const char *hr__cli_hint(const hr_cli *cli, char out[HR_CLI_HINT]);
/* Writes `object` to stdout and releases it. NULL counts as out of memory. */
hr_status hr__cli_put_json(json_t *object, hr_error *err);
/* stdout was written completely; a full disk or closed pipe is an error as any other. */
hr_status hr__cli_flush(hr_error *err);

#endif
