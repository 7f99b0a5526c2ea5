/* torch.compile: an estimate of what a step holds whose forward and backward are compiled as whole graphs.
 *
 * inductor's graphs are not known call by call. Against an eager step they keep a part of what the layers save (chains
 * of element-wise calls are one kernel, and what is cheap is computed again), never make scores of the vocabulary in
 * f32 twice, and hand all gradients over at once. The factors below were fitted to measured peaks of decoders
 * (docs/torch.md#torchcompile).
 */
#ifndef HR_TORCH_COMPILED_H
#define HR_TORCH_COMPILED_H

#include "torch/events.h"

/* Of a run that was simulated eagerly. */
typedef struct hr_compiled_run {
  uint64_t scores;         /* rows x vocabulary: elements */
  uint64_t casts_bytes;    /* weights that autocast keeps in 16 bits */
  uint64_t gradient_bytes; /* of all that is trained */
  uint64_t embedding;      /* elements of one that is trained in 16 bits: its gradient is added up in f32; else 0 */
} hr_compiled_run;

/* Puts events in place of those of all steps: what lasts, and in each step one allocation for all of its graphs. */
hr_status hr__torch_compiled(hr_torch_events *events, const hr_compiled_run *run, hr_error *err);

#endif
