/* copy: y = factor x, in another float type or the same. */
#ifndef HR_OP_COPY_H
#define HR_OP_COPY_H

#include "graph/builder.h"

enum { HR_COPY_SAME = HR_DTYPE_COUNT }; /* in place of a type: that of x, whatever it becomes */

typedef struct hr_copy_args {
  hr_dtype dtype; /* of y: f32, bf16, f16 or HR_COPY_SAME */
  float factor;   /* 1: a plain copy; not 0 */
} hr_copy_args;

extern const hr_op hr_op_copy;

hr_id hr__copy(hr_builder *b, hr_id x, hr_dtype dtype);
hr_id hr__scale(hr_builder *b, hr_id x, float factor); /* keeps the type */

#endif
