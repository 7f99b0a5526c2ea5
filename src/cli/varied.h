/* One thing about a plan that takes several values: what --sweep, --smallest-gpu and --largest try, and how they show
 * each. */
#ifndef HR_CLI_VARIED_H
#define HR_CLI_VARIED_H

#include "cli/cli.h"
#include "cli/jobs.h"

typedef struct hr_varied {
  hr_cli *cli;
  const char *key;
  int option; /* of the command, under that name; -1: the key of a setting */
  size_t own; /* overrides of --set */
  int column; /* width of the values in a table */
} hr_varied;

/* `key` is an option of the command that takes a value, or the key of a setting; `place` is who asks. */
hr_status hr__varied_init(hr_varied *v, hr_cli *cli, const char *key, const char *place, hr_error *err);
/* Opens the job with one value. */
hr_status hr__varied_open(const hr_varied *v, const char *value, hr_cli_rates rates, hr_job **job, hr_error *err);

/* A table of 80 columns: its head, a value that was planned, and one that could not be. */
void hr__varied_head(const hr_varied *v);
void hr__varied_print(const hr_varied *v, const hr_job *job, const char *value);
void hr__varied_print_refused(const hr_varied *v, const hr_error *why, const char *value);
/* The same as objects; NULL: out of memory. */
json_t *hr__varied_json(const hr_job *job, const char *value);
json_t *hr__varied_json_refused(const hr_cli *cli, const hr_error *why, const char *value);

#endif
