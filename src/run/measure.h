/* Measuring a device's rates by running real kernels on real buffers. */
#ifndef HR_RUN_MEASURE_H
#define HR_RUN_MEASURE_H

#include "graph/graph.h"
#include "plan/rates.h"

/* Rates of every op class (one thread and all threads) and of matrix products: a grid of shapes in all transposes, f32
 * and bf16; with a graph also exactly the products that occur in it. About 20 s for the grid. `out` is initialised here
 * and belongs to the caller (hr__rates_fini). */
hr_status hr__measure_rates(hr_device *device, const hr_graph *graph, hr_rates *out, hr_error *err);

#endif
