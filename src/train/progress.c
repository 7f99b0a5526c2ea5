/* See progress.h. */
#include "train/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

static const double interval = 0.1; /* seconds between drawings */
enum { BAR = 24 };

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void hr__progress_begin(hr_progress *p, FILE *to, int64_t first) {
  const char *term = getenv("TERM");
  *p = (hr_progress){.first = first, .begun = seconds_now(), .statm = -1};
  if (!to || !isatty(fileno(to)) || !term || strcmp(term, "dumb") == 0) return;
  p->to = to;
  p->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
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
  return p->to && seconds_now() - p->last >= interval;
}

/* "1:02:03", "4:05" */
static const char *time_text(double seconds, char out[32]) {
  int64_t s = seconds < 0 ? 0 : seconds > 3.6e8 ? 360000000 : (int64_t)(seconds + 0.5);
  if (s >= 3600)
    snprintf(out, 32, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
  else
    snprintf(out, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
  return out;
}

void hr__progress_draw(hr_progress *p, const hr_progress_state *s) {
  if (!p->to) return;
  double now = seconds_now();
  int64_t done = s->step - p->first;
  double left = done > 0 ? (now - p->begun) / (double)done * (double)(s->steps - s->step) : 0;
  char size[HR_SIZE_TEXT], time[32], line[256], bar[BAR + 1];
  int full = s->steps > 0 ? (int)(s->step * BAR / s->steps) : 0;
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)(full < 0 ? 0 : full > BAR ? BAR : full));
  bar[BAR] = 0;
  int n = snprintf(line, sizeof line, "\r[%s] %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  %s  %s left\x1b[K",
                   bar, s->step, s->steps, s->loss, s->tokens_per_second, hr__size_text(s->memory_bytes, size),
                   time_text(left, time));
  if (n > 0) fwrite(line, 1, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1, p->to);
  fflush(p->to);
  p->last = now;
  p->drawn = true;
}

void hr__progress_clear(hr_progress *p) {
  if (!p->drawn) return;
  fputs("\r\x1b[K", p->to);
  fflush(p->to);
  p->drawn = false;
}

void hr__progress_end(hr_progress *p) {
  hr__progress_clear(p);
  if (p->statm >= 0) close(p->statm);
  p->statm = -1;
}
