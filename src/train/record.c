/* See record.h. */
#include "train/record.h"

#include <math.h>
#include <string.h>

#include "format/json.h"

static double number_of(const json_t *value) {
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double number_get(const json_t *map, const char *key) {
  return number_of(json_object_get(map, key));
}

static int64_t count_get(const json_t *map, const char *key) {
  const json_t *value = json_object_get(map, key);
  return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : 0;
}

static const char *text_get(const json_t *map, const char *key) {
  return json_string_value(json_object_get(map, key));
}

double hr__record_value(const hr_record_values *values, const char *name) {
  for (size_t i = 0; i < values->count; i++)
    if (strcmp(values->list[i].name, name) == 0) return values->list[i].value;
  return (double)NAN;
}

/* Members of an object by name, in their order. */
static bool values_get(json_t *map, const char *key, hr_arena *arena, hr_record_values *out) {
  json_t *object = json_object_get(map, key), *value;
  const char *name;
  if (!json_is_object(object)) return true;
  out->list = hr__arena_array(arena, json_object_size(object) + 1, sizeof *out->list);
  if (!out->list) return false;
  json_object_foreach(object, name, value) out->list[out->count++] =
      (hr_record_value){.name = name, .value = number_of(value)};
  return true;
}

static bool samples_get(const json_t *list, hr_arena *arena, hr_record *r) {
  r->generated = hr__arena_array(arena, json_array_size(list) + 1, sizeof *r->generated);
  if (!r->generated) return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i);
    const char *prompt = text_get(one, "prompt"), *text = text_get(one, "text"), *end = text_get(one, "end");
    r->generated[r->n_generated++] = (hr_record_sample){
        .prompt = prompt ? prompt : "", .text = text ? text : "", .end = end, .expected = text_get(one, "expected")};
  }
  return true;
}

static void tiers_get(const json_t *map, hr_record *r) {
  static const char *const names[HR_TIER_COUNT] = {"device", "host", "disk"};
  const json_t *tiers = json_object_get(map, "tiers");
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    const json_t *tier = json_object_get(tiers, names[t]);
    r->tiers[t].planned_bytes = (uint64_t)count_get(tier, "planned_bytes");
    r->tiers[t].budget_bytes = (uint64_t)count_get(tier, "budget_bytes");
    r->tiers[t].held_bytes = (uint64_t)count_get(tier, "held_bytes");
  }
}

static bool event_get(json_t *map, hr_arena *arena, hr_record *r) {
  r->kind = HR_RECORD_EVENT;
  r->event = text_get(map, "event");
  r->text = text_get(map, "text");
  r->status = text_get(map, "status");
  r->machine = text_get(map, "machine");
  r->device = text_get(map, "device");
  r->pid = count_get(map, "pid");
  r->steps = count_get(map, "steps");
  r->process_start = (uint64_t)count_get(map, "process_start");
  r->bytes = (uint64_t)count_get(map, "bytes");
  r->resumed = json_is_true(json_object_get(map, "resumed"));
  tiers_get(map, r);
  return values_get(map, "phases", arena, &r->phases);
}

static void header_get(const json_t *map, hr_record *r) {
  r->kind = HR_RECORD_HEADER;
  r->recipe = text_get(map, "recipe");
  r->device = text_get(map, "device");
  r->device_kind = text_get(map, "device_kind");
  r->steps = count_get(map, "steps");
  r->planned_peak_bytes = (uint64_t)count_get(map, "planned_peak_bytes");
  r->planned_step_seconds = number_get(map, "planned_step_seconds");
  tiers_get(map, r);
}

/* What kind of line it is, and what that has. False: out of memory. */
static bool record_fill(json_t *map, hr_arena *arena, hr_record *r, bool *good) {
  const json_t *generated = json_object_get(map, "generated");
  *good = true;
  r->fingerprint = text_get(map, "fingerprint");
  if (text_get(map, "event")) return event_get(map, arena, r);
  if (r->fingerprint) {
    header_get(map, r);
    return true;
  }
  if (json_is_array(generated)) {
    r->kind = HR_RECORD_SAMPLES;
    return samples_get(generated, arena, r);
  }
  if (json_object_get(map, "eval_loss")) {
    r->kind = HR_RECORD_EVAL;
    r->loss = number_get(map, "eval_loss");
    return values_get(map, "eval_losses", arena, &r->losses) && values_get(map, "eval_metrics", arena, &r->metrics);
  }
  *good = json_object_get(map, "loss") != NULL;
  r->kind = HR_RECORD_STEP;
  r->loss = number_get(map, "loss");
  r->lr = number_get(map, "lr");
  r->grad_norm = number_get(map, "grad_norm");
  r->loss_scale = number_get(map, "loss_scale");
  r->tokens = count_get(map, "tokens");
  r->samples = count_get(map, "samples");
  r->skipped = json_is_true(json_object_get(map, "skipped"));
  return values_get(map, "losses", arena, &r->losses) && values_get(map, "metrics", arena, &r->metrics);
}

hr_status hr__record_read(const char *line, size_t bytes, hr_arena *arena, hr_record *r, bool *good, hr_error *err) {
  json_t *map = NULL;
  json_error_t fault;
  hr_error why = {0};
  *r = (hr_record){.loss = (double)NAN,
                   .lr = (double)NAN,
                   .grad_norm = (double)NAN,
                   .loss_scale = (double)NAN,
                   .planned_step_seconds = (double)NAN};
  *good = false;
  hr_status status = hr__json_load(line, bytes, arena, &map, &fault, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  const json_t *step = status == HR_OK ? json_object_get(map, "step") : NULL;
  if (!json_is_integer(step) || json_integer_value(step) < 0) return HR_OK;
  r->step = json_integer_value(step);
  r->time = number_get(map, "time");
  r->seconds = number_get(map, "seconds");
  r->fields = map;
  return record_fill(map, arena, r, good) ? HR_OK : hr__nomem(err);
}
