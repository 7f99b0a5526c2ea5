/* rmsnorm: y = w * (x / rms(x)) over the last axis, where rms(x) = sqrt(mean(x^2) + eps). */
#ifndef HR_OP_RMSNORM_H
#define HR_OP_RMSNORM_H

#include "graph/builder.h"

typedef struct hr_rmsnorm_args {
  float eps;
} hr_rmsnorm_args;

extern const hr_op hr_op_rmsnorm;
extern const hr_op hr_op_rmsnorm_bwd; /* the same args */

/* x [..., H], weight [H] -> y; output 1 is 1 / rms, f32 [rows]. */
hr_id hr__rmsnorm(hr_builder *b, hr_id x, hr_id weight, float eps);

#endif
