/* mse: loss = mean (y - target)^2. */
#ifndef HR_OP_MSE_H
#define HR_OP_MSE_H

#include "graph/builder.h"

extern const hr_op hr_op_mse;
extern const hr_op hr_op_mse_bwd;

hr_id hr__mse(hr_builder *b, hr_id y, hr_id target); /* f32 [1] */

#endif
