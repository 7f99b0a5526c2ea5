/* NF4: weights as 4-bit codes of 16 levels, one scale per block of 64 elements of the flattened tensor.
 *
 * Block: s = max |w|; the code of w is the level nearest to w * (1/s), that is the number of thresholds (midpoints of
 * neighbouring levels) below it; in a block of zeros it is 7, the level 0. Two codes a byte, the first in the high
 * nibble. w comes back as level[code] * s.
 *
 * Double quantization stores the scales in 8 bits: offset = mean of all scales of the tensor; (s - offset) in blocks of
 * 256, each divided by its own largest magnitude, in the signed dynamic code (base/dynamic8.h).
 */
#ifndef HR_OP_NF4_H
#define HR_OP_NF4_H

#include "graph/builder.h"

enum {
  HR_NF4_BLOCK = 64,                          /* elements with one scale */
  HR_NF4_NESTED = 256,                        /* scales with one scale of their own */
  HR_NF4_PIECE = HR_NF4_BLOCK * HR_NF4_NESTED /* elements that can be packed by themselves, given the offset */
};

typedef struct hr_nf4_args {
  hr_desc desc; /* of the weight that comes out */
} hr_nf4_args;

/* codes u8 [n/2], absmax u8 [n/64], nested_absmax f32 [n/64/256], nested_offset f32 [1] -> W; each size rounded up.
 * Without double quantization absmax is f32 [n/64] and the last two are absent. */
extern const hr_op hr_op_nf4_unpack;

hr_id hr__nf4_unpack(hr_builder *b, hr_id codes, hr_id absmax, hr_id nested_absmax, hr_id nested_offset, hr_desc desc);

static inline int64_t hr__nf4_blocks(int64_t count) {
  return (count + HR_NF4_BLOCK - 1) / HR_NF4_BLOCK;
}

/* Packing on the host, in pieces: `w` begins at a block of its tensor. */
void hr__nf4_scales(const float *w, int64_t count, float *absmax);                      /* one per block */
void hr__nf4_codes(const float *w, int64_t count, const float *absmax, uint8_t *codes); /* two elements a byte */
/* The scales of at most one nested block: 8-bit codes, and the largest magnitude of what is left of them. */
void hr__nf4_nest(const float *absmax, int64_t count, float offset, uint8_t *codes, float *nested_absmax);

/* clang-format off */
#define HR_NF4_LEVELS                                                                                                  \
  {                                                                                                                    \
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,                   \
    -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,                    \
    0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f   \
  }
/* clang-format on */
extern const float hr_nf4_levels[16];

#endif
