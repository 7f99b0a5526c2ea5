/* The learning rate as a function of the step alone. */
#ifndef HR_TRAIN_SCHEDULE_H
#define HR_TRAIN_SCHEDULE_H

#include "recipe/recipe.h"

/* After warm-up, in the order of the words of training.schedule.kind. */
typedef enum hr_schedule_kind { HR_SCHEDULE_CONSTANT, HR_SCHEDULE_LINEAR, HR_SCHEDULE_COSINE } hr_schedule_kind;

typedef struct hr_schedule {
  hr_schedule_kind kind;
  double lr; /* highest */
  int64_t warmup, steps;
  double min_ratio;    /* linear, cosine: lr x min_ratio at the end */
  double beta1, beta2; /* of the optimizer, for its bias corrections */
} hr_schedule;

/* `steps`: length of the run; 0: training.steps. */
void hr__schedule_read(const hr_recipe *recipe, int64_t steps, hr_schedule *out);

/* Learning rate of optimizer step `step`, from 1. As the usual PyTorch trainers count: step 1 of a warm-up has rate 0,
 * step warmup + 1 the full rate, and what falls reaches its end at step steps + 1. */
double hr__schedule_lr(const hr_schedule *schedule, int64_t step);

#endif
