/* Answers about runs: what `train --json` and `profile --json` print, and the library hands out. NULL: out of memory.
 */
#ifndef HR_TRAIN_ANSWER_H
#define HR_TRAIN_ANSWER_H

#include "job/times.h"
#include "train/train.h"

/* `train --json`; `status` is how the run ended, `out` its folder or NULL. */
json_t *hr__answer_train(const hr_job *job, const hr_train_result *result, hr_status status, const char *out);
/* `profile --json`: the plan's object with "measured", and where the time goes. */
json_t *hr__answer_profile(const hr_job *job, const hr_profile *profile, const hr_times *times);

#endif
