/* dropout: y = x mask / (1 - p). The mask is a pure function of (seed, step, module path, how often the module was used
 * before, global sample, element), so that backward, recomputing, slices of the batch and a resumed run draw the same
 * one; nothing is saved.
 *
 * A block of random words serves 8 neighbouring elements of a sample, 16 bits each: the lower half of word i / 2 is
 * that of element 8 block + i for even i, the upper half for odd i. An element is dropped where its bits are below a
 * limit, so rates come in 65536ths: what is drawn is the nearest to the rate asked for, and what is kept is scaled by
 * the rate that is drawn, which leaves the mean of the result as it is. */
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

enum { HR_MASK_LANES = 8, HR_MASK_PARTS = 65536, HR_MASK_ROUNDS = 7 };

/* Bits below this are dropped. */
HR_PHILOX uint32_t hr__mask_limit(float p) {
  uint32_t nearest = (uint32_t)(p * (float)HR_MASK_PARTS + 0.5f);
  return nearest < HR_MASK_PARTS ? nearest : HR_MASK_PARTS - 1;
}

/* What kept elements are multiplied by. */
HR_PHILOX float hr__mask_scale(uint32_t limit) {
  return (float)HR_MASK_PARTS / (float)(HR_MASK_PARTS - limit);
}

/* The bits of elements [8 block, 8 block + 8) of a sample. `key` is hr__dropout_key. */
HR_PHILOX void hr__mask_draw(uint64_t key, uint64_t sample, uint64_t block, uint32_t word[4]) {
  hr__philox_rounds(key, sample, block, HR_MASK_ROUNDS, word);
}

/* Whether element i of a block is kept. */
HR_PHILOX bool hr__mask_keeps(const uint32_t word[4], int i, uint32_t limit) {
  return (word[i / 2] >> 16 * (i % 2) & 0xffff) >= limit;
}

/* The bits of elements [first, first + n) of a sample, on the CPU; n <= HR_MASK_MOST. */
enum { HR_MASK_MOST = 1024 };
void hr__mask_lanes(uint64_t key, uint64_t sample, int64_t first, int64_t n, uint16_t *lanes);

#endif
