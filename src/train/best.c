/* See best.h. */
#include "train/best.h"

#include <math.h>
#include <string.h>

#include "job/settings.h"

static const char METRIC[] = "training.best.metric", PATIENCE[] = "training.patience";

/* Number of a metric in the model's list; -1: it is the loss as a whole; `count`: there is none of that name. */
static int metric_find(const hr_reports *reports, const char *metric) {
  int i = 0;
  if (strcmp(metric, "loss") == 0) return -1;
  while (i < reports->count && strcmp(reports->list[i].name, metric) != 0)
    i++;
  return i;
}

static hr_status metric_check(const hr_recipe *recipe, const hr_reports *reports, const char *metric, hr_error *err) {
  char names[HR_REPORTED * 34 + 8] = "loss";
  size_t used = strlen(names);
  if (metric_find(reports, metric) < reports->count) return HR_OK;
  for (int i = 0; i < reports->count; i++)
    if (strcmp(reports->list[i].name, "loss") != 0)
      used += (size_t)snprintf(names + used, sizeof names - used, ", %.32s", reports->list[i].name);
  char remedy[sizeof names + 32];
  snprintf(remedy, sizeof remedy, "use one of: %s", names);
  return hr__recipe_fail(recipe, METRIC, remedy, err, "the model does not report \"%s\"", metric);
}

hr_status hr__best_read(const hr_recipe *recipe, const hr_reports *reports, hr_best_rule *out, hr_error *err) {
  *out = (hr_best_rule){.metric = hr__recipe_text(recipe, METRIC),
                        .highest = hr__recipe_word_is(recipe, "training.best.order", "highest"),
                        .min_delta = hr__recipe_float(recipe, "training.best.min_delta"),
                        .patience = hr__recipe_has(recipe, PATIENCE) ? hr__recipe_int(recipe, PATIENCE) : 0};
  HR_TRY(hr__settings_evaluated(recipe, err));
  return metric_check(recipe, reports, out->metric, err);
}

double hr__best_metric(const hr_best_rule *rule, double loss, const hr_reports *reports) {
  int i = metric_find(reports, rule->metric);
  return i < 0 ? loss : reports->values[i];
}

void hr__best_note(const hr_best_rule *rule, hr_best *best, int64_t step, double value) {
  double by = rule->highest ? value - best->value : best->value - value;
  if (!isfinite(value) || (best->step > 0 && !(by > rule->min_delta)))
    best->waited++;
  else
    *best = (hr_best){.value = value, .step = step};
}

bool hr__best_over(const hr_best_rule *rule, const hr_best *best) {
  return rule->patience > 0 && best->waited >= rule->patience;
}
