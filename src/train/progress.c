/* See progress.h. */
#include "train/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

void hr__progress_begin(hr_progress *p, FILE *to, int64_t first) {
  *p = (hr_progress){.first = first, .begun = hr__seconds_now(), .statm = -1};
  hr__line_begin(&p->line, to);
  if (p->line.to) p->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

uint64_t hr__progress_resident(const hr_progress *p) {
  char text[128];
  ssize_t n = p->statm >= 0 ? pread(p->statm, text, sizeof text - 1, 0) : 0;
  uint64_t all, resident; /* pages: the first two numbers of the line */
  if (n <= 0) return 0;
  text[n] = 0;
  return sscanf(text, "%" SCNu64 " %" SCNu64, &all, &resident) == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
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
  if (p->statm >= 0) close(p->statm);
  p->statm = -1;
}
