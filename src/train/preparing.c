/* See preparing.h. */
#include "train/preparing.h"

#include "base/clock.h"
#include "base/text.h"

static const double first_seconds = 1, next_seconds = 0.2; /* until the line comes, and between drawings */

static void draw(void *user) {
  hr_preparing *p = user;
  char size[2][HR_SIZE_TEXT], count[2 * HR_SIZE_TEXT + 8] = "", clock[HR_CLOCK_TEXT];
  if (p->all > 0)
    snprintf(count, sizeof count, "%s of %s", hr__size_text(p->done, size[0]), hr__size_text(p->all, size[1]));
  hr_line_part parts[] = {{p->all > 0 ? "making tokens" : "reading data", 3},
                          {count, 2},
                          {hr__clock_text(hr__seconds_now() - p->begun, clock), 1}};
  hr__line_draw(&p->line, p->all > 0 ? (double)p->done / (double)p->all : -1, parts, sizeof parts / sizeof *parts);
}

void hr__preparing_begin(hr_preparing *p, FILE *to) {
  *p = (hr_preparing){.begun = hr__seconds_now()};
  hr__line_begin(&p->line, to);
  if (p->line.to) p->ticker = hr__ticker_start(first_seconds, next_seconds, draw, p);
}

static void tokenized(void *user, uint64_t done, uint64_t all) {
  hr_preparing *p = user;
  if (!p->ticker) return;
  hr__ticker_hold(p->ticker);
  p->done = done;
  p->all = all;
  hr__ticker_release(p->ticker);
}

hr_data_watch hr__preparing_watch(hr_preparing *p) {
  return (hr_data_watch){tokenized, p};
}

void hr__preparing_end(hr_preparing *p) {
  hr__ticker_stop(p->ticker);
  hr__line_clear(&p->line);
}
