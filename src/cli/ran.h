/* A run that is used: its model as the newest checkpoint has it, with its data or other data, planned and loaded. */
#ifndef HR_CLI_RAN_H
#define HR_CLI_RAN_H

#include "cli/cli.h"
#include "job/job.h"
#include "train/session.h"

typedef struct hr_ran {
  hr_cli *cli;
  const char *run;    /* folder */
  const char *folder; /* of its newest checkpoint */
  hr_job *job;
  hr_device *device;
  hr_train_options options;
  hr_session session;
} hr_ran;

/* Plans the use of cli->arguments[0], with the data of --data where it is given. `own` are settings of the command,
 * which go before those of the run; --set goes before both. */
hr_status hr__ran_plan(hr_ran *ran, const char *const *own, size_t n_own, hr_error *err);
/* Checks that it fits, and brings weights into place. */
hr_status hr__ran_load(hr_ran *ran, hr_error *err);
void hr__ran_close(hr_ran *ran); /* also of one that failed half-way */

#endif
