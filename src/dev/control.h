/* The control block: what changes from step to step, as scalars in device memory.
 *
 * A recorded step never branches on the host: kernels read these fields. The host writes the block into its fixed input
 * buffer before a program is replayed. The layout is shared with CUDA kernels: plain C, no padding surprises.
 */
#ifndef HR_DEV_CONTROL_H
#define HR_DEV_CONTROL_H

#include <stdint.h>

typedef struct hr_control {
  uint64_t seed;
  uint64_t step;          /* optimizer step being computed, from 1 */
  uint64_t sample;        /* global number of the first sample in this micro-batch */
  float learning_rate;    /* of this step, from the schedule */
  float bias_correction1; /* 1 - beta1^step */
  float bias_correction2; /* 1 - beta2^step */
  float loss_weight;      /* factor on each token's loss and gradient: 1 / valid tokens of the effective batch */
  float loss_scale;       /* dynamic loss scale; 1 where unused */
  uint32_t skip;          /* predicate of update kernels: non-zero leaves weights and moments untouched */
  uint32_t valid_rows;    /* rows of the batch that hold data; the others have no targets */
  uint32_t reserved;
} hr_control;

_Static_assert(sizeof(hr_control) == 56, "hr_control is shared with device code");

#endif
