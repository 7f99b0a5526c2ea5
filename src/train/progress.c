/* See progress.h. */
#include "train/progress.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"

void hr__progress_begin(hr_progress *p, FILE *to, int64_t first) {
  *p = (hr_progress){.first = first, .begun = hr__seconds_now()};
  hr__line_begin(&p->line, to);
}

bool hr__progress_due(const hr_progress *p) {
  return hr__line_due(&p->line);
}

void hr__progress_draw(hr_progress *p, const hr_progress_state *s) {
  int64_t done = s->step - p->first;
  char step[48], loss[HR_REPORTS_TEXT + 32] = "", each[HR_REPORTS_TEXT] = "", rate[48] = "", memory[HR_SIZE_TEXT] = "",
                                        left[HR_CLOCK_TEXT + 8] = "";
  char clock[HR_CLOCK_TEXT];
  snprintf(step, sizeof step, "%" PRId64 "/%" PRId64, s->step, s->steps);
  if (done > 0) { /* before the first step there is nothing more to tell */
    double seconds = (hr__seconds_now() - p->begun) / (double)done * (double)(s->steps - s->step);
    if (s->reports) hr__reports_text(s->reports, each);
    snprintf(loss, sizeof loss, "loss %.4f%s", s->loss, each);
    if (s->tokens_per_second > 0)
      snprintf(rate, sizeof rate, "%.0f tokens/s", s->tokens_per_second);
    else
      snprintf(rate, sizeof rate, "%.1f samples/s", s->samples_per_second);
    snprintf(left, sizeof left, "%s left", hr__clock_text(seconds, clock));
  }
  if (s->memory_bytes > 0) hr__size_text(s->memory_bytes, memory);
  hr_line_part parts[] = {{step, 5}, {loss, 4}, {rate, 3}, {memory, 1}, {left, 2}};
  hr__line_draw(&p->line, s->steps > 0 ? (double)s->step / (double)s->steps : 0, parts, sizeof parts / sizeof parts[0]);
  if (done == 0) p->line.last = 0; /* the first step has more to tell, however fast it is */
}

void hr__progress_clear(hr_progress *p) {
  hr__line_clear(&p->line);
}

void hr__progress_end(hr_progress *p) {
  hr__progress_clear(p);
}
