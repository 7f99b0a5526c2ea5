/* Opening a job from the command line. */
#ifndef HR_CLI_JOBS_H
#define HR_CLI_JOBS_H

#include "cli/cli.h"
#include "train/job.h"

/* hr__job_open, or with --auto hr__job_open_all. On a GPU of this machine whose rates nobody has measured yet they are
 * measured first, once, in a process of its own: library code that is loaded for it would count as this process's
 * memory. Where that fails the catalogue's are used. */
hr_status hr__cli_job_open(const hr_cli *cli, const hr_job_source *source, hr_job **out, hr_error *err);

#endif
