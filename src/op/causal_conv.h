/* causal_conv: a short convolution of each column along positions, up to its own one, with bias and SiLU:
 *
 *   y[t, c] = silu(b[c] + sum over j < k of w[c, j] x[t - (k - 1) + j, first + c])        x is 0 before the sequence
 *
 * Where there are starts (of documents packed into one sequence, as op/attention.h has them), x is 0 before
 * starts[t] as well.
 *
 * x is read where it lies, as some columns of rows that hold more; its gradient is added to those columns of the sum so
 * far, in place. Backward makes what SiLU was given again.
 */
#ifndef HR_OP_CAUSAL_CONV_H
#define HR_OP_CAUSAL_CONV_H

#include "graph/builder.h"

enum { HR_CAUSAL_CONV_MOST = 16 }; /* positions of a kernel */

typedef struct hr_causal_conv_args {
  int64_t first; /* column of x that the convolution's begin at */
} hr_causal_conv_args;

enum { HR_CAUSAL_X, HR_CAUSAL_W, HR_CAUSAL_BIAS, HR_CAUSAL_STARTS, HR_CAUSAL_OPERANDS };
/* x [..., L, columns], w [C, 1, k], bias? [C], starts? i32 [..., L] -> y [..., L, C] */
extern const hr_op hr_op_causal_conv;

enum {
  HR_CAUSAL_DY,
  HR_CAUSAL_BWD_X,
  HR_CAUSAL_BWD_W,
  HR_CAUSAL_BWD_BIAS,
  HR_CAUSAL_BWD_STARTS,
  HR_CAUSAL_BWD_PARTIAL,
  HR_CAUSAL_BWD_OPERANDS
};
/* dy, x, w, bias?, starts?, sum of dx so far? -> dx [..., L, columns], dw f32 [C, 1, k], dbias f32 [C] */
extern const hr_op hr_op_causal_conv_bwd;

/* Bias and starts may be HR_NONE. */
hr_id hr__causal_conv(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id starts, int64_t first);

/* What kernels work with. */
typedef struct hr_causal_sizes {
  int64_t sequences, length, columns; /* of a row of x */
  int64_t first, channels, kernel;
} hr_causal_sizes;

static inline hr_causal_sizes hr__causal_sizes(const hr_desc *x, const hr_desc *w, const hr_causal_conv_args *args) {
  hr_causal_sizes s = {1, x->dim[x->rank - 2], x->dim[x->rank - 1], args->first, w->dim[0], w->dim[2]};
  for (int d = 0; d < x->rank - 2; d++)
    s.sequences *= x->dim[d];
  return s;
}

/* Backward sums gradients of weights over strips of positions, each by itself, then over strips in order. */
enum { HR_CAUSAL_STRIP = 64 };
static inline int64_t hr__causal_strips(const hr_causal_sizes *s) {
  return (s->length + HR_CAUSAL_STRIP - 1) / HR_CAUSAL_STRIP;
}

#endif
