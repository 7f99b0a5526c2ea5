/* topk: the k largest elements of each row, largest first, and where they are. Of equal ones the first comes first; NaN
 * counts as larger than everything. */
#ifndef HR_OP_TOPK_H
#define HR_OP_TOPK_H

#include "graph/builder.h"

typedef struct hr_topk_args {
  int k;
} hr_topk_args;

extern const hr_op hr_op_topk; /* x [..., columns] -> values [..., k], indices i32 [..., k] */

/* Returns the values; the indices, which take no gradient, are result 1 (hr__node_out). */
hr_id hr__topk(hr_builder *b, hr_id x, int k);

/* On CUDA long rows are cut into parts of HR_TOPK_PART elements, whose own k first ones are found side by side, where k
 * is small: how many, 1 where they are not cut. */
enum { HR_TOPK_PART = 2048, HR_TOPK_FEW = 16, HR_TOPK_LONG_ROWS = 1024 };
static inline int64_t hr__topk_parts(int64_t rows, int64_t columns, int k) {
  bool cut = columns >= 2 * HR_TOPK_PART && k <= HR_TOPK_FEW && rows <= HR_TOPK_LONG_ROWS;
  return cut ? (columns + HR_TOPK_PART - 1) / HR_TOPK_PART : 1;
}

/* Whether element `i`, which is a, comes before element `j`, which is b. For both devices. */
#ifdef __CUDACC__
__device__
#endif
    static inline bool
    hr__topk_before(float a, int64_t i, float b, int64_t j) {
  bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a != b) return a > b;
  return i < j;
}

#endif
