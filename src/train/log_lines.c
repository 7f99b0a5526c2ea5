/* See log_lines.h. */
#include "train/log_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "format/json.h"
#include "train/record.h"

/* Seconds since 1970, as lines have them: with three digits. */
static double time_now(void) {
  return floor(1000 * hr__calendar_now()) / 1000;
}

/* --- the same for TensorBoard ------------------------------------------------------------------------------------- */

/* Losses and metrics of a record, in memory of the caller; none where there is a single loss. */
static void reports_record(const hr_reports *reports, hr_record *r, hr_record_value list[HR_REPORTED]) {
  size_t used = 0;
  for (int metric = 0; metric < 2; metric++) {
    hr_record_values *values = metric ? &r->metrics : &r->losses;
    values->list = list + used;
    for (int i = 0; reports && reports->count > 1 && i < reports->count; i++)
      if (reports->list[i].metric == metric)
        values->list[values->count++] = (hr_record_value){reports->list[i].name, reports->values[i]};
    used += values->count;
  }
}

static void step_board(hr_log *log, const hr_log_step *s, double time) {
  hr_record_value values[HR_REPORTED];
  hr_record r = {.kind = HR_RECORD_STEP,
                 .step = s->step,
                 .time = time,
                 .seconds = s->seconds,
                 .loss = s->loss,
                 .lr = s->lr,
                 .grad_norm = s->grad_norm,
                 .loss_scale = s->loss_scale > 0 ? s->loss_scale : (double)NAN,
                 .tokens = s->tokens,
                 .samples = s->samples};
  reports_record(s->reports, &r, values);
  hr__board_record(log->board, &r);
}

static void eval_board(hr_log *log, int64_t step, double loss, const hr_reports *reports, double time) {
  hr_record_value values[HR_REPORTED];
  hr_record r = {.kind = HR_RECORD_EVAL, .step = step, .time = time, .loss = loss};
  reports_record(reports, &r, values);
  hr__board_record(log->board, &r);
}

/* A line as its readers take it. */
static void line_board(hr_log *log, const char *line, hr_arena *arena) {
  hr_record r;
  bool good;
  if (hr__record_read(line, strlen(line), arena, &r, &good, NULL) == HR_OK && good) hr__board_record(log->board, &r);
}

static void event_board(hr_log *log, const hr_log_event *e, double time) {
  hr_record r = {.kind = HR_RECORD_EVENT, .step = e->step, .time = time, .event = e->name};
  for (int t = 0; e->held && t < HR_TIER_COUNT; t++)
    r.tiers[t].held_bytes = e->held[t];
  hr__board_record(log->board, &r);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static const char *number_text(double number, char out[32]) {
  if (isfinite(number))
    snprintf(out, 32, "%.9g", number);
  else
    snprintf(out, 32, "null");
  return out;
}

hr_status hr__log_step(hr_log *log, const hr_log_step *s, hr_error *err) {
  if (log->fd < 0) return HR_OK;
  char line[2 * HR_REPORTS_TEXT], scaling[96] = "", loss[32], norm[32], more[HR_REPORTS_TEXT] = "";
  double time = time_now();
  if (log->board) step_board(log, s, time);
  if (s->reports) hr__reports_json_text(s->reports, "", more);
  if (s->loss_scale > 0)
    snprintf(scaling, sizeof scaling, ",\"loss_scale\":%.9g%s", s->loss_scale, s->skipped ? ",\"skipped\":true" : "");
  int n = snprintf(line, sizeof line,
                   "{\"step\":%" PRId64 ",\"loss\":%s,\"lr\":%.9g,\"grad_norm\":%s,\"seconds\":%.6f,\"tokens\":%" PRId64
                   ",\"samples\":%" PRId64 ",\"time\":%.3f%s%s}\n",
                   s->step, number_text(s->loss, loss), s->lr, number_text(s->grad_norm, norm), s->seconds, s->tokens,
                   s->samples, time, scaling, more);
  return hr__log_put(log, line, (size_t)n, err);
}

hr_status hr__log_eval(hr_log *log, int64_t step, double loss, const hr_reports *reports, double seconds,
                       hr_error *err) {
  if (log->fd < 0) return HR_OK;
  char line[2 * HR_REPORTS_TEXT], number[32], more[HR_REPORTS_TEXT] = "";
  double time = time_now();
  if (log->board) eval_board(log, step, loss, reports, time);
  if (reports) hr__reports_json_text(reports, "eval_", more);
  int n = snprintf(line, sizeof line, "{\"step\":%" PRId64 ",\"eval_loss\":%s,\"seconds\":%.6f,\"time\":%.3f%s}\n",
                   step, number_text(loss, number), seconds, time, more);
  return hr__log_put(log, line, (size_t)n, err);
}

hr_status hr__log_samples(hr_log *log, int64_t step, const json_t *samples, double seconds, hr_error *err) {
  if (log->fd < 0) return HR_OK;
  hr_arena arena;
  char *list;
  size_t bytes;
  hr__arena_init(&arena);
  hr_status status = hr__json_text(samples, JSON_COMPACT, &arena, &list, &bytes, err);
  if (status == HR_OK) {
    const char *line =
        hr__arena_format(&arena, "{\"step\":%" PRId64 ",\"generated\":%s,\"seconds\":%.6f,\"time\":%.3f}\n", step, list,
                         seconds, time_now());
    status = line ? hr__log_put(log, line, strlen(line), err) : hr__nomem(err);
    if (line && log->board) line_board(log, line, &arena);
  }
  hr__arena_fini(&arena);
  return status;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

enum { EVENT_BYTES = 4096, TEXT_BYTES = 1024 };

typedef struct event_line {
  char text[EVENT_BYTES];
  size_t used;
} event_line;

__attribute__((format(printf, 2, 3))) static void add(event_line *line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, list);
  va_end(list);
  line->used += (size_t)n < sizeof line->text - line->used ? (size_t)n : 0; /* what does not fit is left out */
}

/* A member that is any text: control bytes and what is no UTF-8 are shown, the rest is JSON's own escapes. */
static void add_text(event_line *line, const char *name, const char *text) {
  char shown[TEXT_BYTES], escaped[2 * TEXT_BYTES];
  size_t used = 0;
  if (!text) return;
  hr__text_escape(text, strlen(text), shown, sizeof shown);
  for (const char *c = shown; *c; c++) {
    if (*c == '"' || *c == '\\') escaped[used++] = '\\';
    escaped[used++] = *c;
  }
  escaped[used] = 0;
  add(line, ",\"%s\":\"%s\"", name, escaped);
}

/* When this process began, in the system's ticks: field 22 of its stat, counted behind its name, which ends with the
 * last bracket. 0: not known. */
static uint64_t process_start(void) {
  char text[1024];
  FILE *file = fopen("/proc/self/stat", "re");
  size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[n] = 0;
  const char *at = strrchr(text, ')');
  for (int field = 2; at && field < 22; field++)
    at = strchr(at + 1, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

static void add_process(event_line *line, bool resumed, int64_t steps) {
  char machine[256] = "";
  (void)gethostname(machine, sizeof machine - 1);
  add(line, ",\"resumed\":%s,\"steps\":%" PRId64 ",\"pid\":%ld,\"process_start\":%" PRIu64, resumed ? "true" : "false",
      steps, (long)getpid(), process_start());
  add_text(line, "machine", machine);
}

static void add_held(event_line *line, const uint64_t *held) {
  static const char *const names[HR_TIER_COUNT] = {"device", "host", "disk"};
  add(line, ",\"tiers\":{");
  for (int t = 0; t < HR_TIER_COUNT; t++)
    add(line, "%s\"%s\":{\"held_bytes\":%" PRIu64 "}", t ? "," : "", names[t], held[t]);
  add(line, "}");
}

static void add_phases(event_line *line, const double *phases) {
  static const char *const names[HR_PHASE_COUNT] = {"prepare", "load", "steps", "evaluate", "generate", "save"};
  add(line, ",\"phases\":{");
  for (int p = 0; p < HR_PHASE_COUNT; p++)
    add(line, "%s\"%s\":%.6f", p ? "," : "", names[p], phases[p]);
  add(line, "}");
}

void hr__log_event(hr_log *log, const hr_log_event *e) {
  if (log->fd < 0 || log->telling) return;
  event_line line = {.used = 0};
  double time = time_now();
  if (log->board) event_board(log, e, time);
  add(&line, "{\"step\":%" PRId64 ",\"event\":\"%s\",\"time\":%.3f", e->step, e->name, time);
  if (e->started) add_process(&line, e->resumed, e->steps);
  if (e->seconds > 0) add(&line, ",\"seconds\":%.6f", e->seconds);
  if (e->bytes > 0) add(&line, ",\"bytes\":%" PRIu64, e->bytes);
  if (e->status) add(&line, ",\"status\":\"%s\"", e->status);
  if (e->held) add_held(&line, e->held);
  if (e->phases) add_phases(&line, e->phases);
  add_text(&line, "text", e->text);
  add(&line, "}\n");
  (void)hr__log_put(log, line.text, line.used, NULL);
}
