/* See saving.h. */
#include "train/saving.h"

#include <math.h>

void hr__saving_begin(hr_saving *s, const hr_recipe *recipe, double now) {
  static const char steps[] = "training.save_every", minutes[] = "training.save_minutes";
  *s = (hr_saving){.steps = hr__recipe_has(recipe, steps) ? hr__recipe_int(recipe, steps) : 0};
  if (hr__recipe_has(recipe, minutes))
    s->seconds = 60 * hr__recipe_float(recipe, minutes);
  else if (s->steps == 0)
    s->seconds = 60 * HR_SAVE_MINUTES;
  hr__saving_done(s, now);
}

bool hr__saving_due(const hr_saving *s, int64_t step, double now) {
  return now >= s->next || (s->steps > 0 && step % s->steps == 0);
}

void hr__saving_done(hr_saving *s, double now) {
  s->next = s->seconds > 0 ? now + s->seconds : (double)INFINITY;
}

void hr__saving_postpone(hr_saving *s, double now) {
  double again = 60 * HR_SAVE_AGAIN_MINUTES;
  s->next = now + (s->seconds > 0 && s->seconds < again ? s->seconds : again);
}
