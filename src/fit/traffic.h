/* What the copies of a sketch carry between the device and the tiers below it in one step, by kind. */
#ifndef HR_FIT_TRAFFIC_H
#define HR_FIT_TRAFFIC_H

#include "fit/choose.h"

enum { HR_TRAFFIC_IN, HR_TRAFFIC_OUT, HR_TRAFFIC_WAYS };

/* Parts of a kind for which a curve has a point; between two it is straight. */
enum { HR_TRAFFIC_PARTS = 16 };

/* Of one kind, weighed by how often each program runs in a step. */
typedef struct hr_carried {
  double bytes[HR_TRAFFIC_WAYS], copies[HR_TRAFFIC_WAYS];
  /* How much of it is left at least, when as many sixteenths of the kind's bytes stay further up: those that move most
   * (hr__traffic_curves). */
  double left[HR_TRAFFIC_WAYS][HR_TRAFFIC_PARTS + 1];
} hr_carried;

/* Of all kinds; the last is what the recipe itself offloads. */
enum { HR_TRAFFIC_CLOSED = HR_OFFLOAD_KINDS, HR_TRAFFIC_KINDS };
typedef struct hr_traffic {
  hr_carried pass[HR_TRAFFIC_KINDS];   /* by forward and backward */
  hr_carried update[HR_TRAFFIC_KINDS]; /* by the update */
  double pass_seconds;                 /* of forward's and backward's nodes on the device */
  double update_seconds;               /* of the update's there */
  double host_seconds;                 /* of updates that the processor does beside a GPU */
} hr_traffic;

/* `open`: per kind, whether it is ours to move. What is made of offloaded parameters and waits there (their
 * copies in another type) counts as parameters, unless `activations` says that those are moved as well: then all
 * activations count as such. */
void hr__traffic_read(const hr_plan *plan, int accumulation, const bool open[HR_OFFLOAD_KINDS], bool activations,
                      hr_traffic *out);

/* Fills in what is left of the traffic when parts of a kind stay further up: of what is persistent, buffer by buffer.
 * What is not, nothing is known of: it may move more than others by a quarter, but operands of updates go with the
 * optimizer's state, all of which moves once. */
hr_status hr__traffic_curves(const hr_plan *plan, int accumulation, const bool open[HR_OFFLOAD_KINDS], hr_traffic *out,
                             hr_error *err);

void hr__traffic_add(hr_carried to[HR_TRAFFIC_KINDS], const hr_carried more[HR_TRAFFIC_KINDS]);

/* No program takes less for its copies: each direction carries its own one after the other, both at once at the rate of
 * two. `device`: per kind, how much of its bytes is on the device at most, from 0 to 1; `above`: how much is not on the
 * disk. */
double hr__traffic_seconds(const hr_carried carried[HR_TRAFFIC_KINDS], const double device[HR_OFFLOAD_KINDS],
                           const double above[HR_OFFLOAD_KINDS], const hr_copy_rates *rates);

#endif
