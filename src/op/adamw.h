/* adamw: one AdamW step on a parameter and its moments, in place, in PyTorch's order of operations:
 *
 *   g = grad * scale            scale = min(1, clip_norm / (norm / loss_scale + 1e-6)) / loss_scale
 *   p = p * (1 - lr * weight_decay)
 *   m = m + (1 - beta1) (g - m)
 *   v = beta2 v + (1 - beta2) g^2
 *   p = p - lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + eps)
 *
 * The control block has the learning rate, of which lr is lr_scale times as much, the corrections, loss_scale and the
 * predicate `skip`. Arithmetic is f32. What is stored in bf16 is rounded stochastically (op/optimizer.h): slot 1 of the
 * random bits is for m, 2 for v.
 */
#ifndef HR_OP_ADAMW_H
#define HR_OP_ADAMW_H

#include "graph/builder.h"

typedef struct hr_adamw_args {
  float beta1, beta2;
  float eps;
  float weight_decay;
  float clip_norm; /* <= 0: no clipping; otherwise the norm must be given */
  float lr_scale;  /* learning rate of this parameter by that of the control block */
  int64_t first;   /* element of the parameter at which the operands begin: a multiple of 4096 */
} hr_adamw_args;

extern const hr_op hr_op_adamw;

/* m and v: f32 or bf16, the shape of param. norm: f32 [1] or HR_NONE. Returns the updated parameter; outputs 1 and 2
 * are the updated moments. */
hr_id hr__adamw(hr_builder *b, hr_id param, hr_id grad, hr_id m, hr_id v, hr_id control, hr_id norm,
                const hr_adamw_args *args);

#endif
