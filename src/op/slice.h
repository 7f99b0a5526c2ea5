/* slice and join: rows of a whole along an axis, and back. Each is the other's gradient, so a region that is repeated
 * over slices of the batch (pass/split.c) needs no other op. reshape: the same elements in the same order.
 *
 *   slice    part = x[first .. first + count)
 *   join     y = sum + part at rows [first .. first + rows of part)    without sum: negative zero at all other rows
 *   reshape  y[i] = x[i], counted through; in place it costs nothing
 *
 * The sum is there so that slices join one after another in one place. Negative zero is the one float that addition
 * leaves no trace of (-0 + v = v, also for v = -0 and v = +0): rows that only one slice adds to hold its bits.
 */
#ifndef HR_OP_SLICE_H
#define HR_OP_SLICE_H

#include "graph/builder.h"

typedef struct hr_slice_args {
  int64_t first, count; /* rows of x */
  int axis;
} hr_slice_args;

typedef struct hr_join_args {
  int64_t first; /* row of the result that the part begins at */
  int64_t rows;  /* of the result */
  int axis;
} hr_join_args;

typedef struct hr_reshape_args {
  int rank;
  int64_t size[HR_RANK];
} hr_reshape_args;

/* x [..., rows, ...], a float type, i32 or u8       -> part [..., count, ...] */
extern const hr_op hr_op_slice;
/* part [..., count, ...], sum? [..., rows, ...]     -> y [..., rows, ...] */
extern const hr_op hr_op_join;
/* x, a float type, i32 or u8                        -> y of as many elements */
extern const hr_op hr_op_reshape;

hr_id hr__slice(hr_builder *b, hr_id x, int axis, int64_t first, int64_t count);
hr_id hr__join(hr_builder *b, hr_id part, hr_id sum, int axis, int64_t first, int64_t rows);
hr_id hr__reshape(hr_builder *b, hr_id x, int rank, const int64_t *size);

#endif
