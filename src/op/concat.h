/* concat: operands one behind the other along an axis. */
#ifndef HR_OP_CONCAT_H
#define HR_OP_CONCAT_H

#include "graph/builder.h"

typedef struct hr_concat_args {
  int axis;
} hr_concat_args;

extern const hr_op hr_op_concat; /* any number of operands, equal but along the axis -> y */

hr_id hr__concat(hr_builder *b, const hr_id *operands, int count, int axis);

#endif
