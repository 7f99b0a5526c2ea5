/* grad_norm: the L2 norm over all given tensors together. */
#ifndef HR_OP_GRAD_NORM_H
#define HR_OP_GRAD_NORM_H

#include "graph/builder.h"

extern const hr_op hr_op_grad_norm;

hr_id hr__grad_norm(hr_builder *b, const hr_id *gradients, int count); /* f32 [1] */

#endif
