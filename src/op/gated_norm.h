/* gated_norm: the norm behind the scan of Mamba-2,
 *
 *   out = w a / rms(a)        a = y silu(z),        rms(a) = sqrt(mean(a^2) + eps)
 *
 * where the mean goes over groups of neighbouring columns, one group or several. z is read where it lies, as some
 * columns of rows x that hold more; its gradient is added to those columns of the sum so far, in place. a is never in
 * memory: backward makes it again. As in the public models, a / rms(a) is rounded to the type of y before it is
 * multiplied.
 */
#ifndef HR_OP_GATED_NORM_H
#define HR_OP_GATED_NORM_H

#include "graph/builder.h"

typedef struct hr_gated_norm_args {
  int64_t first;  /* column of x that z begins at */
  int64_t groups; /* they divide the columns of y */
  float eps;
} hr_gated_norm_args;

enum { HR_GATED_Y, HR_GATED_X, HR_GATED_W, HR_GATED_OPERANDS };
/* y [..., H], x [..., columns], w [H] -> out as y; 1 / rms, f32 [rows, groups] */
extern const hr_op hr_op_gated_norm;

enum {
  HR_GATED_DOUT,
  HR_GATED_BWD_Y,
  HR_GATED_BWD_X,
  HR_GATED_BWD_W,
  HR_GATED_RSTD,
  HR_GATED_PARTIAL,
  HR_GATED_BWD_OPERANDS
};
/* dout, y, x, w, 1 / rms, sum of dx so far? -> dy as y, dx as x, dw f32 [H] */
extern const hr_op hr_op_gated_norm_bwd;

hr_id hr__gated_norm(hr_builder *b, hr_id y, hr_id x, hr_id weight, const hr_gated_norm_args *args);

/* What kernels work with. */
typedef struct hr_gated_sizes {
  int64_t rows, width; /* of y */
  int64_t columns, first;
  int64_t groups, each; /* columns of a group */
} hr_gated_sizes;

static inline hr_gated_sizes hr__gated_sizes(const hr_desc *y, const hr_desc *x, const hr_gated_norm_args *args) {
  hr_gated_sizes s = {1, y->dim[y->rank - 1], x->dim[x->rank - 1], args->first, args->groups, 0};
  for (int d = 0; d < y->rank - 1; d++)
    s.rows *= y->dim[d];
  s.each = s.width / s.groups;
  return s;
}

/* Gradients of weights are summed over strips of that many rows first, then over strips in order; from the shape and
 * the device alone. A GPU needs many strips to have enough on their way. */
enum { HR_GATED_STRIPS = 2048, HR_GATED_STRIPS_CPU = 32, HR_GATED_ROWS = 8 };
static inline int64_t hr__gated_strip(int64_t rows, hr_device_kind kind) {
  const int64_t strips = kind == HR_CUDA ? (int64_t)HR_GATED_STRIPS : (int64_t)HR_GATED_STRIPS_CPU,
                least = HR_GATED_ROWS;
  int64_t even = (rows + strips - 1) / strips;
  return even > least ? even : least;
}

#endif
