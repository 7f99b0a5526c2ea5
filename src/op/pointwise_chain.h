/* Chains: steps of a program on the CPU of which each works on the result of the one before, taken for some vectors at
 * a time without leaving the registers, instead of tile by tile.
 *
 * Only formulas of one or two instructions are links of chains: what others cost is not what memory costs. Operands in
 * bf16 are read as they lie, and a result in bf16 is written as it is to lie. A chain has the bits of its steps by
 * themselves (pointwise_steps.c).
 */
#ifndef HR_OP_POINTWISE_CHAIN_H
#define HR_OP_POINTWISE_CHAIN_H

#include "op/pointwise_walk.h"

enum {
  HR_LINKS = 16,       /* of a chain at most */
  HR_CHAIN_BLOCK = 128 /* elements that are in registers at once, at most */
};

/* What a link does with x, the value so far, and y, another one. */
typedef enum hr_link_kind {
  HR_LINK_NONE, /* no link */
  HR_LINK_ADD,  /* x + y */
  HR_LINK_SUB,  /* x - y */
  HR_LINK_FROM, /* y - x */
  HR_LINK_MUL,  /* x y */
  HR_LINK_SQUARE,
  HR_LINK_AFFINE,
  HR_LINK_RELU,
  HR_LINK_CLAMP,
} hr_link_kind;

/* Elements that lie in order, f32 or bf16. */
typedef struct hr_elements {
  const void *at;
  bool narrow; /* bf16 */
} hr_elements;

typedef struct hr_link {
  hr_link_kind kind;
  bool rounds; /* the result to bf16; NaNs have nothing in their lower halves */
  hr_elements other;
  float p, q;
  float *keep; /* where the result goes beside; NULL: nowhere */
} hr_link;

typedef struct hr_chain {
  hr_elements first;
  hr_link link[HR_LINKS];
  int count;
  void *to;    /* of the last result; NULL: nowhere */
  bool narrow; /* it is bf16, and rounded to it */
  bool past;   /* it goes past the cache; `to` allows whole vectors */
} hr_chain;

/* How a vector of a block is read: f32; bf16; or, where everything is bf16, words of two elements are parted without
 * being moved: vector i of the first half has the lower elements of as many words, vector i of the second half the
 * upper ones. */
typedef enum hr_way { HR_WAY_WIDE, HR_WAY_NARROW, HR_WAY_PARTED } hr_way;

/* Bytes of the vectors that chains are taken in on this processor, where oneDNN's limit on instructions allows them: 64
 * (AVX-512), 32 (AVX2); 0: it has no chains. */
int hr__chain_vector_bytes(void);
/* The kind of a step whose operand `i` is the value so far. */
hr_link_kind hr__link_kind(const hr_step *step, int i);
/* Which of its operands is then the other one; -1: it has none. */
int hr__link_other(const hr_step *step, int i);
/* Elements [0, n), by vectors that the processor has; the bits are the same with all of them. */
void hr__chain_run(const hr_chain *chain, int64_t n, int vector_bytes);

/* Whole blocks of a vector size: returns how many elements of n that were. `parted`: all that is read and written is
 * bf16. */
int64_t hr__chain_blocks_avx2(const hr_chain *chain, int64_t n, bool parted);
int64_t hr__chain_blocks_avx512(const hr_chain *chain, int64_t n, bool parted);

#endif
