/* Runs of `headroom report`: their folders, and the plans that their settings come to. */
#ifndef HR_CLI_REPORT_RUN_H
#define HR_CLI_REPORT_RUN_H

#include "cli/cli.h"
#include "job/job.h"

/* Whether a path is the folder of a run. */
bool hr__report_is_run(const char *path);
/* Names of the folders in it that are, one for each stage of a recipe, in the order in which they were begun; none
 * where it is no such folder. In the arena. */
hr_status hr__report_stages(hr_arena *arena, const char *path, const char ***folders, size_t *count, hr_error *err);

/* The plan of a run by the settings of its newest checkpoint; NULL with the reason in *why where there is none. Weights
 * are not read. */
hr_status hr__report_run_plan(hr_cli *cli, const char *folder, hr_job **job, hr_error *why, hr_error *err);

#endif
