/* constant: y = value, a scalar that no input decides (the seed of a loss's gradient). */
#ifndef HR_OP_CONSTANT_H
#define HR_OP_CONSTANT_H

#include "graph/builder.h"

typedef struct hr_constant_args {
  float value;
} hr_constant_args;

extern const hr_op hr_op_constant;

hr_id hr__constant(hr_builder *b, float value); /* f32 [1] */

#endif
