#include "report/run.h"

#include "report/running.h"

static json_t *curves_json(const hr_running *r) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < r->n_curves && !failed; i++)
    failed = json_array_append_new(list, hr__series_json(&r->curves[i]));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

/* The most that was held of each tier; null: nobody looked. */
static json_t *held_json(const hr_running *r) {
  if (!r->measured) return json_null();
  json_t *object = json_object();
  int failed = object == NULL;
  for (int t = 0; t < HR_TIER_COUNT && !failed; t++)
    failed = json_object_set_new(object, hr_tier_name((hr_tier)t), json_integer((json_int_t)r->held[t]));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static hr_status log_read(hr_history *history, hr_running *r, uint64_t *records) {
  for (;;) {
    hr_record record;
    bool there;
    HR_TRY(hr__history_next(history, &record, &there, r->err));
    if (!there) return HR_OK;
    HR_TRY(hr__running_take(r, &record));
    *records = record.kind == HR_RECORD_AGAIN ? 0 : *records + 1;
  }
}

static hr_status run_make(const char *path, hr_history *history, hr_running *r, json_t **out) {
  uint64_t records = 0;
  HR_TRY(hr__running_begin(r));
  HR_TRY(log_read(history, r, &records));
  if (records == 0)
    return hr__fail(r->err, HR_BAD_INPUT, path, "give the folder that train was given as --out",
                    "no line of this log is a record of a run");
  *out = json_pack("{s:I, s:I, s:I, s:I, s:o, s:O, s:O, s:I, s:O, s:I, s:o, s:I, s:O?, s:O?}", "step",
                   (json_int_t)r->step, "steps", (json_int_t)r->steps, "skipped", (json_int_t)r->skipped,
                   "broken_lines", (json_int_t)hr__history_broken(history), "curves", curves_json(r), "headers",
                   r->headers, "events", r->events, "events_left_out", (json_int_t)r->events_left_out, "samples",
                   r->samples, "samples_left_out", (json_int_t)r->samples_left_out, "held_bytes", held_json(r),
                   "process_bytes", (json_int_t)r->process_bytes, "phases", r->phases, "status", r->status);
  return *out ? HR_OK : hr__nomem(r->err);
}

hr_status hr__run_json(const char *folder, json_t **out, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_history *history = NULL;
  hr_running *r = hr__arena_alloc(&arena, sizeof *r); /* too large for the stack */
  const char *path = hr__arena_format(&arena, "%s/log.jsonl", folder);
  hr_status status = r && path ? hr__history_open(path, &history, err) : hr__nomem(err);
  if (r) r->err = err;
  if (status == HR_OK) status = run_make(path, history, r, out);
  if (r) hr__running_fini(r);
  hr__history_close(history);
  hr__arena_fini(&arena);
  return status;
}
