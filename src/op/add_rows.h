/* add_rows: y = x + W, where row i of x gets row i mod period of W: position embeddings (period: the length), or one
 * row for all (period 1). */
#ifndef HR_OP_ADD_ROWS_H
#define HR_OP_ADD_ROWS_H

#include "graph/builder.h"

typedef struct hr_add_rows_args {
  int64_t period; /* rows of W that are used, from the first on; the rows of a sample are a multiple */
} hr_add_rows_args;

typedef struct hr_add_rows_dw_args {
  int64_t period;
  int64_t rows;   /* of W */
  hr_dtype dtype; /* of dW and of its partial sum */
} hr_add_rows_dw_args;

extern const hr_op hr_op_add_rows;    /* x [samples, ..., H], W [rows, H] in any float type -> y as x */
extern const hr_op hr_op_add_rows_dw; /* dy, partial? [rows, H] -> dW [rows, H]; 0 or the partial below the period */

hr_id hr__add_rows(hr_builder *b, hr_id x, hr_id weight, int64_t period);

#endif
