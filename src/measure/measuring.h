/* Inside measure/measure*.c: what a measuring has at hand, and its parts. */
#ifndef HR_MEASURE_MEASURING_H
#define HR_MEASURE_MEASURING_H

#include "base/clock.h"
#include "graph/graph.h"
#include "measure/bench.h"
#include "plan/rates.h"

typedef struct hr_measuring {
  hr_device *device;
  hr_bench_ring ring;
  hr_rates *rates;
  double until; /* nothing more is begun after that; 0: there is time */
} hr_measuring;

/* Of seconds, for qsort. */
static inline int hr__seconds_ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* What a GPU has no kernel or no room for is left to the rates that there are. */
static inline bool hr__measuring_left_out(const hr_measuring *b, hr_status status) {
  return b->device->facts.kind != HR_CPU && (status == HR_UNSUPPORTED || status == HR_NOMEM);
}

/* measure_nodes.c: every kind of node of a graph, or with `missing` those that the rates do not have. `seconds`
 * (optional): of every node. */
hr_status hr__measuring_nodes(hr_measuring *b, const hr_graph *graph, bool missing, double *seconds, hr_error *err);

/* measure_copies.c: rates of copies between tiers. `memory` has room for a few of them. */
void hr__measuring_host_copies(hr_measuring *b);
void hr__measuring_disk_copies(char *memory, hr_rates *rates);
hr_status hr__measuring_gpu_copies(hr_measuring *b, hr_error *err);

#endif
