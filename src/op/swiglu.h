/* swiglu: y = silu(gate) * up, where silu(g) = g / (1 + exp(-g)). */
#ifndef HR_OP_SWIGLU_H
#define HR_OP_SWIGLU_H

#include "graph/builder.h"

extern const hr_op hr_op_swiglu;
extern const hr_op hr_op_swiglu_bwd;

hr_id hr__swiglu(hr_builder *b, hr_id gate, hr_id up);

#endif
