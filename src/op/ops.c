/* The table of all ops, made from ops.def. */
#include <string.h>

#include "graph/op.h"

#define HR_OP(op_name, source) extern const hr_op hr_op_##op_name;
#include "op/ops.def"
#undef HR_OP

const hr_op *const hr_ops[] = {
#define HR_OP(op_name, source) &hr_op_##op_name,
#include "op/ops.def"
#undef HR_OP
};

const size_t hr_op_count = sizeof hr_ops / sizeof hr_ops[0];

const hr_op *hr__op_find(const char *name) {
  for (size_t i = 0; i < hr_op_count; i++)
    if (strcmp(hr_ops[i]->name, name) == 0) return hr_ops[i];
  return NULL;
}
