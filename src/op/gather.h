/* gather: rows of x that an index names. scatter: rows of x put where an index says, added up where it says so twice.
 * Each is the other's gradient. (For a table that all samples share, embedding is faster on a GPU.)
 *
 * index is i32 [batch..., n]: its axes but the last are the first ones of x as well, and every sample has rows of its
 * own. What lies behind the axis of rows stays together. An index outside of [0, rows) reads as a row of zeros, and
 * goes nowhere.
 *
 * An index that consists of permutations of all rows, one behind another, may come with their inverses: the gradient is
 * then a gather as well, summed over the permutations, and nothing has to be looked for.
 */
#ifndef HR_OP_GATHER_H
#define HR_OP_GATHER_H

#include "graph/builder.h"

typedef struct hr_gather_args {
  int batch_axes; /* of the index: all but its last */
} hr_gather_args;

typedef struct hr_scatter_args {
  int batch_axes;
  int64_t rows; /* of the result */
  int dtype;    /* hr_dtype of the result, or -1: that of x */
} hr_scatter_args;

/* index [batch..., n], x [batch..., rows, ...], inverses? as the index -> [batch..., n, ...] */
extern const hr_op hr_op_gather;
extern const hr_op hr_op_scatter; /* index [batch..., n], x [batch..., n, ...], partial? -> [batch..., rows, ...] */

hr_id hr__gather(hr_builder *b, hr_id index, hr_id x);
hr_id hr__gather_permuted(hr_builder *b, hr_id index, hr_id inverses, hr_id x);
hr_id hr__scatter(hr_builder *b, hr_id index, hr_id x, int64_t rows);

/* The sizes that kernels work with: `groups` samples with `rows` rows in memory, of which `n` are named, each of
 * `columns` elements. */
typedef struct hr_gather_sizes {
  int64_t groups, n, rows, columns;
} hr_gather_sizes;

/* `table`: the operand or result that has all rows. */
static inline hr_gather_sizes hr__gather_sizes(const hr_desc *index, const hr_desc *table) {
  hr_gather_sizes s = {1, index->dim[index->rank - 1], table->dim[index->rank - 1], 1};
  for (int d = 0; d < index->rank - 1; d++)
    s.groups *= index->dim[d];
  for (int d = index->rank; d < table->rank; d++)
    s.columns *= table->dim[d];
  return s;
}

#endif
