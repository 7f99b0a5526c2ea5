/* Chains by vectors of 8 elements. */
#include "op/pointwise_chain.h"

#ifdef __x86_64__
#include <immintrin.h>

#include "base/clones.h"

#ifdef HR_CLONED
#define TARGET __attribute__((target("avx2,fma")))
#else
#define TARGET __attribute__((target("avx2")))
#endif
#define INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef __m256 vector;
#define UPPER _mm256_set1_epi32(-65536)

INLINE vector repeated(float p) {
  return _mm256_set1_ps(p);
}
INLINE vector sum(vector x, vector y) {
  return _mm256_add_ps(x, y);
}
INLINE vector difference(vector x, vector y) {
  return _mm256_sub_ps(x, y);
}
INLINE vector product(vector x, vector y) {
  return _mm256_mul_ps(x, y);
}
INLINE vector scaled(vector p, vector x, vector q) {
#ifdef HR_CLONED
  return _mm256_fmadd_ps(p, x, q);
#else
  return _mm256_add_ps(_mm256_mul_ps(p, x), q);
#endif
}
/* Of operands in this order the instructions give the second one where they do not differ, or one is NaN: as the
 * formulas do. */
INLINE vector positive(vector x) {
  return _mm256_max_ps(x, _mm256_setzero_ps());
}
INLINE vector bounded(vector p, vector q, vector x) {
  return _mm256_max_ps(p, _mm256_min_ps(q, x));
}

INLINE vector wide_at(const float *from) {
  return _mm256_loadu_ps(from);
}
INLINE vector narrow_at(const uint16_t *from) {
  __m128i half = _mm_loadu_si128((const __m128i *)(const void *)from);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
INLINE vector lower_at(const uint16_t *from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from), 16));
}
INLINE vector upper_at(const uint16_t *from) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)from), UPPER));
}

/* To nearest even, in the upper half of each word; what is left in the lower one is nothing. What is added to a word is
 * looked up by its last bit that stays. */
INLINE __m256i rounded(vector x) {
  const __m256i added = _mm256_setr_epi32(0x7fff, 0x8000, 0x7fff, 0x8000, 0x7fff, 0x8000, 0x7fff, 0x8000);
  __m256i word = _mm256_castps_si256(x), stays = _mm256_srli_epi32(word, 16);
  return _mm256_add_epi32(word, _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(added), stays)));
}
INLINE vector narrowed(vector x) {
  return _mm256_castsi256_ps(_mm256_and_si256(rounded(x), UPPER));
}

INLINE void wide_write(float *to, vector x, bool past) {
  if (past)
    _mm256_stream_ps(to, x);
  else
    _mm256_storeu_ps(to, x);
}
INLINE void narrow_write(uint16_t *to, vector low, vector high, hr_way how, bool past) {
  __m256i first = _mm256_srli_epi32(rounded(low), 16), second = rounded(high), both;
  if (how == HR_WAY_PARTED) {
    both = _mm256_blend_epi16(first, second, 0xaa);
  } else { /* packing goes by halves of vectors */
    both = _mm256_permute4x64_epi64(_mm256_packus_epi32(first, _mm256_srli_epi32(second, 16)), 0xd8);
  }
  if (past)
    _mm256_stream_si256((__m256i *)(void *)to, both);
  else
    _mm256_storeu_si256((__m256i *)(void *)to, both);
}

#include "op/pointwise_blocks.h"

TARGET int64_t hr__chain_blocks_avx2(const hr_chain *chain, int64_t n, bool parted) {
  return parted ? blocks_run(chain, n, true) : blocks_run(chain, n, false);
}

#endif
