/* dropout: y = x mask / (1 - p). The mask is a pure function of (seed, step, module path, how often the module was used
 * before, global sample, element), so that backward, recomputing, slices of the batch and a resumed run draw the same
 * one; nothing is saved. */
#ifndef HR_OP_DROPOUT_H
#define HR_OP_DROPOUT_H

#include "base/philox.h"
#include "graph/builder.h"

typedef struct hr_dropout_args {
  float p;       /* part of the elements that become 0, in [0, 1) */
  int64_t first; /* row of the batch that row 0 of x is: not 0 in slices */
  uint64_t use;  /* uses of the module before it in its program: each has a mask of its own */
} hr_dropout_args;

extern const hr_op hr_op_dropout; /* x [samples, ...], control -> y */

hr_id hr__dropout(hr_builder *b, hr_id x, float p);

/* How many nodes of the module at hand draw random numbers in this program so far: `use` of the next one. */
uint64_t hr__dropout_uses(const hr_builder *b);

/* The key of a mask. Step and use take a place of their own in it, since sample and element fill the counter. */
HR_PHILOX uint64_t hr__dropout_key(uint64_t seed, uint64_t stream, uint64_t step, uint64_t use) {
  uint32_t word[4];
  hr__philox(seed ^ stream, step, UINT64_MAX - use, word);
  return (uint64_t)word[1] << 32 | word[0];
}

/* Whether an element of a sample is kept: what the op does, for tests. `key` is hr__dropout_key. */
bool hr__dropout_keeps(uint64_t key, uint64_t sample, int64_t element, float p);

#endif
