/* Answers: the JSON objects that commands print with --json and that the library hands out. NULL: out of memory. */
#ifndef HR_TRAIN_ANSWER_H
#define HR_TRAIN_ANSWER_H

#include "train/times.h"
#include "train/train.h"

/* `plan --json`; `changes` (may be none) are what would fit. */
json_t *hr__answer_plan(const hr_job *job, const hr_change *changes, int n_changes);
/* `train --json`; `status` is how the run ended, `out` its folder or NULL. */
json_t *hr__answer_train(const hr_job *job, const hr_train_result *result, hr_status status, const char *out);
/* `profile --json`: the plan's object with "measured", and where the time goes. */
json_t *hr__answer_profile(const hr_job *job, const hr_profile *profile, const hr_times *times);

/* Where the plan's seconds come from: "measured", "catalogue" or "default". */
const char *hr__answer_rates(const hr_job *job);
/* Rows by the plan's seconds. */
double hr__answer_samples_per_second(const hr_job *job);

#endif
