/* What shape and cost rules share: checks that leave a message and return its status, and the cost of an op that reads
 * and writes every operand once. */
#ifndef HR_OP_SHAPES_H
#define HR_OP_SHAPES_H

#include "graph/op.h"

/* As many operands as the op takes, and only optional ones (bit i of `optional`) absent. */
hr_status hr__shape_operands(const hr_op_view *view, int n_in, uint32_t optional, hr_error *err);

/* Operand `in` is f32, bf16 or f16, has at least one dimension and none below 1. */
hr_status hr__shape_float(const hr_op_view *view, int in, hr_error *err);

/* Operand `in` has exactly this shape and type, or is absent. */
hr_status hr__shape_like(const hr_op_view *view, int in, const hr_desc *expected, hr_error *err);

/* Of rows [..., L, columns]: where the document of each begins, i32 [..., L]; see op/attention.h. */
hr_desc hr__shape_starts(const hr_desc *rows);

/* Operand `in` has exactly this shape in any supported float type. */
hr_status hr__shape_like_float(const hr_op_view *view, int in, const hr_desc *expected, hr_error *err);

/* Class stream, by the type of the first operand; `flops` for all arithmetic; bytes of all operands and results that
 * are there. */
void hr__cost_stream(const hr_op_view *view, double flops, hr_cost *cost);

#endif
