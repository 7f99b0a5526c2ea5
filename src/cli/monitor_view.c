/* How runs look on a page: see monitor.h. Calm: figures keep their columns, and what is as it should be is not told. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/line.h"
#include "cli/figures.h"
#include "cli/monitor.h"

enum { TEXT = 512, LIST_NAME = 24, TIGHT = 15 }; /* TIGHT: with fewer rows there are no empty ones */

/* --- pieces ------------------------------------------------------------------------------------------------------- */

/* A share as a bar of so many columns, in brackets. */
static const char *bar_text(double share, size_t columns, char out[TEXT]) {
  bool blocks = hr__utf8();
  size_t inner = columns > 2 ? columns - 2 : 0, used = 0;
  if (!(share > 0)) share = 0;
  if (share > 1) share = 1;
  if (3 * inner + 3 > TEXT) inner = (TEXT - 3) / 3;
  size_t full = (size_t)(share * (double)inner);
  if (!blocks) out[used++] = '[';
  for (size_t i = 0; i < inner + (blocks ? 2 : 0); i++) {
    size_t whole = blocks ? (size_t)(share * (double)(inner + 2)) : full;
    const char *mark = i < whole ? blocks ? "█" : "#" : blocks ? "░" : ".";
    memcpy(out + used, mark, strlen(mark));
    used += strlen(mark);
  }
  if (!blocks) out[used++] = ']';
  out[used] = 0;
  return out;
}

/* "14:05:11", or with the day where it is another one than today. */
static const char *time_text(double time, double now, char out[32]) {
  time_t at = (time_t)time, today = (time_t)now;
  struct tm is, was;
  snprintf(out, 32, "--:--:--");
  if (!(time > 0) || !localtime_r(&at, &was) || !localtime_r(&today, &is)) return out;
  bool same = is.tm_yday == was.tm_yday && is.tm_year == was.tm_year;
  strftime(out, 32, same ? "%H:%M:%S" : "%b %d %H:%M", &was);
  return out;
}

static const char *number_text(const char *format, double number, char out[32]) {
  if (isfinite(number)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, 32, format, number);
#pragma GCC diagnostic pop
  } else {
    snprintf(out, 32, "-");
  }
  return out;
}

static const char *rate_text(const hr_watched *w, char out[64]) {
  double tokens = hr__watched_tokens_per_second(w), samples = hr__watched_samples_per_second(w);
  char rate[HR_SIZE_TEXT];
  if (isfinite(tokens) && tokens > 0)
    snprintf(out, 64, "%s tokens/s", hr__rate_text(tokens, rate));
  else if (isfinite(samples))
    snprintf(out, 64, "%s samples/s", hr__rate_text(samples, rate));
  else
    snprintf(out, 64, "-");
  return out;
}

static const char *left_text(const hr_watched *w, char out[HR_CLOCK_TEXT]) {
  double left = hr__watched_left_seconds(w);
  if (hr__watch_is_alive(w->state) && isfinite(left)) return hr__clock_text(left, out);
  snprintf(out, HR_CLOCK_TEXT, "-");
  return out;
}

static double share_done(const hr_watched *w) {
  return w->steps > 0 ? (double)w->step / (double)w->steps : 0;
}

/* What is held of a tier now: the process tells more often than its log. */
static uint64_t held_now(const hr_watched *w, int tier) {
  if (tier != HR_TIER_DEVICE || !w->process.there) return w->tiers[tier].held_bytes;
  if (w->on_gpu) return w->gpu_bytes > 0 ? w->gpu_bytes : w->tiers[tier].held_bytes;
  uint64_t host = w->tiers[HR_TIER_HOST].held_bytes;
  return w->process.resident_bytes > host ? w->process.resident_bytes - host : w->process.resident_bytes;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static void progress_add(const hr_watched *w, const hr_monitor *m, hr_page *page) {
  char bar[TEXT], left[HR_CLOCK_TEXT], end[32] = "", text[TEXT];
  double seconds = hr__watched_left_seconds(w);
  bool goes_on = hr__watch_is_alive(w->state) && w->step < w->steps && isfinite(seconds);
  int n =
      snprintf(text, sizeof text, "  step %" PRId64 " of %" PRId64 "  %.1f %%", w->step, w->steps, 100 * share_done(w));
  if (goes_on)
    snprintf(text + n, sizeof text - (size_t)n, "  %s left, until %s", left_text(w, left),
             time_text(m->now.time + seconds, m->now.time, end));
  size_t used = hr__text_columns(text), room = page->columns > used + 2 ? page->columns - used - 2 : 0;
  if (room > 60) room = 60;
  hr__page_add(page, HR_PAGE_PLAIN, "  %s%s", room >= 10 ? bar_text(share_done(w), room, bar) : "",
               room >= 10 ? text : text + 2);
}

static void loss_add(const hr_watched *w, hr_page *page) {
  char loss[32], eval[32], lowest[80] = "", bars[3 * HR_CURVE + 1], ends[80];
  if (w->best_step == w->eval_step)
    snprintf(lowest, sizeof lowest, ", the lowest so far");
  else if (w->best_step > 0)
    snprintf(lowest, sizeof lowest, ", the lowest was %.4f after step %" PRId64, w->best_loss, w->best_step);
  if (w->eval_step > 0)
    hr__page_add(page, HR_PAGE_PLAIN, "  loss %s   held out %s%s", number_text("%.4f", w->loss, loss),
                 number_text("%.4f", w->eval_loss, eval), lowest);
  else
    hr__page_add(page, HR_PAGE_PLAIN, "  loss %s", number_text("%.4f", w->loss, loss));
  snprintf(ends, sizeof ends, "%.4g -> %.4g", w->curve.first, w->curve.last);
  size_t room = page->columns > strlen(ends) + 6 ? page->columns - strlen(ends) - 6 : 0;
  if (room > HR_CURVE) room = HR_CURVE;
  if (w->curve.columns > 1 && room >= 10)
    hr__page_add(page, HR_PAGE_GOOD, "  %s  %s", hr__curve_text(&w->curve, room, hr__utf8(), bars), ends);
}

static void speed_add(const hr_watched *w, hr_page *page) {
  char rate[64], each[HR_SIZE_TEXT], planned[HR_SIZE_TEXT], plan[64] = "", more[80] = "", lr[32], norm[32];
  double step = hr__watched_step_seconds(w);
  if (!isfinite(step)) return;
  if (isfinite(w->planned_step_seconds) && w->planned_step_seconds > 0)
    snprintf(plan, sizeof plan, ", planned %s", hr__seconds_text(w->planned_step_seconds, planned));
  if (isfinite(w->loss_scale))
    snprintf(more, sizeof more, "   loss scale %g, %" PRId64 " skipped", w->loss_scale, w->skipped);
  hr__page_add(page, HR_PAGE_PLAIN, "  %s   %s a step%s   lr %s   norm %s%s", rate_text(w, rate),
               hr__seconds_text(step, each), plan, number_text("%.3g", w->lr, lr),
               number_text("%.3g", w->grad_norm, norm), more);
}

static void tiers_add(const hr_watched *w, hr_page *page) {
  static const char *const names[HR_TIER_COUNT] = {"device", "host", "disk"};
  char size[3][HR_SIZE_TEXT], bar[TEXT];
  hr__page_add(page, HR_PAGE_DIM, "  %-8s%12s%12s%12s", "memory", "held now", "planned", "budget");
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    uint64_t planned = w->tiers[t].planned_bytes, held = held_now(w, t), budget = w->tiers[t].budget_bytes;
    if (planned < 4096 && held < 4096) continue;
    size_t room = page->columns > 52 ? page->columns - 50 : 0;
    bool known = w->process.there || isfinite(w->held_time);
    hr__page_add(
        page, HR_PAGE_PLAIN, "  %-8s%12s%12s%12s  %s", names[t], known ? hr__size_text(held, size[0]) : "-",
        hr__size_text(planned, size[1]), budget > 0 ? hr__size_text(budget, size[2]) : "-",
        room >= 8 && planned > 0 && known ? bar_text((double)held / (double)planned, room < 40 ? room : 40, bar) : "");
  }
}

static void process_add(const hr_watched *w, const hr_monitor *m, hr_page *page) {
  char size[2][HR_SIZE_TEXT], use[64] = "", part[64] = "";
  if (w->process.there) {
    if (isfinite(w->processors)) snprintf(use, sizeof use, ", %.1f of %d processors", w->processors, m->now.processors);
    hr__page_add(page, HR_PAGE_PLAIN, "  %-8s%12s in memory%s, process %" PRId64, "process",
                 hr__size_text(w->process.resident_bytes, size[0]), use, w->pid);
  } else if (w->has_started && !w->has_ended && !w->local) {
    hr__page_add(page, HR_PAGE_PLAIN, "  %-8s on %s, process %" PRId64, "process", w->machine, w->pid);
  }
  if (w->gpu < 0) return;
  const hr_nvml_gpu *gpu = &m->gpus[w->gpu];
  if (gpu->use >= 0) snprintf(part, sizeof part, ", %.0f %% used", 100 * gpu->use);
  char name[HR_WATCH_NAME];
  hr__text_escape(gpu->name, strlen(gpu->name), name, sizeof name);
  hr__page_add(page, HR_PAGE_PLAIN, "  GPU %-4d%12s of %s%s, %s", w->gpu, hr__size_text(gpu->used_bytes, size[0]),
               hr__size_text(gpu->total_bytes, size[1]), part, name);
}

static hr_page_style state_style(const hr_watched *w) {
  return w->n_signs > 0 ? HR_PAGE_WARNING : w->state == HR_WATCH_DONE ? HR_PAGE_GOOD : HR_PAGE_BOLD;
}

static void title_add(const hr_watched *w, const hr_monitor *m, hr_page *page) {
  char left[TEXT], right[2 * HR_WATCH_NAME + 8], since[HR_CLOCK_TEXT], how_long[48] = "";
  double until = hr__watch_is_alive(w->state) ? m->now.time : w->time;
  if (isfinite(w->started)) snprintf(how_long, sizeof how_long, " %s", hr__clock_text(until - w->started, since));
  snprintf(left, sizeof left, "%s  %s%s", w->name, hr__watch_state_name(w->state), how_long);
  snprintf(right, sizeof right, "%s%s%s", w->recipe, *w->device ? ", " : "", w->device);
  hr__page_add_sides(page, state_style(w), left, right);
}

static void events_add(const hr_watched *w, const hr_monitor *m, hr_page *page, size_t last_row) {
  for (size_t i = w->n_events; i-- > 0 && page->count < last_row;) {
    const hr_watch_event *e = &w->events[i];
    char time[32];
    hr__page_add(page, strcmp(e->name, "warning") == 0 ? HR_PAGE_WARNING : HR_PAGE_DIM, "  %-12s step %-8" PRId64 " %s",
                 time_text(e->time, m->now.time, time), e->step, e->text);
  }
}

static void run_add(const hr_watched *w, const hr_monitor *m, hr_page *page, size_t last_row) {
  bool tight = last_row < page->count + TIGHT;
  uint64_t broken = hr__history_broken(w->history);
  title_add(w, m, page);
  for (size_t i = 0; i < w->n_signs && page->count < last_row; i++)
    hr__page_add(page, HR_PAGE_WARNING, "  ! %s", w->signs[i].text);
  if (!tight) hr__page_add(page, HR_PAGE_PLAIN, "%s", "");
  progress_add(w, m, page);
  loss_add(w, page);
  speed_add(w, page);
  if (!tight) hr__page_add(page, HR_PAGE_PLAIN, "%s", "");
  tiers_add(w, page);
  process_add(w, m, page);
  if (broken > 0) hr__page_add(page, HR_PAGE_DIM, "  %" PRIu64 " lines of the log cannot be read", broken);
  if (!tight) hr__page_add(page, HR_PAGE_PLAIN, "%s", "");
  events_add(w, m, page, last_row);
}

void hr__monitor_run(const hr_watched *w, const hr_monitor *m, hr_page *page) {
  run_add(w, m, page, page->rows);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* The end of a name that is too long says more than its beginning. */
static const char *name_text(const char *name, size_t columns, char out[HR_WATCH_NAME + 8]) {
  size_t width = hr__text_columns(name);
  const char *at = name;
  while (width > columns && *at) {
    at += hr__text_fit(at, 1) ? hr__text_fit(at, 1) : 1;
    while (((unsigned char)*at & 0xc0) == 0x80)
      at++;
    width = hr__text_columns(at) + 2;
  }
  snprintf(out, HR_WATCH_NAME + 8, "%s%s", at == name ? "" : "..", at);
  return out;
}

/* Columns for names: the longest one, as far as there is room. */
static size_t names_columns(const hr_monitor *m, size_t most) {
  size_t columns = 8;
  for (size_t i = 0; i < m->count; i++) {
    size_t width = hr__text_columns(m->runs[i]->name);
    columns = width > columns ? width : columns;
  }
  return columns < most ? columns : most;
}

/* On wide screens a line has the speed and the curve of losses too. */
static void list_add(const hr_monitor *m, size_t selected, size_t rows, hr_page *page) {
  bool wide = page->columns >= 110;
  size_t names = names_columns(m, wide ? 40 : LIST_NAME), used = names + (wide ? 74 : 54);
  size_t spark = wide && page->columns > used + 10 ? page->columns - used : 0;
  size_t first = selected >= rows ? selected - rows + 1 : 0;
  if (spark > 80) spark = 80;
  hr__page_add(page, HR_PAGE_DIM, "  %-*s %-8s %15s %6s %8s %9s%s%s", (int)names, "run", "state", "step", "", "loss",
               "left", wide ? "               speed" : "", spark > 0 ? "  losses" : "");
  for (size_t i = first; i < m->count && i < first + rows; i++) {
    const hr_watched *w = m->runs[i];
    char name[HR_WATCH_NAME + 8], steps[48], loss[32], left[HR_CLOCK_TEXT], bars[3 * HR_CURVE + 1] = "", rate[64];
    snprintf(steps, sizeof steps, "%" PRId64 "/%" PRId64, w->step, w->steps);
    name_text(w->name, names, name);
    if (spark > 0) hr__curve_text(&w->curve, spark, hr__utf8(), bars);
    hr__page_add(page,
                 i == selected    ? HR_PAGE_CHOSEN
                 : w->n_signs > 0 ? HR_PAGE_WARNING
                                  : HR_PAGE_PLAIN,
                 "%c %s%*s %-8s %15s %4.0f %% %8s %9s%*s%s%s", w->n_signs > 0 ? '!' : ' ', name,
                 (int)(names - hr__text_columns(name)), "", hr__watch_state_name(w->state), steps, 100 * share_done(w),
                 number_text("%.4f", w->loss, loss), left_text(w, left), wide ? 20 : 0, wide ? rate_text(w, rate) : "",
                 *bars ? "  " : "", bars);
  }
  if (m->count > rows) hr__page_add(page, HR_PAGE_DIM, "  %zu to %zu of %zu runs", first + 1, first + rows, m->count);
}

static void help_add(hr_page *page) {
  static const char *const lines[] = {
      "headroom monitor: runs as they go. They are only read.",
      "",
      "  q         leave",
      "  up, down  another run (k, j; Home, End)",
      "  right     this run alone (Enter); left (Esc) the list again",
      "  s         save what is shown as text, in the current folder",
      "  ?         this page, and back",
      "",
      "  !  signs that something is not as it should be: memory that creeps or is",
      "     above the plan, low use of GPU or processors, a loss that is erratic or",
      "     rises, steps that overflow, another process on the GPU, a run that is",
      "     dead, stalled or paused. Each says what to do.",
      "",
      "  held now: on the CPU what the process has in memory, on a GPU what the",
      "  driver counts; host and disk as the run itself looked last.",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    hr__page_add(page, i == 0 ? HR_PAGE_BOLD : HR_PAGE_PLAIN, "%s", lines[i]);
}

static void keys_add(const hr_monitor *m, const hr_monitor_choice *choice, hr_page *page) {
  char now[32];
  bool several = m->count > 1;
  const char *keys = choice->help    ? "? back   q leave"
                     : !several      ? "q leave   s save as text   ? help"
                     : choice->alone ? "q leave   left list   up/down other runs   s save as text   ? help"
                                     : "q leave   up/down choose   right this one alone   s save as text   ? help";
  page->count = page->count < page->rows - 1 ? page->count : page->rows - 1;
  hr__page_fill(page, page->rows - 1);
  hr__page_add_sides(page, HR_PAGE_DIM,
                     choice->note ? choice->note
                     : m->reading ? "reading logs ..."
                                  : keys,
                     time_text(m->now.time, m->now.time, now));
}

void hr__monitor_view(const hr_monitor *m, const hr_monitor_choice *choice, hr_page *page) {
  size_t last = page->rows - 1; /* the keys' */
  if (choice->help) {
    help_add(page);
  } else if (m->count == 0) {
    hr__page_add(page, HR_PAGE_BOLD, "no runs here yet");
    hr__page_add(page, HR_PAGE_PLAIN,
                 "  headroom train RECIPE --out DIR begins one; it will be shown as soon as it trains");
  } else {
    size_t most = page->rows > 12 ? page->rows / 2 - 2 : 2;
    bool list = m->count > 1 && !choice->alone;
    if (list) list_add(m, choice->selected, m->count < most ? m->count : most, page);
    if (list && page->count + 4 < last) hr__page_add(page, HR_PAGE_PLAIN, "%s", "");
    if (page->count < last) run_add(m->runs[choice->selected], m, page, last);
  }
  if (page->rows > 1) keys_add(m, choice, page);
}

void hr__monitor_line(const hr_watched *w, FILE *to) {
  char loss[32], rate[64], left[HR_CLOCK_TEXT], size[2][HR_SIZE_TEXT];
  fprintf(to, "%s  %s  step %" PRId64 "/%" PRId64 " (%.0f %%)  loss %s  %s", w->name, hr__watch_state_name(w->state),
          w->step, w->steps, 100 * share_done(w), number_text("%.4f", w->loss, loss), rate_text(w, rate));
  if (hr__watch_is_alive(w->state)) fprintf(to, "  %s left", left_text(w, left));
  uint64_t held = held_now(w, HR_TIER_DEVICE);
  if (held > 0)
    fprintf(to, "  %s of %s planned", hr__size_text(held, size[0]),
            hr__size_text(w->tiers[HR_TIER_DEVICE].planned_bytes, size[1]));
  fputc('\n', to);
  for (size_t i = 0; i < w->n_signs; i++)
    fprintf(to, "  ! %s\n", w->signs[i].text);
}
