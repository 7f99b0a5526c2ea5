/* See answer.h. */
#include "job/answer.h"

#include <string.h>

#include "dev/gpus.h"
#include "format/json.h"
#include "plan/owners.h"
#include "plan/report.h"

static json_t *texts_json(const char *const *texts, size_t count) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, hr__json_string(texts[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *settings_json(json_t *set, const hr_planned *planned, bool changes_results) {
  const uint64_t *peaks = planned->peak_bytes;
  return json_pack("{s:o, s:I, s:I, s:I, s:f, s:b, s:b}", "set", set, "peak_bytes", (json_int_t)peaks[HR_TIER_DEVICE],
                   "host_bytes", (json_int_t)peaks[HR_TIER_HOST], "disk_bytes", (json_int_t)peaks[HR_TIER_DISK],
                   "step_seconds", planned->step_seconds, "fits", (int)planned->fits, "changes_results",
                   (int)changes_results);
}

static json_t *change_json(const hr_change *change) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int i = 0; i < change->n_overrides && !failed; i++)
    failed = json_array_append_new(list, json_string(change->override[i]));
  if (!failed) return settings_json(list, &change->planned, change->changes_results);
  json_decref(list);
  return NULL;
}

/* null where there is no such rung. */
static json_t *rung_json(const hr_rung *rung) {
  if (rung->n_overrides == 0) return json_null();
  return settings_json(texts_json(rung->overrides, rung->n_overrides), &rung->planned, rung->changes_results);
}

static json_t *technique_json(const hr_technique *technique) {
  json_t *bytes = technique->bytes_known ? json_integer((json_int_t)technique->saves_bytes) : json_null();
  json_t *seconds = technique->seconds_known ? json_real(technique->costs_seconds) : json_null();
  return json_pack("{s:s, s:o, s:o}", "name", technique->name, "saves_bytes", bytes, "costs_seconds", seconds);
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

/* What `auto` settings came to: null where there are none; bytes of a kind that stay, null where all of it does; those
 * that are on the host of a kind whose rest is on the disk. */
static json_t *choices_json(const hr_chosen *chosen) {
  if (!chosen->any) return json_null();
  json_t *object = json_object(), *resident = json_object(), *host = json_object();
  int failed = object == NULL || resident == NULL || host == NULL;
  if (!failed && chosen->choices.keep) failed = json_object_set_new(object, "checkpoint", keep_json(&chosen->choices));
  for (int k = 0; k < HR_OFFLOAD_KINDS && !failed; k++) {
    uint64_t bytes = chosen->choices.offload[k].resident_bytes;
    if (chosen->open[k])
      failed = json_object_set_new(resident, hr__offload_name((hr_offload_kind)k),
                                   hr__chosen_divides(chosen, (hr_offload_kind)k) ? json_integer((json_int_t)bytes)
                                                                                  : json_null());
  }
  for (int k = 0; k < HR_OFFLOAD_KINDS && !failed; k++)
    if (hr__chosen_divides(chosen, (hr_offload_kind)k) && chosen->choices.offload[k].host_bytes > 0)
      failed = json_object_set_new(host, hr__offload_name((hr_offload_kind)k),
                                   json_integer((json_int_t)chosen->choices.offload[k].host_bytes));
  if (!failed && json_object_size(host) > 0) failed = json_object_set(object, "host_bytes", host);
  if (!failed && chosen->choices.update_on_host) failed = json_object_set_new(object, "update", json_string("host"));
  if (!failed && chosen->split) failed = json_object_set_new(object, "slices", json_integer(chosen->choices.slices));
  if (!failed) failed = json_object_set(object, "resident_bytes", resident);
  json_decref(resident);
  json_decref(host);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

const char *hr__answer_rates(const hr_job *job) {
  if (job->rates.measured) return "measured";
  return job->facts.kind == HR_CUDA && hr__gpu_like(&job->facts) ? "catalogue" : "default";
}

double hr__answer_samples_per_second(const hr_job *job) {
  return (double)(job->shape.batch * job->shape.accumulation) / job->plan->step_seconds;
}

double hr__answer_tokens_per_second(const hr_job *job) {
  bool tokens = hr__model_vocabulary(job->recipe) > 0;
  return tokens ? hr__answer_samples_per_second(job) * (double)job->shape.length : 0;
}

/* Only what is not zero. */
static json_t *owner_json(const hr_module_owner *owner) {
  json_t *categories = json_object();
  int failed = categories == NULL;
  for (int c = 0; c < HR_CAT_COUNT && !failed; c++)
    if (owner->categories[c] > 0)
      failed = json_object_set_new(categories, hr_category_name((hr_category)c),
                                   json_integer((json_int_t)owner->categories[c]));
  if (!failed)
    return json_pack("{s:o, s:I, s:I, s:o}", "module", hr__json_string(owner->name), "bytes", (json_int_t)owner->bytes,
                     "tensors", (json_int_t)owner->tensors, "categories", categories);
  json_decref(categories);
  return NULL;
}

static json_t *owners_json(const hr_job *job) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_module_owner *owners;
  size_t count = 0;
  hr_error err; /* can only be lack of memory */
  json_t *list = json_array();
  int failed = list == NULL || hr__owners(job->plan, job->verdict.tier, &arena, &owners, &count, &err) != HR_OK;
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, owner_json(&owners[i]));
  hr__arena_fini(&arena);
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

/* {"cheaper", "faster"}, each null where there is none; null for a plan that does not fit: its changes say more. */
static json_t *ladder_json(const hr_job *job) {
  hr_arena arena;
  hr_ladder ladder;
  hr_error err; /* can only be lack of memory */
  if (!job->verdict.fits) return json_null();
  hr__arena_init(&arena);
  json_t *object = NULL;
  if (hr__job_ladder(job, &arena, &ladder, &err) == HR_OK)
    object = json_pack("{s:o, s:o, s:o}", "cheaper", rung_json(&ladder.cheaper), "faster", rung_json(&ladder.faster),
                       "other", rung_json(&ladder.other));
  hr__arena_fini(&arena);
  return object;
}

/* Choices of memory.split are numbers of slices, each twice the one before. */
static json_t *slices_json(size_t count) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, json_sprintf("%lld", 1LL << i));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *knob_json(const hr_job *job, size_t k) {
  const hr_knob *knob = &job->search.knobs[k];
  const char *chosen = strchr(job->search.chosen.overrides[k], '=') + 1;
  json_t *choices = knob->slices ? slices_json(knob->n_choices) : texts_json(knob->choices, knob->n_choices);
  json_t *value = knob->slices ? json_sprintf("%lld", (long long)job->chosen.choices.slices) : hr__json_string(chosen);
  return json_pack("{s:s, s:o, s:o, s:b, s:b, s:b}", "key", knob->path, "choices", choices, "chosen", value, "by_hand",
                   (int)knob->by_hand, "changes_results", (int)job->search.chosen.changes[k], "quality",
                   (int)(knob->quality != NULL));
}

static json_t *found_json(const hr_found *found) {
  hr_planned planned = {.step_seconds = found->step_seconds, .fits = found->fits};
  memcpy(planned.peak_bytes, found->peak_bytes, sizeof planned.peak_bytes);
  return settings_json(texts_json(found->overrides, found->n_overrides), &planned, found->changes_results);
}

/* What was open, what became of it, and the settings that nothing beats in both memory and time; null: nothing was. */
static json_t *search_json(const hr_job *job) {
  const hr_search *search = &job->search;
  if (search->n_knobs == 0) return json_null();
  json_t *open = json_array(), *frontier = json_array();
  int failed = open == NULL || frontier == NULL;
  for (size_t k = 0; k < search->n_knobs && !failed; k++)
    failed = json_array_append_new(open, knob_json(job, k));
  for (size_t i = 0; i < search->n_frontier && !failed; i++)
    failed = json_array_append_new(frontier, found_json(&search->frontier[i]));
  if (!failed)
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:o}", "open", open, "settings", (json_int_t)search->n_settings,
                     "planned", (json_int_t)search->n_planned, "pruned", (json_int_t)search->n_pruned, "refused",
                     (json_int_t)search->n_refused, "frontier", frontier);
  json_decref(open);
  json_decref(frontier);
  return NULL;
}

/* What PyTorch will hold; null where headroom itself is to train. */
static json_t *torch_json(const hr_job *job) {
  if (!job->torch) return json_null();
  const hr_torch_result *result = &job->run.result;
  const hr_torch_moment *peak = &result->allocated;
  const hr_torch_event *event = &job->run.events.items[peak->event];
  json_t *categories = json_object();
  int failed = categories == NULL;
  for (int c = 0; c < HR_TORCH_CATEGORIES && !failed; c++)
    failed = json_object_set_new(categories, hr__torch_category_name((hr_torch_category)c),
                                 json_integer((json_int_t)peak->categories[c]));
  if (!failed)
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:i, s:s, s:s, s:o, s:s?}", "allocated_bytes", (json_int_t)peak->use.allocated_bytes,
        "reserved_bytes", (json_int_t)result->reserved.use.reserved_bytes, "driver_bytes",
        (json_int_t)job->run.driver_bytes, "context_bytes", (json_int_t)job->run.context_bytes, "phase",
        hr__torch_phase_name(peak->phase), "step", (int)peak->step, "call", job->run.events.names[event->call], "owner",
        job->run.events.names[event->owner], "categories", categories, "estimate", hr__engine_estimate(&job->run));
  json_decref(categories);
  return NULL;
}

/* How features that training reads from the cache are made before it; null where it reads none. */
static json_t *features_json(const hr_job *making) {
  if (!making) return json_null();
  return json_pack("{s:b, s:I, s:I, s:I, s:f}", "fits", (int)making->verdict.fits, "peak_bytes",
                   (json_int_t)making->plan->tiers[HR_TIER_DEVICE].peak_bytes, "host_bytes",
                   (json_int_t)making->plan->tiers[HR_TIER_HOST].peak_bytes, "rows", (json_int_t)making->shape.batch,
                   "seconds", making->plan->step_seconds);
}

/* What this command adds to the report of the plan. */
static int answer_extend(json_t *answer, const hr_job *job) {
  json_t *device = json_object_get(answer, "device");
  int failed = json_object_set_new(device, "rates", json_string(hr__answer_rates(job)));
  failed |= json_object_set_new(device, "left_bytes", json_integer(hr__verdict_left(&job->verdict)));
  failed |= json_object_set_new(answer, "samples_per_second", json_real(hr__answer_samples_per_second(job)));
  failed |= json_object_set_new(answer, "tokens_per_second", json_real(hr__answer_tokens_per_second(job)));
  failed |= json_object_set_new(answer, "torch", torch_json(job));
  failed |= json_object_set_new(answer, "features", features_json(job->features));
  failed |= json_object_set_new(answer, "techniques", techniques_json(job));
  failed |= json_object_set_new(answer, "owners", owners_json(job));
  failed |= json_object_set_new(answer, "ladder", ladder_json(job));
  failed |= json_object_set_new(answer, "search", search_json(job));
  failed |= json_object_set_new(answer, "choices", choices_json(&job->chosen));
  return failed;
}

json_t *hr__answer_plan(const hr_job *job, const hr_change *changes, int n_changes) {
  json_t *answer = hr__report_json(job->plan, &job->verdict, job->recipe);
  json_t *list = json_array();
  int failed = answer == NULL || list == NULL;
  for (int i = 0; i < n_changes && !failed; i++)
    failed = json_array_append_new(list, change_json(&changes[i]));
  if (!failed) failed = json_object_set(answer, "changes", list);
  if (!failed) failed = answer_extend(answer, job);
  json_decref(list);
  if (!failed) return answer;
  json_decref(answer);
  return NULL;
}
