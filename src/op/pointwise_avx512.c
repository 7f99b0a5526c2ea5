/* Chains by vectors of 16 elements. */
#include "op/pointwise_chain.h"

#ifdef __x86_64__
#include <immintrin.h>

#include "base/clones.h"

#define TARGET __attribute__((target("avx512f,avx512bw")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 16 };
typedef __m512 vector;
#define UPPER _mm512_set1_epi32(-65536)

INLINE vector repeated(float p) {
  return _mm512_set1_ps(p);
}
INLINE vector sum(vector x, vector y) {
  return _mm512_add_ps(x, y);
}
INLINE vector difference(vector x, vector y) {
  return _mm512_sub_ps(x, y);
}
INLINE vector product(vector x, vector y) {
  return _mm512_mul_ps(x, y);
}
INLINE vector scaled(vector p, vector x, vector q) {
#ifdef HR_CLONED
  return _mm512_fmadd_ps(p, x, q);
#else
  return _mm512_add_ps(_mm512_mul_ps(p, x), q); /* compiled with -ffp-contract=off */
#endif
}
/* Of operands in this order the instructions give the second one where they do not differ, or one is NaN: as the
 * formulas do. */
INLINE vector positive(vector x) {
  return _mm512_max_ps(x, _mm512_setzero_ps());
}
INLINE vector bounded(vector p, vector q, vector x) {
  return _mm512_max_ps(p, _mm512_min_ps(q, x));
}

INLINE vector wide_at(const float *from) {
  return _mm512_loadu_ps(from);
}
INLINE vector narrow_at(const uint16_t *from) {
  __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)from);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
INLINE vector lower_at(const uint16_t *from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16));
}
INLINE vector upper_at(const uint16_t *from) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(from), UPPER));
}

/* To nearest even, in the upper half of each word; what is left in the lower one is nothing. What is added to a word is
 * looked up by its last bit that stays. The processor's own rounding to bf16 takes subnormal numbers for 0. */
INLINE __m512i rounded(vector x) {
  const __m512i added = _mm512_set4_epi32(0x8000, 0x7fff, 0x8000, 0x7fff);
  __m512i word = _mm512_castps_si512(x), stays = _mm512_srli_epi32(word, 16);
  return _mm512_add_epi32(word, _mm512_castps_si512(_mm512_permutevar_ps(_mm512_castsi512_ps(added), stays)));
}
INLINE vector narrowed(vector x) {
  return _mm512_castsi512_ps(_mm512_and_si512(rounded(x), UPPER));
}

INLINE void wide_write(float *to, vector x, bool past) {
  if (past)
    _mm512_stream_ps(to, x);
  else
    _mm512_storeu_ps(to, x);
}
INLINE void narrow_write(uint16_t *to, vector low, vector high, hr_way how, bool past) {
  __m512i both;
  if (how == HR_WAY_PARTED) { /* bytes 2 and 3 of each word of `low` come into bytes 0 and 1 of `high` */
    const __m512i down = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
    both = _mm512_mask_shuffle_epi8(rounded(high), 0x3333333333333333, rounded(low), down);
  } else {
    __m256i first = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(low), 16));
    __m256i second = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(high), 16));
    both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  }
  if (past)
    _mm512_stream_si512((__m512i *)(void *)to, both);
  else
    _mm512_storeu_si512(to, both);
}

#include "op/pointwise_blocks.h"

TARGET int64_t hr__chain_blocks_avx512(const hr_chain *chain, int64_t n, bool parted) {
  return parted ? blocks_run(chain, n, true) : blocks_run(chain, n, false);
}

#endif
