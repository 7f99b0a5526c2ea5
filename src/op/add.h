/* add: y = a + alpha b, element by element, equal shapes. */
#ifndef HR_OP_ADD_H
#define HR_OP_ADD_H

#include "graph/builder.h"

typedef struct hr_add_args {
  float alpha;
} hr_add_args;

extern const hr_op hr_op_add;

hr_id hr__add(hr_builder *b, hr_id left, hr_id right, float alpha);

#endif
