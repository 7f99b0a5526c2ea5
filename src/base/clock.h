/* Time that only goes forward, in seconds from some beginning. */
#ifndef HR_BASE_CLOCK_H
#define HR_BASE_CLOCK_H

#include <time.h>

static inline double hr__seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
