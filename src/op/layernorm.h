/* layernorm: y = w * (x - mean(x)) / sqrt(variance(x) + eps) + b over the last axis. */
#ifndef HR_OP_LAYERNORM_H
#define HR_OP_LAYERNORM_H

#include "graph/builder.h"
#include "op/norm.h"

typedef struct hr_layernorm_args {
  float eps;
} hr_layernorm_args;

extern const hr_op hr_op_layernorm;
/* dy, x [..., H], w [H], statistics f32 [rows, 2], dx_partial?, dw_partial?, db_partial?  -> dx as x, dw and db as w */
extern const hr_op hr_op_layernorm_bwd;

/* x [..., H], weight and bias [H], both in one float type -> y as x; output 1 has mean and 1 / sqrt(variance + eps) of
 * every row, f32 [rows, 2]. */
hr_id hr__layernorm(hr_builder *b, hr_id x, hr_id weight, hr_id bias, float eps);

#endif
