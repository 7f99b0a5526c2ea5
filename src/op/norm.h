/* What layernorm and rmsnorm share: the operands of their backward ops, shape and gradient rules, and how sums over
 * rows are cut.
 *
 * A norm has weights: vectors of H numbers, one (w) or two (w and b), which the backward op leaves the gradients of
 * behind dx. Rows are as long as a weight.
 */
#ifndef HR_OP_NORM_H
#define HR_OP_NORM_H

#include "graph/op.h"

enum { HR_NORM_WEIGHTS = 2 }; /* at most */

typedef struct hr_norm_bwd_args {
  bool want_dx, want_dw, want_db; /* an unwanted result has shape [0]; want_db: only of a norm with a bias */
  bool raised;                    /* as the forward op's */
} hr_norm_bwd_args;

/* Operands of a backward op; the last one only of a norm with a bias. */
enum {
  HR_NORM_DY,
  HR_NORM_X,
  HR_NORM_W,
  HR_NORM_STATISTICS, /* f32, of every row, as the forward op has left them */
  HR_NORM_DX_PARTIAL,
  HR_NORM_DW_PARTIAL,
  HR_NORM_DB_PARTIAL
};

static inline int64_t hr__norm_rows(const hr_desc *x, const hr_desc *weight) {
  return hr_desc_count(x) / weight->dim[0];
}

/* How many operands a backward op has, and which of them may be absent. */
#define HR_NORM_OPERANDS(weights) (HR_NORM_DW_PARTIAL + (weights))
#define HR_NORM_OPTIONAL(weights) (((2u << (weights)) - 1) << HR_NORM_DX_PARTIAL)

/* On CUDA gradients of weights are summed over blocks of that many rows first; from the shape alone. There are
 * HR_NORM_SUMS blocks or fewer, and of rows that are few threads each as many more as keep the GPU busy, with
 * HR_NORM_SUM_ROWS rows or more. The shortest, most of them heads, need no more: many share a block. */
enum { HR_NORM_SUMS = 512, HR_NORM_SUM_ROWS = 16, HR_NORM_SUM_FLOATS = HR_NORM_SUMS * 2048, HR_NORM_SHORT = 192 };
static inline int64_t hr__norm_sum_rows(int64_t rows, int64_t columns) {
  const int64_t sums = HR_NORM_SUMS, at_least = HR_NORM_SUM_ROWS;
  int64_t few = (rows + sums - 1) / sums, least = few < at_least ? few : at_least;
  int64_t most = columns > HR_NORM_SHORT ? HR_NORM_SUM_FLOATS / columns : sums;
  int64_t many = most > sums ? (rows + most - 1) / most : few;
  return many > least ? many : least;
}

/* Emits the backward op of a norm whose operands are x and its weights, and whose output 1 are the statistics. */
void hr__norm_grad(struct hr_adjoint *a, const hr_op *backward, int weights, bool raised);

/* Before a backward op's own checks of weight and statistics: all operands are there, dy and x are alike. */
hr_status hr__norm_bwd_begin(const hr_op_view *view, int weights, hr_error *err);

/* Behind them: the results, and partial sums like them. */
hr_status hr__norm_bwd_results(const hr_op_view *view, int weights, hr_desc *out, hr_error *err);

/* Sums of every chunk, or block of rows: f32 [chunks, weights, H]. */
size_t hr__norm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads);

#endif
