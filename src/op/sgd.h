/* sgd: one step of stochastic gradient descent on a parameter, in place, in PyTorch's order of operations:
 *
 *   g = grad * scale + weight_decay p      scale = min(1, clip_norm / (norm / loss_scale + 1e-6)) / loss_scale
 *   s = momentum s + g                     sgd_momentum only
 *   p = p - lr g                           sgd
 *   p = p - lr s                           sgd_momentum
 *   p = p - lr (g + momentum s)            sgd_momentum with nesterov
 *
 * The control block has the learning rate, of which lr is lr_scale times as much, loss_scale and the predicate `skip`.
 * Arithmetic is f32; a bf16 parameter is rounded stochastically (op/optimizer.h). s is f32 and begins as zero.
 */
#ifndef HR_OP_SGD_H
#define HR_OP_SGD_H

#include "graph/builder.h"

typedef struct hr_sgd_args {
  float momentum; /* sgd_momentum only */
  bool nesterov;  /* sgd_momentum only */
  float weight_decay;
  float clip_norm; /* <= 0: no clipping; otherwise the norm must be given */
  float lr_scale;  /* learning rate of this parameter by that of the control block */
  int64_t first;   /* element of the parameter at which the operands begin: a multiple of 4096 */
} hr_sgd_args;

extern const hr_op hr_op_sgd, hr_op_sgd_momentum;

/* norm: f32 [1] or HR_NONE. Return the updated parameter; output 1 of sgd_momentum is the updated s. */
hr_id hr__sgd(hr_builder *b, hr_id param, hr_id grad, hr_id control, hr_id norm, const hr_sgd_args *args);
hr_id hr__sgd_momentum(hr_builder *b, hr_id param, hr_id grad, hr_id s, hr_id control, hr_id norm,
                       const hr_sgd_args *args);

#endif
