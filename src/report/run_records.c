/* Records of a log as they are collected for a page. See running.h. */
#include <math.h>
#include <string.h>

#include "format/json.h"
#include "report/running.h"

/* A text of a log: what is too long is cut, where a character begins. */
static json_t *text_json(const char *text) {
  if (!text) return json_null();
  size_t length = strlen(text);
  if (length <= HR_RUN_TEXT) return hr__json_string(text);
  length = HR_RUN_TEXT;
  while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
    length--;
  char cut[HR_RUN_TEXT + 8];
  snprintf(cut, sizeof cut, "%.*s …", (int)length, text);
  return hr__json_string(cut);
}

static json_t *number_json(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static hr_status append(hr_running *r, json_t *list, json_t *entry) {
  return json_array_append_new(list, entry) == 0 ? HR_OK : hr__nomem(r->err);
}

/* Of a list that is full the second entry goes: how it began stays. */
static hr_status append_newest(hr_running *r, json_t *list, size_t most, int64_t *left_out, json_t *entry) {
  if (json_array_size(list) >= most) {
    json_array_remove(list, 1);
    ++*left_out;
  }
  return append(r, list, entry);
}

/* Whole seconds since 1970. */
static json_t *time_json(double time) {
  return isfinite(time) && fabs(time) < 1e15 ? json_integer((json_int_t)time) : json_null();
}

static hr_status event_put(hr_running *r, json_t *event) {
  return append_newest(r, r->events, HR_RUN_EVENTS, &r->events_left_out, event);
}

/* --- curves ------------------------------------------------------------------------------------------------------- */

static hr_status curve_put(hr_running *r, const char *name, const char *kind, bool held_out, int64_t step,
                           double value) {
  size_t i = 0;
  while (i < r->n_curves && (r->curves[i].held_out != held_out || strcmp(r->curves[i].kind, kind) != 0 ||
                             strncmp(r->curves[i].name, name, HR_SERIES_NAME - 1) != 0))
    i++;
  if (i == HR_RUN_SERIES) return HR_OK; /* more than anybody looks at */
  if (i == r->n_curves) {
    r->curves[r->n_curves++] = (hr_series){.kind = kind, .held_out = held_out};
    snprintf(r->curves[i].name, HR_SERIES_NAME, "%s", name);
  }
  return hr__series_add(&r->curves[i], step, value, r->err);
}

static hr_status values_put(hr_running *r, const hr_record *record, const hr_record_values *values, const char *kind) {
  for (size_t i = 0; i < values->count; i++)
    HR_TRY(
        curve_put(r, values->list[i].name, kind, record->kind == HR_RECORD_EVAL, record->step, values->list[i].value));
  return HR_OK;
}

static hr_status step_take(hr_running *r, const hr_record *record) {
  int64_t step = record->step;
  r->step = step;
  r->skipped += record->skipped;
  HR_TRY(curve_put(r, "loss", "loss", false, step, record->loss));
  HR_TRY(values_put(r, record, &record->losses, "loss"));
  HR_TRY(values_put(r, record, &record->metrics, "metric"));
  bool tokens = record->tokens > 0;
  double done = (double)(tokens ? record->tokens : record->samples);
  if (record->seconds > 0 && done > 0)
    HR_TRY(curve_put(r, tokens ? "tokens/s" : "samples/s", "speed", false, step, done / record->seconds));
  if (!isnan(record->lr)) HR_TRY(curve_put(r, "learning rate", "lr", false, step, record->lr));
  if (!isnan(record->grad_norm) || record->skipped)
    HR_TRY(curve_put(r, "gradient norm", "norm", false, step, record->grad_norm));
  if (record->loss_scale > 0) HR_TRY(curve_put(r, "loss scale", "scale", false, step, record->loss_scale));
  if (!record->skipped) return HR_OK;
  return event_put(
      r, json_pack("{s:I, s:s, s:o}", "step", (json_int_t)step, "event", "skipped", "time", time_json(record->time)));
}

static hr_status eval_take(hr_running *r, const hr_record *record) {
  HR_TRY(curve_put(r, "loss", "loss", true, record->step, record->loss));
  HR_TRY(values_put(r, record, &record->losses, "loss"));
  return values_put(r, record, &record->metrics, "metric");
}

/* --- headers, events, samples ------------------------------------------------------------------------------------- */

static json_t *tiers_json(const hr_record *record) {
  json_t *object = json_object();
  int failed = object == NULL;
  for (int t = 0; t < HR_TIER_COUNT && !failed; t++) {
    uint64_t budget = record->tiers[t].budget_bytes;
    failed = json_object_set_new(
        object, hr_tier_name((hr_tier)t),
        json_pack("{s:I, s:o}", "planned_bytes", (json_int_t)record->tiers[t].planned_bytes, "budget_bytes",
                  budget > 0 && budget <= INT64_MAX ? json_integer((json_int_t)budget) : json_null()));
  }
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static hr_status header_take(hr_running *r, const hr_record *record) {
  if (record->steps > 0) r->steps = record->steps;
  return append(r, r->headers,
                json_pack("{s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "step", (json_int_t)record->step, "recipe",
                          text_json(record->recipe), "fingerprint", text_json(record->fingerprint), "device",
                          text_json(record->device), "planned_peak_bytes", (json_int_t)record->planned_peak_bytes,
                          "planned_step_seconds", number_json(record->planned_step_seconds), "tiers",
                          tiers_json(record)));
}

static hr_status phases_take(hr_running *r, const hr_record_values *phases) {
  if (phases->count == 0) return HR_OK;
  json_t *object = json_object();
  int failed = object == NULL;
  for (size_t i = 0; i < phases->count && !failed; i++) {
    json_t *name = hr__json_string(phases->list[i].name);
    failed = !name || json_object_set_new(object, json_string_value(name), number_json(phases->list[i].value));
    json_decref(name);
  }
  json_decref(r->phases);
  r->phases = object;
  return failed ? hr__nomem(r->err) : HR_OK;
}

static void memory_take(hr_running *r, const hr_record *record) {
  r->measured = true;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (record->tiers[t].held_bytes > r->held[t]) r->held[t] = record->tiers[t].held_bytes;
  if (record->bytes > r->process_bytes) r->process_bytes = record->bytes;
}

static hr_status event_take(hr_running *r, const hr_record *record) {
  const char *name = record->event ? record->event : "";
  if (strcmp(name, "memory") == 0) {
    memory_take(r, record);
    return HR_OK;
  }
  if (record->steps > 0) r->steps = record->steps;
  HR_TRY(phases_take(r, &record->phases));
  bool started = strcmp(name, "started") == 0, ended = strcmp(name, "ended") == 0;
  json_decref(started || ended ? r->status : NULL);
  if (started || ended) r->status = ended ? text_json(record->status) : NULL;
  if (ended && !r->status) return hr__nomem(r->err);
  if (ended && record->bytes > r->process_bytes) r->process_bytes = record->bytes;
  return event_put(r,
                   json_pack("{s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:b}", "step", (json_int_t)record->step, "event",
                             text_json(name), "time", time_json(record->time), "seconds", number_json(record->seconds),
                             "bytes", (json_int_t)record->bytes, "text", text_json(record->text), "status",
                             text_json(record->status), "resumed", (int)record->resumed));
}

static hr_status samples_take(hr_running *r, const hr_record *record) {
  json_t *list = json_array();
  if (!list) return hr__nomem(r->err);
  for (size_t i = 0; i < record->n_generated && i < HR_RUN_SET; i++) {
    const hr_record_sample *s = &record->generated[i];
    json_t *entry = json_pack("{s:o, s:o, s:o, s:o}", "prompt", text_json(s->prompt), "text", text_json(s->text), "end",
                              text_json(s->end), "expected", text_json(s->expected));
    if (json_array_append_new(list, entry) != 0) {
      json_decref(list);
      return hr__nomem(r->err);
    }
  }
  return append_newest(
      r, r->samples, HR_RUN_SAMPLES, &r->samples_left_out,
      json_pack("{s:I, s:o, s:I}", "step", (json_int_t)record->step, "generated", list, "left_out",
                record->n_generated > HR_RUN_SET ? (json_int_t)(record->n_generated - HR_RUN_SET) : 0));
}

/* ------------------------------------------------------------------------------------------------------------------ */

void hr__running_fini(hr_running *r) {
  for (size_t i = 0; i < r->n_curves; i++)
    hr__series_fini(&r->curves[i]);
  json_decref(r->headers);
  json_decref(r->events);
  json_decref(r->samples);
  json_decref(r->phases);
  json_decref(r->status);
  *r = (hr_running){.err = r->err};
}

hr_status hr__running_begin(hr_running *r) {
  hr__running_fini(r);
  r->headers = json_array();
  r->events = json_array();
  r->samples = json_array();
  return r->headers && r->events && r->samples ? HR_OK : hr__nomem(r->err);
}

hr_status hr__running_take(hr_running *r, const hr_record *record) {
  switch (record->kind) {
  case HR_RECORD_AGAIN:
    return hr__running_begin(r);
  case HR_RECORD_HEADER:
    return header_take(r, record);
  case HR_RECORD_STEP:
    return step_take(r, record);
  case HR_RECORD_EVAL:
    return eval_take(r, record);
  case HR_RECORD_SAMPLES:
    return samples_take(r, record);
  case HR_RECORD_EVENT:
    break;
  }
  return event_take(r, record);
}
