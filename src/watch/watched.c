/* See watched.h. */
#include "watch/watched.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

static const char *const state_names[] = {
    [HR_WATCH_STARTING] = "starting", [HR_WATCH_RUNNING] = "running", [HR_WATCH_PAUSED] = "paused",
    [HR_WATCH_SILENT] = "silent",     [HR_WATCH_DEAD] = "dead",       [HR_WATCH_STOPPED] = "stopped",
    [HR_WATCH_FAILED] = "failed",     [HR_WATCH_DONE] = "done"};

const char *hr__watch_state_name(hr_watch_state state) {
  return state_names[state];
}

bool hr__watch_is_alive(hr_watch_state state) {
  return state <= HR_WATCH_SILENT;
}

static void text_take(const char *text, char *out, size_t capacity) {
  if (text) hr__text_escape(text, strlen(text), out, capacity);
}

/* Forgets what the log has said. */
static void watched_clear(hr_watched *w) {
  hr_watched fresh = {.folder = w->folder,
                      .history = w->history,
                      .time = (double)NAN,
                      .started = (double)NAN,
                      .loss = (double)NAN,
                      .lr = (double)NAN,
                      .grad_norm = (double)NAN,
                      .loss_scale = (double)NAN,
                      .eval_loss = (double)NAN,
                      .best_loss = (double)NAN,
                      .lowest_mean = (double)NAN,
                      .first_mean = (double)NAN,
                      .held_time = (double)NAN,
                      .planned_step_seconds = (double)NAN,
                      .processors = (double)NAN,
                      .gpu = -1};
  memcpy(fresh.name, w->name, sizeof fresh.name);
  *w = fresh;
}

hr_status hr__watched_open(const char *folder, hr_watched **out, hr_error *err) {
  *out = NULL;
  size_t bytes = strlen(folder) + sizeof "/log.jsonl";
  hr_watched *w = hr__alloc_zero(1, sizeof *w);
  char *path = hr__alloc(bytes);
  hr_status status = w && path && (w->folder = hr__alloc(bytes)) ? HR_OK : hr__nomem(err);
  if (status == HR_OK) {
    snprintf(path, bytes, "%s/log.jsonl", folder);
    memcpy(w->folder, folder, strlen(folder) + 1);
    text_take(strncmp(folder, "./", 2) == 0 && folder[2] ? folder + 2 : folder, w->name, sizeof w->name);
    watched_clear(w);
    status = hr__history_open(path, &w->history, err);
  }
  hr__free(path);
  if (status == HR_OK) {
    *out = w;
    return HR_OK;
  }
  hr__watched_close(w);
  return status;
}

void hr__watched_close(hr_watched *w) {
  if (!w) return;
  hr__history_close(w->history);
  hr__free(w->folder);
  hr__free(w);
}

/* --- from the log ------------------------------------------------------------------------------------------------- */

/* What a record tells, in words: of an event, an evaluation or a sample. */
static void eval_text(const hr_record *r, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "held-out loss %.4f", r->loss);
  const hr_record_values *both[] = {&r->losses, &r->metrics};
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < both[k]->count && used < capacity; i++) {
      char name[64];
      text_take(both[k]->list[i].name, name, sizeof name);
      used += (size_t)snprintf(out + used, capacity - used, ", %s %.4g", name, both[k]->list[i].value);
    }
}

static void memory_text(const hr_record *r, char *out, size_t capacity) {
  char size[HR_TIER_COUNT][HR_SIZE_TEXT];
  for (int t = 0; t < HR_TIER_COUNT; t++)
    hr__size_text(r->tiers[t].held_bytes, size[t]);
  snprintf(out, capacity, "holds %s of the device, %s of the host, %s of the disk", size[0], size[1], size[2]);
}

static void saved_text(const hr_record *r, char *out, size_t capacity) {
  char size[HR_SIZE_TEXT];
  size_t used = (size_t)snprintf(out, capacity, "saved, %s", hr__size_text(r->bytes, size));
  if (isfinite(r->seconds)) snprintf(out + used, capacity - used, " in %.2g s", r->seconds);
}

static void ended_text(const hr_record *r, char *out, size_t capacity) {
  bool good = r->status && strcmp(r->status, "HR_OK") == 0;
  char why[HR_WATCH_TEXT / 2] = "";
  text_take(r->text, why, sizeof why);
  snprintf(out, capacity, "%s%s%s", good ? "done" : "ended", *why ? ": " : "", why);
}

static void sample_text(const hr_record *r, char *out, size_t capacity) {
  char prompt[64], text[160];
  text_take(r->generated[0].prompt, prompt, sizeof prompt);
  text_take(r->generated[0].text, text, sizeof text);
  snprintf(out, capacity, "%s|%s", prompt, text);
}

const char *hr__watch_text(const hr_record *r, char out[HR_WATCH_TEXT]) {
  out[0] = 0;
  if (r->kind == HR_RECORD_EVAL)
    eval_text(r, out, HR_WATCH_TEXT);
  else if (r->kind == HR_RECORD_SAMPLES && r->n_generated > 0)
    sample_text(r, out, HR_WATCH_TEXT);
  else if (r->kind != HR_RECORD_EVENT)
    return out;
  else if (strcmp(r->event, "started") == 0)
    snprintf(out, HR_WATCH_TEXT, r->resumed ? "resumed" : "started");
  else if (strcmp(r->event, "ended") == 0)
    ended_text(r, out, HR_WATCH_TEXT);
  else if (strcmp(r->event, "saved") == 0)
    saved_text(r, out, HR_WATCH_TEXT);
  else if (strcmp(r->event, "memory") == 0)
    memory_text(r, out, HR_WATCH_TEXT);
  else
    text_take(r->text ? r->text : r->event, out, HR_WATCH_TEXT);
  return out;
}

static void event_new(hr_watched *w, const hr_record *r, const char *name) {
  if (w->n_events == HR_WATCH_EVENTS) memmove(w->events, w->events + 1, --w->n_events * sizeof *w->events);
  hr_watch_event *e = &w->events[w->n_events++];
  *e = (hr_watch_event){.time = r->time, .step = r->step};
  text_take(name, e->name, sizeof e->name);
  hr__watch_text(r, e->text);
}

static void event_started(hr_watched *w, const hr_record *r) {
  w->has_started = true;
  w->has_ended = false;
  w->started = r->time;
  w->first_step = r->step;
  w->pid = r->pid;
  w->process_start = r->process_start;
  if (r->steps > 0) w->steps = r->steps;
  w->n_recent = w->n_memory = 0; /* rates are those of this process */
  w->looked = 0;
  w->uses.count = 0;
  w->status[0] = 0;
  text_take(r->machine, w->machine, sizeof w->machine);
}

static void event_ended(hr_watched *w, const hr_record *r) {
  w->has_ended = true;
  w->early = r->status && strcmp(r->status, "HR_OK") == 0 && r->text && strcmp(r->text, "stopped early") == 0;
  text_take(r->status, w->status, sizeof w->status);
}

static void event_memory(hr_watched *w, const hr_record *r) {
  for (int t = 0; t < HR_TIER_COUNT; t++)
    w->tiers[t].held_bytes = r->tiers[t].held_bytes;
  w->held_time = r->time;
  if (w->n_memory == HR_WATCH_MEMORY) memmove(w->memory, w->memory + 1, --w->n_memory * sizeof *w->memory);
  w->memory[w->n_memory++] = (double)r->tiers[HR_TIER_DEVICE].held_bytes;
}

static void event_take(hr_watched *w, const hr_record *r) {
  if (strcmp(r->event, "memory") == 0) {
    event_memory(w, r);
    return;
  }
  event_new(w, r, r->event);
  if (strcmp(r->event, "started") == 0) event_started(w, r);
  if (strcmp(r->event, "ended") == 0) event_ended(w, r);
  if (strcmp(r->event, "saved") == 0) w->saved = r->step;
}

static void header_take(hr_watched *w, const hr_record *r) {
  const char *slash = r->recipe ? strrchr(r->recipe, '/') : NULL;
  text_take(slash ? slash + 1 : r->recipe, w->recipe, sizeof w->recipe);
  text_take(r->device, w->device, sizeof w->device);
  w->on_gpu = r->device_kind && strcmp(r->device_kind, "cpu") != 0;
  w->steps = r->steps;
  w->planned_step_seconds = r->planned_step_seconds;
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    w->tiers[t].planned_bytes = r->tiers[t].planned_bytes;
    w->tiers[t].budget_bytes = r->tiers[t].budget_bytes;
  }
  if (!r->device) w->tiers[HR_TIER_DEVICE].planned_bytes = r->planned_peak_bytes; /* of older versions */
}

/* Mean of the recent losses, where all of them are there. */
static void means_note(hr_watched *w) {
  double sum = 0;
  if (w->n_recent < HR_WATCH_RECENT) return;
  for (size_t i = 0; i < HR_WATCH_RECENT; i++)
    sum += w->recent[i].loss;
  double mean = sum / HR_WATCH_RECENT;
  if (!isfinite(mean)) return;
  if (isnan(w->first_mean)) w->first_mean = mean;
  if (!(w->lowest_mean <= mean)) w->lowest_mean = mean;
}

static void step_take(hr_watched *w, const hr_record *r) {
  w->step = r->step;
  w->lr = r->lr;
  w->grad_norm = r->grad_norm;
  w->loss_scale = r->loss_scale;
  w->skipped += r->skipped;
  if (!r->skipped) w->loss = r->loss;
  if (isfinite(r->loss)) hr__curve_add(&w->curve, r->loss);
  if (w->n_recent == HR_WATCH_RECENT) memmove(w->recent, w->recent + 1, --w->n_recent * sizeof *w->recent);
  w->recent[w->n_recent++] = (hr_watch_step){.time = r->time,
                                             .seconds = r->seconds,
                                             .loss = r->loss,
                                             .step = r->step,
                                             .tokens = r->tokens,
                                             .samples = r->samples,
                                             .skipped = r->skipped};
  means_note(w);
}

static void eval_take(hr_watched *w, const hr_record *r) {
  event_new(w, r, "evaluated");
  w->eval_loss = r->loss;
  w->eval_step = r->step;
  if (!isfinite(r->loss) || w->best_loss <= r->loss) return;
  w->best_loss = r->loss;
  w->best_step = r->step;
}

static void samples_take(hr_watched *w, const hr_record *r) {
  if (r->n_generated > 0) event_new(w, r, "generated");
}

static void record_take(hr_watched *w, const hr_record *r) {
  if (isfinite(r->time)) w->time = r->time;
  switch (r->kind) {
  case HR_RECORD_AGAIN:
    watched_clear(w);
    return;
  case HR_RECORD_HEADER:
    header_take(w, r);
    return;
  case HR_RECORD_STEP:
    step_take(w, r);
    return;
  case HR_RECORD_EVAL:
    eval_take(w, r);
    return;
  case HR_RECORD_SAMPLES:
    samples_take(w, r);
    return;
  case HR_RECORD_EVENT:
    event_take(w, r);
    return;
  }
}

hr_status hr__watched_read(hr_watched *w, double seconds, bool *more, hr_error *err) {
  enum { LINES = 256 }; /* between looks at the clock */
  double until = hr__seconds_now() + seconds;
  *more = true;
  do {
    for (int i = 0; i < LINES && *more; i++) {
      hr_record record;
      HR_TRY(hr__history_next(w->history, &record, more, err));
      if (*more) record_take(w, &record);
    }
  } while (*more && hr__seconds_now() < until);
  return HR_OK;
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

/* Seconds of recent steps but the first, and how many there are: by the times of their lines, else as they took. */
static double recent_seconds(const hr_watched *w, double *steps) {
  if (w->n_recent == 0) return (double)NAN;
  const hr_watch_step *first = &w->recent[0], *last = &w->recent[w->n_recent - 1];
  *steps = (double)(last->step - first->step);
  if (w->n_recent > 1 && last->time > first->time && *steps > 0) return last->time - first->time;
  double sum = 0;
  for (size_t i = 0; i < w->n_recent; i++)
    sum += w->recent[i].seconds;
  *steps = (double)w->n_recent;
  return sum;
}

double hr__watched_step_seconds(const hr_watched *w) {
  double steps = 0, seconds = recent_seconds(w, &steps);
  return steps > 0 ? seconds / steps : (double)NAN;
}

static double per_second(const hr_watched *w, bool tokens) {
  double sum = 0, each = hr__watched_step_seconds(w);
  for (size_t i = 0; i < w->n_recent; i++)
    sum += (double)(tokens ? w->recent[i].tokens : w->recent[i].samples);
  return sum / (double)w->n_recent / each; /* lines may be of every so many steps */
}

double hr__watched_tokens_per_second(const hr_watched *w) {
  return per_second(w, true);
}

double hr__watched_samples_per_second(const hr_watched *w) {
  return per_second(w, false);
}

double hr__watched_left_seconds(const hr_watched *w) {
  return w->steps > w->step ? (double)(w->steps - w->step) * hr__watched_step_seconds(w) : 0;
}

/* --- as it is now ------------------------------------------------------------------------------------------------- */

/* Longer than this without a line, a run that cannot be looked at is taken as silent. */
static double patience(const hr_watched *w) {
  double step = hr__watched_step_seconds(w);
  return isfinite(step) && 20 * step > 120 ? 20 * step : 120;
}

static hr_watch_state state_of(const hr_watched *w, const hr_watch_now *now) {
  if (w->has_ended) {
    if (strcmp(w->status, "HR_OK") == 0 || strcmp(w->status, "HR_ABOVE_PLAN") == 0)
      return w->step < w->steps && !w->early ? HR_WATCH_STOPPED : HR_WATCH_DONE;
    bool by_signal = strcmp(w->status, "HR_INTERRUPTED") == 0 || strcmp(w->status, "HR_TERMINATED") == 0 ||
                     strcmp(w->status, "HR_HUNG_UP") == 0;
    return by_signal ? HR_WATCH_STOPPED : HR_WATCH_FAILED;
  }
  if (w->local && !w->process.there) return HR_WATCH_DEAD;
  if (w->local && w->process.paused) return HR_WATCH_PAUSED;
  if (!w->local && w->steps > 0 && w->step >= w->steps) return HR_WATCH_DONE;
  if (!w->local && !(now->time - w->time <= patience(w))) return HR_WATCH_SILENT;
  return w->n_recent == 0 ? HR_WATCH_STARTING : HR_WATCH_RUNNING;
}

static void ring_add(hr_watch_ring *ring, double value) {
  if (ring->count == HR_WATCH_USES) memmove(ring->value, ring->value + 1, --ring->count * sizeof *ring->value);
  ring->value[ring->count++] = value;
}

/* On which GPU the process is. One that cannot be told by its number (containers) is on the only one there is. */
static void gpu_find(hr_watched *w, const hr_watch_now *now) {
  w->gpu = -1;
  w->gpu_bytes = 0;
  for (size_t g = 0; g < now->n_gpus; g++)
    for (size_t p = 0; p < now->gpus[g].n_processes; p++)
      if (now->gpus[g].processes[p].pid == w->pid) {
        w->gpu = (int)g;
        w->gpu_bytes = now->gpus[g].processes[p].bytes;
      }
  if (w->gpu < 0 && w->on_gpu && now->n_gpus == 1) w->gpu = 0;
}

static void process_look(hr_watched *w, const hr_watch_now *now) {
  double before = w->process.cpu, since = now->clock - w->looked;
  bool known = w->looked > 0 && w->process.there;
  if (known && since < 0.2) return; /* too short to tell anything */
  w->process = hr__process_look(w->pid, w->process_start);
  w->processors = (double)NAN;
  if (!w->process.there) return;
  if (known) w->processors = (w->process.cpu - before) / since;
  w->looked = now->clock;
  gpu_find(w, now);
  if (w->n_recent == 0 || !known) return;
  if (w->gpu >= 0 && now->gpus[w->gpu].use >= 0)
    ring_add(&w->uses, now->gpus[w->gpu].use);
  else if (!w->on_gpu)
    ring_add(&w->uses, w->processors / (double)now->processors);
}

void hr__watched_look(hr_watched *w, const hr_watch_now *now) {
  w->local = w->has_started && w->pid > 0 && strcmp(w->machine, now->machine) == 0;
  if (w->local && !w->has_ended)
    process_look(w, now);
  else
    w->process = (hr_process){0};
  if (!w->process.there) {
    w->gpu = -1;
    w->processors = (double)NAN;
  }
  w->state = state_of(w, now);
  w->n_signs = 0;
  hr__signs_find(w, now);
}
