/* What plan, train and profile say about a recipe that does not fit: who owns the memory, and what would fit. */
#ifndef HR_CLI_FIT_H
#define HR_CLI_FIT_H

#include "cli/cli.h"
#include "job/job.h"

/* A line with --set, from a column on; in quotes where a shell would take it apart. */
void hr__fit_set(int column, const char *override, FILE *to);
/* The largest tensors at the peak. */
void hr__fit_owners(const hr_job *job, FILE *to);
/* The changes that would fit, fastest first. */
void hr__fit_changes(const hr_job *job, const hr_change *changes, int count, FILE *to);
/* The fastest change that keeps the result, or else the fastest of all; NULL: there is none. */
const hr_change *hr__fit_cheapest(const hr_change *changes, int count);

/* HR_OK when the job fits. Else HR_NO_FIT, shown in full already: on stderr, or as {"error", "plan"} with --json. */
hr_status hr__fit_check(hr_cli *cli, const hr_job *job, hr_error *err);

#endif
