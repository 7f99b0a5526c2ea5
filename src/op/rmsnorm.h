/* rmsnorm: y = w * (x / rms(x)) where rms(x) = sqrt(mean(x^2) + eps), over the last axis, or over pieces of it as long
 * as the weight (one for each head, where heads lie side by side). Rows are these pieces.
 *
 * Raised, it multiplies by 1 + w: weights are what is added to 1, and so small that 16 bits hold them finely. As in the
 * public models, x / rms(x) is rounded to the type of x before it is multiplied, and raised it is not. */
#ifndef HR_OP_RMSNORM_H
#define HR_OP_RMSNORM_H

#include "graph/builder.h"
#include "op/norm.h"

typedef struct hr_rmsnorm_args {
  float eps;
  bool raised;
} hr_rmsnorm_args;

extern const hr_op hr_op_rmsnorm;
/* dy, x [..., n H], w [H], 1/rms f32 [rows], dx_partial?, dw_partial?  -> dx as x, dw as w */
extern const hr_op hr_op_rmsnorm_bwd;

/* x [..., n H], weight [H] in any float type -> y as x; output 1 is 1 / rms, f32 [rows]. */
hr_id hr__rmsnorm(hr_builder *b, hr_id x, hr_id weight, float eps);
hr_id hr__rmsnorm_raised(hr_builder *b, hr_id x, hr_id weight, float eps);

#endif
