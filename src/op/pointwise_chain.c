/* See pointwise_chain.h. Instructions are those of AVX2; with clones (base/clones.h) loops have FMA then, and so do
 * these. */
#include "op/pointwise_chain.h"

#include <string.h>

#include "op/stream.h"

hr_link_kind hr__link_kind(const hr_step *step, int i) {
  if (step->part == HR_PART_SLOPE_A || step->part == HR_PART_SLOPE_B)
    return step->formula == HR_FORMULA_mul && i == 0 ? HR_LINK_MUL : HR_LINK_NONE;
  switch ((hr_formula)step->formula) {
  case HR_FORMULA_add:
    return HR_LINK_ADD;
  case HR_FORMULA_sub:
    return i == 0 ? HR_LINK_SUB : HR_LINK_FROM;
  case HR_FORMULA_mul:
    return HR_LINK_MUL;
  case HR_FORMULA_square:
    return HR_LINK_SQUARE;
  case HR_FORMULA_affine:
    return HR_LINK_AFFINE;
  case HR_FORMULA_relu:
    return HR_LINK_RELU;
  case HR_FORMULA_clamp:
    return HR_LINK_CLAMP;
  default:
    return HR_LINK_NONE;
  }
}

int hr__link_other(const hr_step *step, int i) {
  if (step->part != HR_PART_VALUE) return step->part == HR_PART_SLOPE_A ? 2 : 1;
  return hr__step_reads(step, 1) ? 1 - i : -1;
}

#ifdef __x86_64__
#include <immintrin.h>

#ifdef HR_CLONED
#define TARGET        __attribute__((target("avx2,fma")))
#define AFFINE(x)     _mm256_fmadd_ps(p, x, q)
#define PROCESSOR_HAS __builtin_cpu_supports("x86-64-v3") /* as for the loops */
#else
#define TARGET        __attribute__((target("avx2")))
#define AFFINE(x)     _mm256_add_ps(_mm256_mul_ps(p, x), q)
#define PROCESSOR_HAS __builtin_cpu_supports("avx2")
#endif
#define TARGET_INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 8, VECTORS = 8, HALF = VECTORS / 2, BLOCK = LANES * VECTORS };
#define UPPER _mm256_set1_epi32(-65536)

bool hr__chain_there(void) {
  return PROCESSOR_HAS;
}

TARGET_INLINE __m256 f32_at(const void *data, int64_t at) {
  return _mm256_loadu_ps((const float *)data + at);
}
TARGET_INLINE __m256 bf16_at(const void *data, int64_t at) {
  __m128i half = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)data + at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* Where everything is bf16, words of two are parted without being moved: vector i of the first half has the lower
 * elements of as many words, vector i of the second half the upper ones. */
TARGET_INLINE __m256 part_at(const void *data, int64_t at, int i) {
  const uint16_t *from = (const uint16_t *)data + at + i % HALF * 2 * LANES;
  __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)from);
  return _mm256_castsi256_ps(i < HALF ? _mm256_slli_epi32(words, 16) : _mm256_and_si256(words, UPPER));
}

/* To nearest even, in the upper half of each word; what is left in the lower one is nothing. What is added to a word is
 * looked up by its last bit that stays. */
TARGET_INLINE __m256i rounded(__m256 x) {
  const __m256i added = _mm256_setr_epi32(0x7fff, 0x8000, 0x7fff, 0x8000, 0x7fff, 0x8000, 0x7fff, 0x8000);
  __m256i word = _mm256_castps_si256(x), stays = _mm256_srli_epi32(word, 16);
  return _mm256_add_epi32(word, _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(added), stays)));
}

#define EACH(work)                                                                                                     \
  do {                                                                                                                 \
    work(0) work(1) work(2) work(3) work(4) work(5) work(6) work(7)                                                    \
  } while (0)

/* Vector i of some elements, read in one of the three ways. */
typedef enum way { WIDE, NARROW, PARTED } way;
TARGET_INLINE __m256 vector_at(const void *data, int64_t at, int i, way how) {
  return how == PARTED   ? part_at(data, at, i)
         : how == NARROW ? bf16_at(data, at + i * LANES)
                         : f32_at(data, at + i * LANES);
}

#define READ(i)    x[i] = vector_at(first, at, i, how);
#define ADDED(i)   x[i] = _mm256_add_ps(x[i], vector_at(other, at, i, how));
#define LESS(i)    x[i] = _mm256_sub_ps(x[i], vector_at(other, at, i, how));
#define LESS_BY(i) x[i] = _mm256_sub_ps(vector_at(other, at, i, how), x[i]);
#define TIMES(i)   x[i] = _mm256_mul_ps(x[i], vector_at(other, at, i, how));
#define SQUARED(i) x[i] = _mm256_mul_ps(x[i], x[i]);
#define SCALED(i)  x[i] = AFFINE(x[i]);
/* Of operands in this order the instructions give the second one where they do not differ, or one is NaN: as the
 * formulas do. */
#define POSITIVE(i)   x[i] = _mm256_max_ps(x[i], _mm256_setzero_ps());
#define BOUNDED(i)    x[i] = _mm256_max_ps(p, _mm256_min_ps(q, x[i]));
#define ROUND(i)      x[i] = _mm256_castsi256_ps(_mm256_and_si256(rounded(x[i]), UPPER));
#define KEEP(i)       _mm256_storeu_ps(link->keep + at + (i)*LANES, x[i]);
#define WRITE(i)      _mm256_storeu_ps((float *)chain->to + at + (i)*LANES, x[i]);
#define WRITE_PAST(i) _mm256_stream_ps((float *)chain->to + at + (i)*LANES, x[i]);

TARGET_INLINE void binary_run(hr_link_kind kind, const void *other, int64_t at, way how, __m256 x[VECTORS]) {
  if (kind == HR_LINK_ADD)
    EACH(ADDED);
  else if (kind == HR_LINK_SUB)
    EACH(LESS);
  else if (kind == HR_LINK_FROM)
    EACH(LESS_BY);
  else
    EACH(TIMES);
}

#define BINARY(kind)                                                                                                   \
  case HR_LINK_##kind:                                                                                                 \
    if (parted)                                                                                                        \
      binary_run(HR_LINK_##kind, other, at, PARTED, x);                                                                \
    else if (link->other.narrow)                                                                                       \
      binary_run(HR_LINK_##kind, other, at, NARROW, x);                                                                \
    else                                                                                                               \
      binary_run(HR_LINK_##kind, other, at, WIDE, x);                                                                  \
    break;

/* Two vectors as one of bf16: neighbours, or the parts of words. */
TARGET_INLINE __m256i both_narrow(__m256 low, __m256 high, bool parted) {
  __m256i first = _mm256_srli_epi32(rounded(low), 16), second = rounded(high);
  if (parted) return _mm256_blend_epi16(first, second, 0xaa);
  __m256i words = _mm256_packus_epi32(first, _mm256_srli_epi32(second, 16));
  return _mm256_permute4x64_epi64(words, 0xd8); /* packing goes by halves of vectors */
}

TARGET_INLINE void narrow_write(const hr_chain *chain, int64_t at, bool parted, const __m256 x[VECTORS]) {
  __m256i *to = (__m256i *)(void *)((uint16_t *)chain->to + at);
#pragma GCC unroll 4
  for (int i = 0; i < HALF; i++) {
    __m256i both = parted ? both_narrow(x[i], x[i + HALF], true) : both_narrow(x[2 * i], x[2 * i + 1], false);
    if (chain->past)
      _mm256_stream_si256(to + i, both);
    else
      _mm256_storeu_si256(to + i, both);
  }
}

TARGET_INLINE void first_read(const void *first, int64_t at, way how, __m256 x[VECTORS]) {
  EACH(READ);
}

/* Elements [0, n), n a multiple of BLOCK. */
TARGET_INLINE void blocks_run(const hr_chain *chain, int64_t n, const bool parted) {
  for (int64_t at = 0; at < n; at += BLOCK) {
    __m256 x[VECTORS];
    if (parted)
      first_read(chain->first.at, at, PARTED, x);
    else if (chain->first.narrow)
      first_read(chain->first.at, at, NARROW, x);
    else
      first_read(chain->first.at, at, WIDE, x);
    for (const hr_link *link = chain->link; link < chain->link + chain->count; link++) {
      const void *other = link->other.at;
      __m256 p = _mm256_set1_ps(link->p), q = _mm256_set1_ps(link->q);
      switch (link->kind) {
        BINARY(ADD)
        BINARY(SUB)
        BINARY(FROM)
        BINARY(MUL)
      case HR_LINK_SQUARE:
        EACH(SQUARED);
        break;
      case HR_LINK_AFFINE:
        EACH(SCALED);
        break;
      case HR_LINK_RELU:
        EACH(POSITIVE);
        break;
      case HR_LINK_CLAMP:
        EACH(BOUNDED);
        break;
      default:
        break;
      }
      if (link->rounds) EACH(ROUND);
      if (!parted && link->keep) EACH(KEEP);
    }
    if (!chain->to) continue;
    if (parted || chain->narrow)
      narrow_write(chain, at, parted, x);
    else if (chain->past)
      EACH(WRITE_PAST);
    else
      EACH(WRITE);
  }
}

TARGET static void any_run(const hr_chain *chain, int64_t n) {
  blocks_run(chain, n, false);
}
TARGET static void parted_run(const hr_chain *chain, int64_t n) {
  blocks_run(chain, n, true);
}

/* Whether all that is read and written is bf16. */
static bool chain_parts(const hr_chain *chain) {
  bool parts = chain->first.narrow && chain->narrow && chain->to;
  for (int l = 0; l < chain->count; l++)
    parts &= !chain->link[l].keep && (!chain->link[l].other.at || chain->link[l].other.narrow);
  return parts;
}

static void elements_pad(hr_elements *elements, int64_t at, int64_t n, float *room) {
  size_t size = elements->narrow ? sizeof(uint16_t) : sizeof(float);
  if (!elements->at) return;
  memcpy(room, (const char *)elements->at + (size_t)at * size, (size_t)n * size);
  elements->at = room;
}

/* The elements from `at` on, fewer than a block, in a block of their own. */
static void rest_run(const hr_chain *chain, int64_t at, int64_t n) {
  float first[BLOCK] = {0}, other[HR_LINKS][BLOCK], kept[HR_LINKS][BLOCK], to[BLOCK];
  hr_chain own = *chain;
  memset(other, 0, (size_t)own.count * sizeof other[0]);
  elements_pad(&own.first, at, n, first);
  for (int l = 0; l < own.count; l++) {
    hr_elements *read = &own.link[l].other;
    int before = l - 1; /* what an earlier link keeps is not there before it */
    while (before >= 0 && !(read->at && read->at == chain->link[before].keep))
      before--;
    if (before >= 0)
      read->at = kept[before];
    else
      elements_pad(read, at, n, other[l]);
    if (own.link[l].keep) own.link[l].keep = kept[l];
  }
  own.past = false;
  own.to = chain->to ? to : NULL;
  any_run(&own, BLOCK);
  size_t size = chain->narrow ? sizeof(uint16_t) : sizeof(float);
  for (int l = 0; l < own.count; l++)
    if (own.link[l].keep) memcpy(chain->link[l].keep + at, kept[l], (size_t)n * sizeof(float));
  if (chain->to) memcpy((char *)chain->to + (size_t)at * size, to, (size_t)n * size);
}

void hr__chain_run(const hr_chain *chain, int64_t n) {
  int64_t whole = n / BLOCK * BLOCK;
  if (chain_parts(chain))
    parted_run(chain, whole);
  else
    any_run(chain, whole);
  if (whole < n) rest_run(chain, whole, n - whole);
}

#else

bool hr__chain_there(void) {
  return false;
}

void hr__chain_run(const hr_chain *chain, int64_t n) {
  (void)chain, (void)n;
}

#endif
