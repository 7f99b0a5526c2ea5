/* Which adapter of lora_up a column of y, or a row of B, belongs to. */
#ifndef HR_OP_LORA_UP_PLACE_CUH
#define HR_OP_LORA_UP_PLACE_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/lora_up.h"
}

struct lora_place {
  int group;      /* -1: none */
  int64_t weight; /* row of B */
};

/* The group of column `column` of y. */
__device__ inline lora_place place_of_column(const hr_lora_up_args &a, int64_t column) {
  int64_t before = 0;
  for (int g = 0; g < a.groups; g++) {
    if (column >= a.first[g] && column < a.first[g] + a.rows[g]) return {g, before + column - a.first[g]};
    before += a.rows[g];
  }
  return {-1, 0};
}

/* The group of row `weight` of B, which exists. */
__device__ inline int group_of_weight(const hr_lora_up_args &a, int64_t weight, int64_t *before) {
  int g = 0;
  *before = 0;
  while (g + 1 < a.groups && weight >= *before + a.rows[g])
    *before += a.rows[g++];
  return g;
}

#endif
