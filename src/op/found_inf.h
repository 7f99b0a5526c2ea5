/* found_inf: sets `skip` in the control block where the norm over all gradients is not finite, and clears it where it
 * is. Optimizers that read the control value it returns then leave weights and moments alone. For f16, whose gradients
 * are scaled as far up as they go. */
#ifndef HR_OP_FOUND_INF_H
#define HR_OP_FOUND_INF_H

#include "graph/builder.h"

extern const hr_op hr_op_found_inf;

hr_id hr__found_inf(hr_builder *b, hr_id control, hr_id norm); /* the control block, in place */

#endif
