/* See answer.h. */
#include "train/answer.h"

#include <math.h>

#include "format/json.h"
#include "job/answer.h"

static json_int_t resident_sum(const uint64_t resident[HR_CAT_COUNT]) {
  uint64_t sum = 0;
  for (int c = 0; c < HR_CAT_COUNT; c++)
    sum += resident[c];
  return (json_int_t)sum;
}

/* "losses" and "metrics" of a model that has several. */
static int reports_add(json_t *answer, const hr_reports *reports) {
  json_t *losses = json_object(), *metrics = json_object();
  int failed = json_object_set_new(answer, "losses", losses) | json_object_set_new(answer, "metrics", metrics);
  for (int i = 0; i < reports->count && !failed; i++)
    failed = json_object_set_new(reports->list[i].metric ? metrics : losses, reports->list[i].name,
                                 isfinite(reports->values[i]) ? json_real(reports->values[i]) : json_null());
  return failed;
}

/* "best" is null where nothing was evaluated, or never gave a finite metric. */
static int best_add(json_t *answer, const hr_train_result *result) {
  json_t *best = json_null();
  if (result->best.step > 0)
    best = json_pack("{s:s, s:f, s:I}", "metric", result->best_metric, "value", result->best.value, "step",
                     (json_int_t)result->best.step);
  return json_object_set_new(answer, "stopped_early", json_boolean(result->stopped_early)) |
         json_object_set_new(answer, "best", best);
}

/* {"classes": names, "counts": rows of samples of a class, by what they were taken for} */
static json_t *confusion_json(const hr_confusion *confusion) {
  json_t *names = json_array(), *counts = json_array();
  int failed = 0;
  for (int i = 0; i < confusion->classes && !failed; i++) {
    json_t *row = json_array();
    for (int k = 0; k < confusion->classes && !failed; k++)
      failed = json_array_append_new(row, json_integer(confusion->counts[i][k]));
    failed |= json_array_append_new(counts, row) | json_array_append_new(names, hr__json_string(confusion->names[i]));
  }
  json_t *both = json_pack("{s:o, s:o}", "classes", names, "counts", counts);
  if (!failed) return both;
  json_decref(both);
  return NULL;
}

/* What the newest evaluation gave beside its loss. */
static int evaluation_add(json_t *answer, const hr_train_result *result) {
  const hr_reports *reports = &result->eval_reports;
  json_t *metrics = json_object();
  int failed = 0;
  for (int i = 0; i < reports->count && !failed; i++)
    if (reports->list[i].metric)
      failed = json_object_set_new(metrics, reports->list[i].name,
                                   isfinite(reports->values[i]) ? json_real(reports->values[i]) : json_null());
  if (!failed && json_object_size(metrics) > 0)
    failed = json_object_set_new(answer, "eval_metrics", metrics);
  else
    json_decref(metrics);
  if (!failed && result->confusion.classes > 0)
    failed = json_object_set_new(answer, "confusion", confusion_json(&result->confusion));
  return failed;
}

json_t *hr__answer_train(const hr_job *job, const hr_train_result *result, hr_status status, const char *out) {
  double step_seconds = result->steps_here > 0 ? result->seconds / (double)result->steps_here : 0;
  bool evaluated = isfinite(result->eval_loss) && result->eval_loss >= 0;
  json_t *answer = json_pack(
      "{s:i, s:s, s:I, s:I, s:f, s:o, s:f, s:f, s:f, s:{s:I, s:f}, s:{s:I, s:I, s:I, s:f}, s:s, s:s, s:o}", "schema", 1,
      "status", hr_status_name(status), "steps", (json_int_t)result->steps, "steps_here",
      (json_int_t)result->steps_here, "loss", result->loss, "eval_loss",
      evaluated ? json_real(result->eval_loss) : json_null(), "seconds", result->seconds, "tokens_per_second",
      result->tokens_per_second, "samples_per_second", result->samples_per_second, "planned", "peak_bytes",
      (json_int_t)result->planned_bytes, "step_seconds", job->plan->step_seconds, "measured", "arena_bytes",
      (json_int_t)result->arena_bytes, "resident_bytes", resident_sum(result->resident[HR_TIER_DEVICE]), "peak_bytes",
      (json_int_t)result->measured_bytes, "step_seconds", step_seconds, "weights_sha256", result->weights_sha256,
      "fingerprint", job->plan->fingerprint, "out", out ? hr__json_string(out) : json_null());
  if (answer && (best_add(answer, result) | evaluation_add(answer, result)) != 0) {
    json_decref(answer);
    return NULL;
  }
  if (answer && result->reports.count > 1 && reports_add(answer, &result->reports) == 0) return answer;
  if (answer && result->reports.count <= 1) return answer;
  json_decref(answer);
  return NULL;
}

/* {"device": {"arena_bytes", "resident_bytes", "categories"}, ...}: what was taken, and what is held of it. */
static json_t *tiers_json(const hr_profile *profile) {
  json_t *tiers = json_object();
  int failed = tiers == NULL;
  for (int t = 0; t < HR_TIER_COUNT && !failed; t++) {
    json_t *categories = json_object();
    failed = categories == NULL;
    for (int c = 0; c < HR_CAT_FIXED && !failed; c++)
      failed = json_object_set_new(categories, hr_category_name((hr_category)c),
                                   json_integer((json_int_t)profile->resident[t][c]));
    if (failed)
      json_decref(categories);
    else
      failed = json_object_set_new(tiers, hr_tier_name((hr_tier)t),
                                   json_pack("{s:I, s:I, s:o}", "arena_bytes", (json_int_t)profile->arena_bytes[t],
                                             "resident_bytes", resident_sum(profile->resident[t]), "categories",
                                             categories));
  }
  if (!failed) return tiers;
  json_decref(tiers);
  return NULL;
}

/* [{"op" or "class", "planned_seconds", "measured_seconds"}] */
static json_t *times_json(const char *word, const hr_time *times, size_t count) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, json_pack("{s:s, s:f, s:f}", word, times[i].name, "planned_seconds",
                                                   times[i].planned, "measured_seconds", times[i].measured));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

json_t *hr__answer_profile(const hr_job *job, const hr_profile *profile, const hr_times *times) {
  json_t *answer = hr__answer_plan(job, NULL, 0);
  json_t *measured = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:i, s:o}", "arena_bytes",
                               (json_int_t)profile->arena_bytes[HR_TIER_DEVICE], "resident_bytes",
                               resident_sum(profile->resident[HR_TIER_DEVICE]), "process_bytes",
                               (json_int_t)profile->process_bytes, "step_seconds", profile->step_seconds,
                               "tokens_per_second", profile->tokens_per_second, "samples_per_second",
                               profile->samples_per_second, "steps", profile->steps, "tiers", tiers_json(profile));
  int failed = answer == NULL || measured == NULL || json_object_set(answer, "measured", measured) != 0;
  json_decref(measured);
  if (!failed) failed = json_object_set_new(answer, "classes", times_json("class", times->classes, times->n_classes));
  if (!failed) failed = json_object_set_new(answer, "ops", times_json("op", times->ops, times->n_ops));
  if (!failed) return answer;
  json_decref(answer);
  return NULL;
}
