/* adamw: one AdamW step on a parameter and its moments, in place, in PyTorch's order of operations:
 *
 *   g = grad * scale            scale = min(1, clip_norm / (norm / loss_scale + 1e-6)) / loss_scale
 *   p = p * (1 - lr * weight_decay)
 *   m = m + (1 - beta1) (g - m)
 *   v = beta2 v + (1 - beta2) g^2
 *   p = p - lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + eps)
 *
 * lr, the corrections, loss_scale and the predicate `skip` come from the control block. Arithmetic is f32. What is
 * stored in bf16 is rounded stochastically, else changes below half a unit would be lost for ever: the 16 bits below
 * the stored ones are added to 16 random bits and the carry decides. The random bits of element e are half-word e % 8
 * (low half of each word first) of hr__random_at({seed, stream_key}, step, e / 8 + slot * 2^62), where slot is 0 for
 * the parameter, 1 for m and 2 for v.
 */
#ifndef HR_OP_ADAMW_H
#define HR_OP_ADAMW_H

#include "graph/builder.h"

typedef struct hr_adamw_args {
  float beta1, beta2;
  float eps;
  float weight_decay;
  float clip_norm; /* <= 0: no clipping; otherwise the norm must be given */
  int64_t first;   /* number of the first element within the whole parameter: a multiple of 8 */
} hr_adamw_args;

extern const hr_op hr_op_adamw;

/* m and v: f32 or bf16, the shape of param. norm: f32 [1] or HR_NONE. Returns the updated parameter; outputs 1 and 2
 * are the updated moments. */
hr_id hr__adamw(hr_builder *b, hr_id param, hr_id grad, hr_id m, hr_id v, hr_id norm, const hr_adamw_args *args);

#endif
