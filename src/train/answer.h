/* Answers: the JSON objects that commands print with --json and that the library hands out. NULL: out of memory. */
#ifndef HR_TRAIN_ANSWER_H
#define HR_TRAIN_ANSWER_H

#include "train/job.h"
#include "train/train.h"

/* `plan --json`; `changes` (may be none) are what would fit. */
json_t *hr__answer_plan(const hr_job *job, const hr_change *changes, int n_changes);
/* `train --json`; `status` is how the run ended, `out` its folder or NULL. */
json_t *hr__answer_train(const hr_job *job, const hr_train_result *result, hr_status status, const char *out);
/* `profile --json`: the plan's object with "measured". */
json_t *hr__answer_profile(const hr_job *job, const hr_profile *profile);

#endif
