/* Threads that run errands in the background: a few lanes, each a queue in order with threads of its own. Nothing
 * allocates once it is made. One thread hands errands out and waits for them.
 */
#ifndef HR_BASE_COURIER_H
#define HR_BASE_COURIER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct hr_courier hr_courier;

typedef struct hr_errand {
  void (*run)(void *arg);
  void *arg;
  bool done; /* the courier's */
} hr_errand;

enum { HR_COURIER_LANES = 4 };

/* threads[l]: how many threads lane l has; 0: none, and nothing may be sent there. `capacity`: most errands of one lane
 * that are under way at a time. */
hr_status hr__courier_create(const int *threads, int lanes, size_t capacity, hr_courier **out, hr_error *err);
void hr__courier_destroy(hr_courier *courier); /* what was sent is run first */

/* Errands of a lane with one thread run in the order they were sent. The errand must stay until it is done. */
void hr__courier_send(hr_courier *courier, int lane, hr_errand *errand);
void hr__courier_wait(hr_courier *courier, hr_errand *errand);
void hr__courier_drain(hr_courier *courier); /* waits for all */

#endif
