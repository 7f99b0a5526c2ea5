/* What the outermost blocks of a plan take: bytes kept and at work, seconds. The plans of a recipe with all blocks kept
 * alike give the variants of fit/chain. */
#ifndef HR_FIT_BLOCKS_H
#define HR_FIT_BLOCKS_H

#include "fit/chain.h"
#include "plan/plan.h"

/* All on the device tier. Bytes are the largest of all programs that train, so that one chain stands for them. */
typedef struct hr_blocks {
  hr_chain_block *blocks;
  size_t n_blocks;
  uint64_t base_bytes;    /* persistent, and what is there before the first block */
  uint64_t tail_bytes;    /* between the last block's forward and its backward, beyond what is kept */
  uint64_t outside_bytes; /* largest sum of live bytes before the first block, after its backward, in other programs */
} hr_blocks;

/* Outermost blocks of a program that trains; 0: there is none. */
hr_status hr__blocks_count(const hr_graph *graph, hr_arena *arena, size_t *count, hr_error *err);
hr_status hr__blocks_init(hr_blocks *out, size_t n_blocks, hr_arena *arena, hr_error *err);
/* Adds the next variant of every block as the plan has it. `accumulation` weighs seconds as step_seconds does. */
hr_status hr__blocks_read(hr_blocks *out, const hr_plan *plan, int accumulation, hr_error *err);

/* Adds the variants of another, of as many blocks. */
void hr__blocks_add(hr_blocks *out, const hr_blocks *other);

#endif
