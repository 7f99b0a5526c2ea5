/* loss_seed: y = weight * loss_scale, where the gradient of a loss begins. The scale comes from the control block: 1
 * but where gradients are f16, which it keeps from underflow; optimizers divide by it. */
#ifndef HR_OP_LOSS_SEED_H
#define HR_OP_LOSS_SEED_H

#include "graph/builder.h"

typedef struct hr_loss_seed_args {
  float weight; /* of this loss among others */
} hr_loss_seed_args;

extern const hr_op hr_op_loss_seed; /* control -> f32 [1] */

hr_id hr__loss_seed(hr_builder *b, float weight);

#endif
