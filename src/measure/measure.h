/* Measuring a device's rates by running real kernels on real buffers. */
#ifndef HR_MEASURE_MEASURE_H
#define HR_MEASURE_MEASURE_H

#include "graph/graph.h"
#include "plan/rates.h"

/* Rates of every op class (on the CPU on one thread and on all) and of matrix products: a grid of shapes in all
 * transposes, f32 and bf16, which takes about 20 s (a GPU: at most about 15). With a graph also every distinct node of
 * it, on one thread and on all, for at most about 15 s more; nodes that are left out for lack of time or for their size
 * are planned by class. `out` is initialised here and belongs to the caller (hr__rates_fini). */
hr_status hr__measure_rates(hr_device *device, const hr_graph *graph, hr_rates *out, hr_error *err);
/* The same of a GPU without a graph, and of products only a few: some seconds at most. */
hr_status hr__measure_quick(hr_device *device, hr_rates *out, hr_error *err);
/* Only nodes of a graph, and of these only those that `rates` does not have; adds to them. Those that cannot be
 * measured get what they are planned with now, so that no node is asked for twice. */
hr_status hr__measure_missing(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err);
/* Whether there are any such nodes, of a GPU. */
hr_status hr__measure_lacks(const hr_graph *graph, const hr_rates *rates, bool *lacks, hr_error *err);
/* All nodes as seconds of each, 0 where it was not measured. */
hr_status hr__measure_each(hr_device *device, const hr_graph *graph, double *seconds, hr_error *err);

#endif
