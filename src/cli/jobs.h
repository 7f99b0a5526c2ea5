/* Opening a job from the command line. */
#ifndef HR_CLI_JOBS_H
#define HR_CLI_JOBS_H

#include "cli/cli.h"
#include "job/job.h"

/* What of a GPU is measured before a job is opened. */
typedef enum hr_cli_rates {
  HR_CLI_RATES_PLAN, /* the rates of the device, where the plan depends on them: to begin a run soon */
  HR_CLI_RATES_NODES /* and every kind of node of the recipe: to say how long a step takes */
} hr_cli_rates;

/* hr__job_open, or with --auto hr__job_open_all. A recipe that names no device is for the GPU of this machine where one
 * can be used, which is said in one line; what plan says is so what train does. On a GPU of this machine what nobody
 * has measured yet is measured first, once, in a process of its own: library code that is loaded for it would count as
 * this process's memory. Where that fails the catalogue's rates are used. */
hr_status hr__cli_job_open(hr_cli *cli, const hr_job_source *source, hr_cli_rates wanted, hr_job **out, hr_error *err);

#endif
