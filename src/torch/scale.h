/* Traces at several batch sizes, and any batch size between and beyond them.
 *
 * Where traces have the same calls in the same order, the bytes of each allocation are a line over the batch size, from
 * one trace to the next and on beyond the last: exact for all that grows with the batch, and for all that does not.
 * With three traces or more the lines are checked: `bent` counts allocations that do not lie on the line through the
 * first and the last (rounding in kernels' scratch, other algorithms), of which what lies between is an estimate.
 */
#ifndef HR_TORCH_SCALE_H
#define HR_TORCH_SCALE_H

#include "torch/replay.h"
#include "torch/trace.h"

enum { HR_TORCH_TRACES = 8 };

typedef struct hr_torch_scaling {
  hr_torch_trace *traces[HR_TORCH_TRACES]; /* least batch first */
  size_t count;
  uint64_t *bytes[HR_TORCH_TRACES]; /* by allocation */
  size_t bent;
} hr_torch_scaling;

/* Orders the traces. HR_BAD_INPUT where they do not say their batch size, have the same, or do not correspond: the
 * first call that differs is named. Everything lives in `arena`. The first trace's events take the sizes that are asked
 * for. */
hr_status hr__torch_scaling_init(hr_torch_scaling *scaling, hr_torch_trace *traces, size_t count, hr_arena *arena,
                                 hr_error *err);
/* The events at a batch size of at least 1. */
const hr_torch_events *hr__torch_scale(hr_torch_scaling *scaling, uint64_t batch);

#endif
