/* coupling: whether samples of a batch meet each other inside of a model. */
#ifndef HR_FIT_COUPLING_H
#define HR_FIT_COUPLING_H

#include "graph/graph.h"

/* Whether an op that couples samples (graph/batch.h) works on a program's batch, and its result goes into forward again
 * (a norm over the batch): other micro-batches then give other results. A loss at the end is no such op: its
 * denominator is that of the effective batch. `graph` is as the model made it. */
hr_status hr__samples_coupled(const hr_graph *graph, bool *coupled, hr_error *err);

#endif
