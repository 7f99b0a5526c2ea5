/* Answers about plans: what `plan --json` prints, and the library hands out. NULL: out of memory. */
#ifndef HR_JOB_ANSWER_H
#define HR_JOB_ANSWER_H

#include "job/job.h"

/* `changes` (may be none) are what would fit. */
json_t *hr__answer_plan(const hr_job *job, const hr_change *changes, int n_changes);

/* Where the plan's seconds come from: "measured", "catalogue" or "default". */
const char *hr__answer_rates(const hr_job *job);
/* Rows by the plan's seconds. */
double hr__answer_samples_per_second(const hr_job *job);
double hr__answer_tokens_per_second(const hr_job *job); /* 0: the model takes none */

#endif
