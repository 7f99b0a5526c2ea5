/* The merges of a BPE model: which two symbols join, in which order, into what. Filled once, then only read. */
#ifndef HR_TEXT_PAIRS_H
#define HR_TEXT_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_NO_RANK = INT32_MAX };

typedef struct hr_pair {
  int32_t left, right; /* left < 0: the slot is free */
  int32_t rank;        /* the lowest joins first */
  int32_t joined;
} hr_pair;

typedef struct hr_pairs {
  hr_pair *slots;
  size_t mask;
  size_t count;
} hr_pairs;

hr_status hr__pairs_init(hr_pairs *pairs, size_t most, hr_arena *arena, hr_error *err);
/* A pair that is there already gets the new rank. */
void hr__pairs_add(hr_pairs *pairs, int32_t left, int32_t right, int32_t rank, int32_t joined);

static inline size_t hr__pair_hash(int32_t left, int32_t right) {
  uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  key *= UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(key ^ key >> 32);
}

/* The slot of a pair, or a free one with the rank HR_NO_RANK. */
static inline const hr_pair *hr__pairs_find(const hr_pairs *pairs, int32_t left, int32_t right) {
  for (size_t i = hr__pair_hash(left, right) & pairs->mask;; i = (i + 1) & pairs->mask) {
    const hr_pair *pair = &pairs->slots[i];
    if ((pair->left == left && pair->right == right) || pair->left < 0) return pair;
  }
}

#endif
