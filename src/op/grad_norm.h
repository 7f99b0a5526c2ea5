/* The L2 norm over all gradients, in two ops so that it has the same bits whether gradients are looked at together, one
 * by one, or on their way to another tier: grad_squares sums the squares of each gradient by itself, in f64, over fixed
 * chunks in a fixed order; grad_norm is the root of the sum of these in the order given.
 */
#ifndef HR_OP_GRAD_NORM_H
#define HR_OP_GRAD_NORM_H

#include "graph/builder.h"

extern const hr_op hr_op_grad_squares, hr_op_grad_norm;

hr_id hr__grad_squares(hr_builder *b, const hr_id *gradients, int count); /* f64 [count] */
hr_id hr__grad_norm(hr_builder *b, const hr_id *squares, int count);      /* f32 [1] from f64 vectors */

#endif
