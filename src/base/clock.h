/* Time in seconds: one that only goes forward, from some beginning, and that of calendars. */
#ifndef HR_BASE_CLOCK_H
#define HR_BASE_CLOCK_H

#include <time.h>

static inline double hr__seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Since 1970. */
static inline double hr__calendar_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
