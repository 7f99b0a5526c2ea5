/* When a run saves: every so many steps, every so many minutes, and again soon after a save that found no room. What a
 * run computes does not depend on it. */
#ifndef HR_TRAIN_SAVING_H
#define HR_TRAIN_SAVING_H

#include "recipe/recipe.h"

typedef struct hr_saving {
  int64_t steps;  /* between checkpoints; 0: not by steps */
  double seconds; /* between checkpoints; 0: not by time */
  double next;    /* hr__seconds_now() from which one is due whatever the step; infinite: never */
} hr_saving;

enum { HR_SAVE_MINUTES = 30, HR_SAVE_AGAIN_MINUTES = 5 }; /* where the recipe says nothing; after one without room */

/* training.save_every and training.save_minutes; `now` is the time at which the run begins. */
void hr__saving_begin(hr_saving *saving, const hr_recipe *recipe, double now);
bool hr__saving_due(const hr_saving *saving, int64_t step, double now);
void hr__saving_done(hr_saving *saving, double now);
void hr__saving_postpone(hr_saving *saving, double now); /* there was no room */

#endif
