/* See pointwise_chain.h. */
#include "op/pointwise_chain.h"

#include <string.h>

#include "base/clones.h"
#include "dev/cpu/onednn.h"

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

#ifdef HR_CLONED
#define PROCESSOR_HAS __builtin_cpu_supports("x86-64-v3") /* as for the loops, which have FMA then, as chains have */
#else
#define PROCESSOR_HAS __builtin_cpu_supports("avx2")
#endif

int hr__chain_vector_bytes(void) {
  if (!PROCESSOR_HAS) return 0;
  return hr__dnn_vector_bytes() == 64 ? 64 : 32;
}

/* Whether all that is read and written is bf16. */
static bool chain_parts(const hr_chain *chain) {
  bool parts = chain->first.narrow && chain->narrow && chain->to;
  for (int l = 0; l < chain->count; l++)
    parts &= !chain->link[l].keep && (!chain->link[l].other.at || chain->link[l].other.narrow);
  return parts;
}

static int64_t blocks_run(const hr_chain *chain, int64_t n, bool parted, int vector_bytes) {
  return vector_bytes == 64 ? hr__chain_blocks_avx512(chain, n, parted) : hr__chain_blocks_avx2(chain, n, parted);
}

static void elements_pad(hr_elements *elements, int64_t at, int64_t n, float *room) {
  size_t size = elements->narrow ? sizeof(uint16_t) : sizeof(float);
  if (!elements->at) return;
  memcpy(room, (const char *)elements->at + (size_t)at * size, (size_t)n * size);
  elements->at = room;
}

/* The elements from `at` on, fewer than a block, in a block of their own. */
static void rest_run(const hr_chain *chain, int64_t at, int64_t n, int vector_bytes) {
  float first[HR_CHAIN_BLOCK] = {0}, other[HR_LINKS][HR_CHAIN_BLOCK], kept[HR_LINKS][HR_CHAIN_BLOCK],
        to[HR_CHAIN_BLOCK];
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
  blocks_run(&own, HR_CHAIN_BLOCK, false, vector_bytes);
  size_t size = chain->narrow ? sizeof(uint16_t) : sizeof(float);
  for (int l = 0; l < own.count; l++)
    if (own.link[l].keep) memcpy(chain->link[l].keep + at, kept[l], (size_t)n * sizeof(float));
  if (chain->to) memcpy((char *)chain->to + (size_t)at * size, to, (size_t)n * size);
}

void hr__chain_run(const hr_chain *chain, int64_t n, int vector_bytes) {
  int64_t whole = blocks_run(chain, n, chain_parts(chain), vector_bytes);
  if (whole < n) rest_run(chain, whole, n - whole, vector_bytes);
}

#else

int hr__chain_vector_bytes(void) {
  return 0;
}

void hr__chain_run(const hr_chain *chain, int64_t n, int vector_bytes) {
  (void)chain, (void)n, (void)vector_bytes;
}

#endif
