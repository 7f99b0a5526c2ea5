/* lora_up: the second half of low-rank adapters, on top of another result, for several adapters side by side.
 *
 *   y[r, first[g] + j] = add[r, first[g] + j] + scale * sum_k h[r, g * rank + k] B[before(g) + j, k],   j < rows[g]
 *
 * before(g) = rows[0] + ... + rows[g-1]: the groups' weights lie on top of each other. Columns of y that belong to no
 * group are those of `add`, or 0 without it.
 */
#ifndef HR_OP_LORA_UP_H
#define HR_OP_LORA_UP_H

#include "graph/builder.h"

enum { HR_LORA_GROUPS = 4 };

/* Groups are in ascending order and do not overlap; unused entries are 0. */
typedef struct hr_lora_up_args {
  float scale;
  int64_t rank;
  int32_t groups;
  int64_t first[HR_LORA_GROUPS], rows[HR_LORA_GROUPS]; /* columns of y; rows of B */
  int64_t columns;                                     /* of y */
} hr_lora_up_args;

typedef struct hr_lora_up_bwd_args {
  hr_lora_up_args up;
  hr_dtype dtype; /* of dB and its partial sum: the parameter's */
} hr_lora_up_bwd_args;

/* h [..., groups * rank], B [sum of rows, rank], add? [..., columns] -> y [..., columns] */
extern const hr_op hr_op_lora_up;
/* dy [..., columns], h, B, partial? [sum of rows, rank] -> dh, dB; add's gradient is dy itself. */
extern const hr_op hr_op_lora_up_bwd;

hr_id hr__lora_up(hr_builder *b, hr_id h, hr_id B, hr_id add, const hr_lora_up_args *args); /* add: HR_NONE for none */

#endif
