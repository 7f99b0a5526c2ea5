/* See work.h. */
#include "base/work.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/text.h"

static const double line_first = 1, line_next = 0.2;   /* on a terminal: until the line comes, and between drawings */
static const double plain_first = 10, plain_next = 30; /* elsewhere */
static const double least_share = 0.02;                /* below which the time left is a guess that nobody needs */

static _Thread_local hr_work *current;

static double share_of(const hr_work *t) {
  if (t->all > 0) return t->done < t->all ? (double)t->done / (double)t->all : 1;
  return t->share;
}

/* Called with the ticker held, from its thread. */
static void draw(void *user) {
  hr_work *t = user;
  char size[2][HR_SIZE_TEXT], count[2 * HR_SIZE_TEXT + 8] = "", clock[HR_CLOCK_TEXT], left[HR_CLOCK_TEXT + 8] = "";
  double share = share_of(t), passed = hr__seconds_now() - t->begun;
  if (t->all > 0)
    snprintf(count, sizeof count, "%s of %s", hr__size_text(t->done, size[0]), hr__size_text(t->all, size[1]));
  if (share >= least_share && share < 1)
    snprintf(left, sizeof left, "%s left", hr__clock_text(passed * (1 - share) / share, clock));
  else
    hr__clock_text(passed, left);
  const char *words = t->detail[0] ? t->detail : count;
  if (!t->line.to) {
    fprintf(t->to, "%s%s%s, %s\n", t->what, *words ? ": " : "", words, left);
    fflush(t->to);
    return;
  }
  hr_line_part parts[] = {{t->what, 4}, {words, 2}, {left, 3}};
  hr__line_draw(&t->line, share, parts, sizeof parts / sizeof *parts);
}

void hr__work_begin(hr_work *t, FILE *to, const char *what, uint64_t all) {
  *t = (hr_work){.to = to, .what = what, .begun = hr__seconds_now(), .all = all, .share = -1, .outer = current};
  current = t;
  if (!to) return;
  hr__line_begin(&t->line, to);
  hr__work_clear();
  bool drawn = t->line.to != NULL;
  t->ticker = hr__ticker_start(drawn ? line_first : plain_first, drawn ? line_next : plain_next, draw, t);
}

void hr__work_end(hr_work *t) {
  hr__ticker_stop(t->ticker);
  t->ticker = NULL;
  hr__line_clear(&t->line);
  current = t->outer;
}

void hr__work_advance(uint64_t bytes) {
  hr_work *t = current;
  if (!t || !t->ticker) return;
  hr__ticker_hold(t->ticker);
  t->done += bytes;
  hr__ticker_release(t->ticker);
}

void hr__work_expect(uint64_t bytes) {
  hr_work *t = current;
  if (!t || !t->ticker) return;
  hr__ticker_hold(t->ticker);
  t->all += bytes;
  hr__ticker_release(t->ticker);
}

void hr__work_bytes(hr_work *t, const char *what, uint64_t done, uint64_t all) {
  if (!t->ticker) return;
  hr__ticker_hold(t->ticker);
  t->what = what;
  t->done = done;
  t->all = all;
  hr__ticker_release(t->ticker);
}

void hr__work_detail(hr_work *t, double share, const char *detail) {
  if (!t->ticker) return;
  hr__ticker_hold(t->ticker);
  t->share = share;
  snprintf(t->detail, sizeof t->detail, "%s", detail);
  hr__ticker_release(t->ticker);
}

void hr__work_clear(void) {
  for (hr_work *t = current; t; t = t->outer) {
    if (!t->ticker) continue;
    hr__ticker_hold(t->ticker);
    hr__line_clear(&t->line);
    hr__ticker_release(t->ticker);
  }
}
