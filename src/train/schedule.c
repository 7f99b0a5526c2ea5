/* Linear warm-up, then constant or cosine. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

void hr__schedule_read(const hr_recipe *recipe, int64_t steps, hr_schedule *out) {
  const double *betas = hr__recipe_floats(recipe, "training.optimizer.betas");
  *out = (hr_schedule){.lr = hr__recipe_float(recipe, "training.optimizer.lr"),
                       .warmup = hr__recipe_int(recipe, "training.schedule.warmup_steps"),
                       .steps = steps > 0 ? steps : hr__recipe_int(recipe, "training.steps"),
                       .cosine = strcmp(hr__recipe_text(recipe, "training.schedule.kind"), "cosine") == 0,
                       .min_ratio = hr__recipe_float(recipe, "training.schedule.min_lr_ratio"),
                       .beta1 = betas[0],
                       .beta2 = betas[1]};
}

double hr__schedule_lr(const hr_schedule *s, int64_t step) {
  int64_t done = step - 1;
  if (done < s->warmup) return s->lr * (double)done / (double)s->warmup;
  if (!s->cosine) return s->lr;
  int64_t length = s->steps - s->warmup;
  double progress = length > 0 ? (double)(done - s->warmup) / (double)length : 1;
  if (progress > 1) progress = 1;
  double shape = 0.5 * (1 + cos(3.14159265358979323846 * progress));
  return s->lr * (s->min_ratio + (1 - s->min_ratio) * shape);
}
