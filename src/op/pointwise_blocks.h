/* Chains over blocks of vectors, written once for every instruction set: pointwise_avx2.c and pointwise_avx512.c say
 * what a vector is and what is done with one, and include this.
 *
 *   LANES, vector       elements of a vector, and its type
 *   INLINE              of functions: with these instructions, inlined
 *   repeated(p)         a vector of p
 *   wide_at(from), narrow_at(from)   a vector of f32, of bf16
 *   lower_at(from), upper_at(from)   the lower and the upper elements of words of two in bf16
 *   sum, difference, product, scaled(p, x, q) = p x + q
 *   positive, bounded(p, q, x)    relu, and x within [p, q]; as the formulas have it where operands are equal or NaN
 *   narrowed(x)         rounded to bf16, to nearest even; NaNs have nothing in their lower halves
 *   wide_write(to, x, past)               a vector of f32
 *   narrow_write(to, low, high, how, past)   two of them as one of bf16, rounded
 */
#ifndef HR_OP_POINTWISE_BLOCKS_H
#define HR_OP_POINTWISE_BLOCKS_H

enum {
  VECTORS = 8,
  HALF = VECTORS / 2,
  BLOCK = LANES * VECTORS,
  LINE = 64,   /* bytes */
  AHEAD = 4096 /* bytes; by measurement, 1 to 8 KiB are much the same */
};
_Static_assert((int)BLOCK <= (int)HR_CHAIN_BLOCK, "a block for what is left holds any block");

#define EACH(work)                                                                                                     \
  do {                                                                                                                 \
    work(0) work(1) work(2) work(3) work(4) work(5) work(6) work(7)                                                    \
  } while (0)

#define READ(i)     x[i] = vector_at(first, at, i, how);
#define ADDED(i)    x[i] = sum(x[i], vector_at(other, at, i, how));
#define LESS(i)     x[i] = difference(x[i], vector_at(other, at, i, how));
#define LESS_BY(i)  x[i] = difference(vector_at(other, at, i, how), x[i]);
#define TIMES(i)    x[i] = product(x[i], vector_at(other, at, i, how));
#define SQUARED(i)  x[i] = product(x[i], x[i]);
#define SCALED(i)   x[i] = scaled(p, x[i], q);
#define POSITIVE(i) x[i] = positive(x[i]);
#define BOUNDED(i)  x[i] = bounded(p, q, x[i]);
#define ROUND(i)    x[i] = narrowed(x[i]);
#define KEEP(i)     wide_write(link->keep + at + (i)*LANES, x[i], false);
#define WRITE(i)    wide_write((float *)chain->to + at + (i)*LANES, x[i], chain->past);

/* Vector i of the block of elements from `at` on. */
INLINE vector vector_at(const void *data, int64_t at, int i, hr_way how) {
  if (how == HR_WAY_WIDE) return wide_at((const float *)data + at + i * LANES);
  const uint16_t *from = (const uint16_t *)data + at;
  if (how == HR_WAY_NARROW) return narrow_at(from + i * LANES);
  return i < HALF ? lower_at(from + i * 2 * LANES) : upper_at(from + (i - HALF) * 2 * LANES);
}

INLINE void first_read(const void *first, int64_t at, hr_way how, vector x[VECTORS]) {
  EACH(READ);
}

INLINE void binary_run(hr_link_kind kind, const void *other, int64_t at, hr_way how, vector x[VECTORS]) {
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
      binary_run(HR_LINK_##kind, other, at, HR_WAY_PARTED, x);                                                         \
    else if (link->other.narrow)                                                                                       \
      binary_run(HR_LINK_##kind, other, at, HR_WAY_NARROW, x);                                                         \
    else                                                                                                               \
      binary_run(HR_LINK_##kind, other, at, HR_WAY_WIDE, x);                                                           \
    break;

INLINE void narrow_block(const hr_chain *chain, int64_t at, hr_way how, const vector x[VECTORS]) {
  uint16_t *to = (uint16_t *)chain->to + at;
#pragma GCC unroll 4
  for (int i = 0; i < HALF; i++) {
    int low = how == HR_WAY_PARTED ? i : 2 * i, high = how == HR_WAY_PARTED ? i + HALF : low + 1;
    narrow_write(to + i * 2 * LANES, x[low], x[high], how, chain->past);
  }
}

/* What is read first comes from memory while other blocks are computed. Processors that fetch ahead themselves stop at
 * the end of a page, and what they fetch comes late: a chain leaves them little time. */
INLINE void ahead_fetch(const void *data, int64_t at, bool narrow) {
  int64_t size = narrow ? sizeof(uint16_t) : sizeof(float);
#pragma GCC unroll 8
  for (int64_t byte = 0; byte < BLOCK * size; byte += LINE)
    __builtin_prefetch((const char *)data + at * size + AHEAD + byte); /* beyond the end it does nothing */
}

/* Whole blocks of elements [0, n); returns how many elements that were. */
INLINE int64_t blocks_run(const hr_chain *chain, int64_t n, const bool parted) {
  int64_t end = n / BLOCK * BLOCK;
  for (int64_t at = 0; at < end; at += BLOCK) {
    vector x[VECTORS];
    ahead_fetch(chain->first.at, at, parted || chain->first.narrow);
    if (parted)
      first_read(chain->first.at, at, HR_WAY_PARTED, x);
    else if (chain->first.narrow)
      first_read(chain->first.at, at, HR_WAY_NARROW, x);
    else
      first_read(chain->first.at, at, HR_WAY_WIDE, x);
    for (const hr_link *link = chain->link; link < chain->link + chain->count; link++) {
      const void *other = link->other.at;
      vector p = repeated(link->p), q = repeated(link->q);
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
      narrow_block(chain, at, parted ? HR_WAY_PARTED : HR_WAY_NARROW, x);
    else
      EACH(WRITE);
  }
  return end;
}

#endif
