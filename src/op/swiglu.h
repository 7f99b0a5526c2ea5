/* swiglu: y = silu(gate) * up, where silu(g) = g / (1 + exp(-g)).
 * geglu: y = gelu(gate) * up, where gelu is that by tanh (op/gelu.h).
 *
 * Packed, without `up`: gate is [..., 2 I] with the gates in columns [0, I) and the ups in [I, 2 I), as one product
 * gives them; y is [..., I]. Then the gradient of both lies in dgate in that order, and dup has shape [0]. */
#ifndef HR_OP_SWIGLU_H
#define HR_OP_SWIGLU_H

#include "graph/builder.h"

extern const hr_op hr_op_swiglu, hr_op_geglu;         /* gate, up? -> y */
extern const hr_op hr_op_swiglu_bwd, hr_op_geglu_bwd; /* dy, gate, up? -> dgate, dup */

hr_id hr__swiglu(hr_builder *b, hr_id gate, hr_id up); /* up HR_NONE: packed */
hr_id hr__geglu(hr_builder *b, hr_id gate, hr_id up);

#endif
