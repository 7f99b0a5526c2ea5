/* Linear warm-up, then constant, linear or cosine. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

static hr_schedule_kind kind_read(const hr_recipe *recipe) {
  const char *kind = hr__recipe_text(recipe, "training.schedule.kind");
  if (strcmp(kind, "constant") == 0) return HR_SCHEDULE_CONSTANT;
  return strcmp(kind, "linear") == 0 ? HR_SCHEDULE_LINEAR : HR_SCHEDULE_COSINE;
}

/* A share of the run is rounded up to whole steps. */
static int64_t warmup_read(const hr_recipe *recipe, int64_t steps) {
  static const char ratio[] = "training.schedule.warmup_ratio";
  if (!hr__recipe_has(recipe, ratio)) return hr__recipe_int(recipe, "training.schedule.warmup_steps");
  return (int64_t)ceil(hr__recipe_float(recipe, ratio) * (double)steps);
}

void hr__schedule_read(const hr_recipe *recipe, int64_t steps, hr_schedule *out) {
  const double *betas = hr__recipe_floats(recipe, "training.optimizer.betas");
  if (steps == 0) steps = hr__recipe_int(recipe, "training.steps");
  *out = (hr_schedule){.kind = kind_read(recipe),
                       .lr = hr__recipe_float(recipe, "training.optimizer.lr"),
                       .warmup = warmup_read(recipe, steps),
                       .steps = steps,
                       .min_ratio = hr__recipe_float(recipe, "training.schedule.min_lr_ratio"),
                       .beta1 = betas[0],
                       .beta2 = betas[1]};
}

double hr__schedule_lr(const hr_schedule *s, int64_t step) {
  int64_t done = step - 1;
  if (done < s->warmup) return s->lr * (double)done / (double)s->warmup;
  if (s->kind == HR_SCHEDULE_CONSTANT) return s->lr;
  int64_t length = s->steps - s->warmup;
  double progress = length > 0 ? (double)(done - s->warmup) / (double)length : 1;
  if (progress > 1) progress = 1;
  double shape = s->kind == HR_SCHEDULE_LINEAR ? 1 - progress : 0.5 * (1 + cos(3.14159265358979323846 * progress));
  return s->lr * (s->min_ratio + (1 - s->min_ratio) * shape);
}
