/* dropout: y = x mask / (1 - p). The mask is a pure function of (seed, step, module path, how often the module was used
 * before, global sample, element), so that backward, recomputing, slices of the batch and a resumed run draw the same
 * one; nothing is saved. */
#ifndef HR_OP_DROPOUT_H
#define HR_OP_DROPOUT_H

#include "graph/builder.h"

typedef struct hr_dropout_args {
  float p;       /* part of the elements that become 0, in [0, 1) */
  int64_t first; /* row of the batch that row 0 of x is: not 0 in slices */
  uint64_t use;  /* uses of the module before it in its program: each has a mask of its own */
} hr_dropout_args;

extern const hr_op hr_op_dropout; /* x [samples, ...], control -> y */

hr_id hr__dropout(hr_builder *b, hr_id x, float p);

/* Whether an element of a sample is kept: what the op does, for tests. `key` is hr__dropout_key. */
uint64_t hr__dropout_key(uint64_t seed, uint64_t stream, uint64_t step, uint64_t use);
bool hr__dropout_keeps(uint64_t key, uint64_t sample, int64_t element, float p);

#endif
