/* copy: y = x in another float type (or the same). */
#ifndef HR_OP_COPY_H
#define HR_OP_COPY_H

#include "graph/builder.h"

typedef struct hr_copy_args {
  hr_dtype dtype; /* of y: f32, bf16 or f16 */
} hr_copy_args;

extern const hr_op hr_op_copy;

hr_id hr__copy(hr_builder *b, hr_id x, hr_dtype dtype);

#endif
