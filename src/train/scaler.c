/* See scaler.h. */
#include "train/scaler.h"

#include <math.h>

void hr__scaling_read(const hr_recipe *recipe, hr_scaling *out) {
  *out = (hr_scaling){.init = (float)hr__recipe_float(recipe, "training.loss_scale.init"),
                      .growth = (float)hr__recipe_float(recipe, "training.loss_scale.growth"),
                      .backoff = (float)hr__recipe_float(recipe, "training.loss_scale.backoff"),
                      .interval = hr__recipe_int(recipe, "training.loss_scale.growth_interval")};
}

hr_scaler hr__scaler_begin(const hr_scaling *scaling) {
  return (hr_scaler){.scale = scaling->init};
}

bool hr__scaler_note(const hr_scaling *scaling, hr_scaler *s, bool skipped) {
  if (skipped) {
    s->scale *= scaling->backoff;
    s->good_steps = 0;
    s->skipped_in_a_row++;
    return s->scale >= 1 && s->skipped_in_a_row < HR_SCALER_SKIPS;
  }
  s->applied_steps++;
  s->skipped_in_a_row = 0;
  if (++s->good_steps < scaling->interval) return true;
  float grown = s->scale * scaling->growth;
  if (isfinite(grown)) s->scale = grown;
  s->good_steps = 0;
  return true;
}
