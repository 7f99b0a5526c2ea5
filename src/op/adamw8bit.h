/* adamw8bit: one AdamW step whose moments are stored in 8 bits, block by block of 256 elements of the flattened
 * parameter. A moment is code[index] * absmax(block): the signed dynamic code (base/dynamic8.h) for m, the unsigned one
 * for v. Per block, in this order, everything in f32 and without contraction, so that codes are the same on every
 * machine:
 *
 *   m, v decoded with the old absmax
 *   g = grad * scale            scale = min(1, clip_norm / (norm / loss_scale + 1e-6)) / loss_scale
 *   v = beta2 v + (1 - beta2) g g
 *   m = beta1 m + (1 - beta1) g
 *   absmax of m = max |m|, of v = max v
 *   p = p - (lr c2 / c1) m / (sqrt(v) + c2 eps)          c1 = bias_correction1, c2 = sqrt(bias_correction2)
 *   p = p * (1 - lr weight_decay)                        after the step, unlike adamw
 *   m, v encoded as nearest of x / absmax; a negative m never as 0: where that is nearest, the code below it
 *
 * An element whose gradient is not finite keeps its p, and its m and v become 0. The control block has the learning
 * rate, of which lr is lr_scale times as much, the corrections, loss_scale and the predicate `skip`. A bf16 parameter
 * is rounded stochastically (op/optimizer.h). All zero bytes with absmax 0 are moments of 0.
 */
#ifndef HR_OP_ADAMW8BIT_H
#define HR_OP_ADAMW8BIT_H

#include "graph/builder.h"

enum { HR_ADAMW8BIT_BLOCK = 256, HR_ADAMW8BIT_LEAST = 4096 /* elements; tensors below have states in f32 */ };

typedef struct hr_adamw8bit_args {
  double beta1, beta2; /* they and 1 - beta are rounded to f32 each */
  float eps;
  float weight_decay;
  float clip_norm; /* <= 0: no clipping; otherwise the norm must be given */
  float lr_scale;  /* learning rate of this parameter by that of the control block */
  int64_t first;   /* element of the parameter at which the operands begin: a multiple of 4096 */
} hr_adamw8bit_args;

extern const hr_op hr_op_adamw8bit;

/* The stored moments of one parameter: indices u8 in its shape, absmax f32 [ceil(elements / 256)]. */
typedef struct hr_adamw8bit_state {
  hr_id m, v, m_absmax, v_absmax;
} hr_adamw8bit_state;

/* norm: f32 [1] or HR_NONE. Returns the updated parameter; outputs 1 to 4 are m, v and their absmax. */
hr_id hr__adamw8bit(hr_builder *b, hr_id param, hr_id grad, hr_adamw8bit_state state, hr_id control, hr_id norm,
                    const hr_adamw8bit_args *args);

#endif
