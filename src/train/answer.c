/* answer: see answer.h. */
#include "train/answer.h"

#include <math.h>

#include "dev/gpus.h"
#include "format/json.h"
#include "plan/report.h"

static json_t *change_json(const hr_change *change) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int i = 0; i < change->n_overrides && !failed; i++)
    failed = json_array_append_new(list, json_string(change->override[i]));
  if (failed) {
    json_decref(list);
    return NULL;
  }
  const uint64_t *peaks = change->planned.peak_bytes;
  return json_pack("{s:o, s:I, s:I, s:I, s:f, s:b}", "set", list, "peak_bytes", (json_int_t)peaks[HR_TIER_DEVICE],
                   "host_bytes", (json_int_t)peaks[HR_TIER_HOST], "disk_bytes", (json_int_t)peaks[HR_TIER_DISK],
                   "step_seconds", change->planned.step_seconds, "changes_results", (int)change->changes_results);
}

static json_t *technique_json(const hr_technique *technique) {
  if (!technique->known) return json_pack("{s:s, s:n, s:n}", "name", technique->name, "saves_bytes", "costs_seconds");
  return json_pack("{s:s, s:I, s:f}", "name", technique->name, "saves_bytes", (json_int_t)technique->saves_bytes,
                   "costs_seconds", technique->costs_seconds);
}

static json_t *techniques_json(const hr_job *job) {
  hr_technique techniques[HR_TECHNIQUES];
  int count;
  hr_error err; /* can only be lack of memory */
  if (hr__job_techniques(job, techniques, &count, &err) != HR_OK) return NULL;
  json_t *list = json_array();
  int failed = list == NULL;
  for (int i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, technique_json(&techniques[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

/* What was kept of the outermost blocks, in order, equal neighbours together: ["3 x input", "5 x all"]. */
static json_t *keep_json(const hr_choices *choices) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0, end; i < choices->n_keep && !failed; i = end) {
    for (end = i; end < choices->n_keep && choices->keep[end] == choices->keep[i];)
      end++;
    failed = json_array_append_new(list, json_sprintf("%zu x %s", end - i, hr__keep_name(choices->keep[i])));
  }
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

/* What `auto` settings came to: null where there are none; bytes of a kind that stay, null where all of it does. */
static json_t *choices_json(const hr_chosen *chosen) {
  if (!chosen->any) return json_null();
  json_t *object = json_object(), *resident = json_object();
  int failed = object == NULL || resident == NULL;
  if (!failed && chosen->choices.keep) failed = json_object_set_new(object, "checkpoint", keep_json(&chosen->choices));
  for (int k = 0; k < HR_OFFLOAD_KINDS && !failed; k++) {
    uint64_t bytes = chosen->choices.offload[k].resident_bytes;
    if (chosen->open[k])
      failed = json_object_set_new(resident, hr__offload_name((hr_offload_kind)k),
                                   bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes));
  }
  if (!failed && chosen->split) failed = json_object_set_new(object, "slices", json_integer(chosen->choices.slices));
  if (!failed) failed = json_object_set(object, "resident_bytes", resident);
  json_decref(resident);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

/* Where the seconds come from. */
static const char *rates_word(const hr_job *job) {
  if (job->rates.measured) return "measured";
  return job->facts.kind == HR_CUDA && hr__gpu_find(job->facts.name) ? "catalogue" : "default";
}

json_t *hr__answer_plan(const hr_job *job, const hr_change *changes, int n_changes) {
  json_t *answer = hr__report_json(job->plan, &job->verdict, job->recipe);
  json_t *list = json_array();
  int failed = answer == NULL || list == NULL;
  for (int i = 0; i < n_changes && !failed; i++)
    failed = json_array_append_new(list, change_json(&changes[i]));
  if (!failed) failed = json_object_set(answer, "changes", list);
  if (!failed) failed = json_object_set_new(answer, "techniques", techniques_json(job));
  if (!failed) failed = json_object_set_new(json_object_get(answer, "device"), "rates", json_string(rates_word(job)));
  if (!failed) failed = json_object_set_new(answer, "choices", choices_json(&job->chosen));
  json_decref(list);
  if (!failed) return answer;
  json_decref(answer);
  return NULL;
}

static json_int_t resident_sum(const uint64_t resident[HR_CAT_COUNT]) {
  uint64_t sum = 0;
  for (int c = 0; c < HR_CAT_COUNT; c++)
    sum += resident[c];
  return (json_int_t)sum;
}

json_t *hr__answer_train(const hr_job *job, const hr_train_result *result, hr_status status, const char *out) {
  double step_seconds = result->steps_here > 0 ? result->seconds / (double)result->steps_here : 0;
  bool evaluated = isfinite(result->eval_loss) && result->eval_loss >= 0;
  return json_pack("{s:i, s:s, s:I, s:I, s:f, s:o, s:f, s:f, s:{s:I, s:f}, s:{s:I, s:I, s:I, s:f}, s:s, s:s, s:o}",
                   "schema", 1, "status", hr_status_name(status), "steps", (json_int_t)result->steps, "steps_here",
                   (json_int_t)result->steps_here, "loss", result->loss, "eval_loss",
                   evaluated ? json_real(result->eval_loss) : json_null(), "seconds", result->seconds,
                   "tokens_per_second", result->tokens_per_second, "planned", "peak_bytes",
                   (json_int_t)result->planned_bytes, "step_seconds", job->plan->step_seconds, "measured",
                   "arena_bytes", (json_int_t)result->arena_bytes, "resident_bytes", resident_sum(result->resident),
                   "peak_bytes", (json_int_t)result->measured_bytes, "step_seconds", step_seconds, "weights_sha256",
                   result->weights_sha256, "fingerprint", job->plan->fingerprint, "out",
                   out ? hr__json_string(out) : json_null());
}

json_t *hr__answer_profile(const hr_job *job, const hr_profile *profile) {
  json_t *answer = hr__answer_plan(job, NULL, 0);
  json_t *measured = json_pack(
      "{s:I, s:I, s:I, s:f, s:f, s:i}", "arena_bytes", (json_int_t)profile->arena_bytes[HR_TIER_DEVICE],
      "resident_bytes", resident_sum(profile->resident), "process_bytes", (json_int_t)profile->process_bytes,
      "step_seconds", profile->step_seconds, "tokens_per_second", profile->tokens_per_second, "steps", profile->steps);
  if (answer != NULL && measured != NULL && json_object_set(answer, "measured", measured) == 0) {
    json_decref(measured);
    return answer;
  }
  json_decref(measured);
  json_decref(answer);
  return NULL;
}
