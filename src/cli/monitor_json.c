/* monitor --json: docs/json.md says what it is. */
#include <math.h>

#include "cli/monitor.h"
#include "format/json.h"

/* A number, or null where there is none. */
static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

/* Seconds since 1970, whole ones: JSON's numbers are written with nine digits. */
static json_t *moment(double value) {
  return isfinite(value) ? json_integer((json_int_t)value) : json_null();
}

static json_t *text(const char *value) {
  return *value ? hr__json_string(value) : json_null();
}

static json_t *count(uint64_t value) {
  return json_integer((json_int_t)value);
}

static json_t *tiers_json(const hr_watched *w) {
  static const char *const names[HR_TIER_COUNT] = {"device", "host", "disk"};
  json_t *tiers = json_object();
  for (int t = 0; t < HR_TIER_COUNT; t++)
    json_object_set_new(tiers, names[t],
                        json_pack("{s:o, s:o, s:o}", "planned_bytes", count(w->tiers[t].planned_bytes), "budget_bytes",
                                  w->tiers[t].budget_bytes > 0 ? count(w->tiers[t].budget_bytes) : json_null(),
                                  "held_bytes", isfinite(w->held_time) ? count(w->tiers[t].held_bytes) : json_null()));
  return tiers;
}

static json_t *process_json(const hr_watched *w) {
  if (!w->has_started) return json_null();
  return json_pack("{s:I, s:o, s:b, s:o, s:o, s:o}", "pid", (json_int_t)w->pid, "machine", text(w->machine), "there",
                   w->process.there, "resident_bytes",
                   w->process.there ? count(w->process.resident_bytes) : json_null(), "swapped_bytes",
                   w->process.there ? count(w->process.swapped_bytes) : json_null(), "processors",
                   number(w->processors));
}

static json_t *gpu_json(const hr_watched *w, const hr_monitor *m) {
  if (w->gpu < 0) return json_null();
  const hr_nvml_gpu *gpu = &m->gpus[w->gpu];
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "index", w->gpu, "name", text(gpu->name), "used_bytes",
                   count(gpu->used_bytes), "total_bytes", count(gpu->total_bytes), "process_bytes",
                   w->gpu_bytes > 0 ? count(w->gpu_bytes) : json_null(), "use", number(gpu->use >= 0 ? gpu->use : NAN));
}

static json_t *events_json(const hr_watched *w) {
  json_t *list = json_array();
  for (size_t i = 0; i < w->n_events; i++) {
    const hr_watch_event *e = &w->events[i];
    json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)e->step, "event", text(e->name),
                                          "time", moment(e->time), "text", text(e->text)));
  }
  return list;
}

static json_t *signs_json(const hr_watched *w) {
  json_t *list = json_array();
  for (size_t i = 0; i < w->n_signs; i++)
    json_array_append_new(list,
                          json_pack("{s:s, s:o}", "sign", w->signs[i].name, "text", hr__json_string(w->signs[i].text)));
  return list;
}

static json_t *run_json(const hr_watched *w, const hr_monitor *m) {
  double tokens = hr__watched_tokens_per_second(w);
  json_t *run = json_pack("{s:o, s:o, s:o, s:s, s:I, s:I}", "folder", hr__json_string(w->folder), "recipe",
                          text(w->recipe), "device", text(w->device), "state", hr__watch_state_name(w->state), "step",
                          (json_int_t)w->step, "steps", (json_int_t)w->steps);
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"loss", w->loss},
                 {"lr", w->lr},
                 {"grad_norm", w->grad_norm},
                 {"eval_loss", w->eval_loss},
                 {"lowest_eval_loss", w->best_loss},
                 {"tokens_per_second", tokens > 0 ? tokens : NAN},
                 {"samples_per_second", hr__watched_samples_per_second(w)},
                 {"step_seconds", hr__watched_step_seconds(w)},
                 {"planned_step_seconds", w->planned_step_seconds},
                 {"left_seconds", hr__watch_is_alive(w->state) ? hr__watched_left_seconds(w) : NAN}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    json_object_set_new(run, numbers[i].name, number(numbers[i].value));
  json_object_set_new(run, "started", moment(w->started));
  json_object_set_new(run, "last_line", moment(w->time));
  json_object_set_new(run, "skipped_steps", count((uint64_t)w->skipped));
  json_object_set_new(run, "saved_step", w->saved > 0 ? count((uint64_t)w->saved) : json_null());
  json_object_set_new(run, "broken_lines", count(hr__history_broken(w->history)));
  json_object_set_new(run, "tiers", tiers_json(w));
  json_object_set_new(run, "process", process_json(w));
  json_object_set_new(run, "gpu", gpu_json(w, m));
  json_object_set_new(run, "signs", signs_json(w));
  json_object_set_new(run, "events", events_json(w));
  return run;
}

json_t *hr__monitor_json(const hr_monitor *m) {
  json_t *list = json_array();
  for (size_t i = 0; i < m->count; i++)
    json_array_append_new(list, run_json(m->runs[i], m));
  return json_pack("{s:i, s:o}", "schema", 1, "runs", list);
}
