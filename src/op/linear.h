/* linear: y = x Wt (+ bias) (+ add) over the last axis, and its three gradients. */
#ifndef HR_OP_LINEAR_H
#define HR_OP_LINEAR_H

#include "graph/builder.h"

typedef struct hr_linear_gradient_args {
  hr_dtype dtype; /* of dW, db and their partial sums: the parameter's */
} hr_linear_gradient_args;

extern const hr_op hr_op_linear;    /* x [..., in], W [out, in], bias? [out], add? [..., out] -> y [..., out] */
extern const hr_op hr_op_linear_dx; /* dy [..., out], W [out, in], partial?       -> dx [..., in] */
extern const hr_op
    hr_op_linear_dw; /* dy [..., out], x [..., in], partial?       -> dW [out, in]; hr_linear_gradient_args */
extern const hr_op
    hr_op_linear_db; /* dy [..., out], partial?                    -> db [out]; hr_linear_gradient_args */

hr_id hr__linear(hr_builder *b, hr_id x, hr_id weight, hr_id bias); /* bias: HR_NONE for none */
/* The same on top of `add`, which it may take over: the two are summed in place. */
hr_id hr__linear_add(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id add);

#endif
