/* Checkpointing of a chain of blocks, solved: for every budget the variants of all blocks that take the least time.
 *
 * Forward goes through the blocks in order, each keeps some bytes; backward comes back, and while it is at a block,
 * that block takes its work bytes on top of what the blocks before it keep. A choice of variants therefore peaks at max
 * over i of (kept_0 + ... + kept_{i-1} + max(work_i, forward_i)), and kept_0 + ... + kept_{n-1} + tail. Seen from the
 * last block to the first this is peak = max(work, forward, kept + peak of the rest): two numbers, peak and seconds,
 * say all about a part of the chain, and one sweep gives the answers for all budgets at once.
 */
#ifndef HR_FIT_CHAIN_H
#define HR_FIT_CHAIN_H

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_chain_variant {
  uint64_t kept_bytes;    /* between forward and backward of the block */
  uint64_t work_bytes;    /* while its backward runs, beyond what earlier blocks keep */
  uint64_t forward_bytes; /* while its forward runs, beyond what earlier blocks keep */
  double seconds;
} hr_chain_variant;

enum { HR_CHAIN_VARIANTS = 4 };
typedef struct hr_chain_block {
  hr_chain_variant variants[HR_CHAIN_VARIANTS];
  int n_variants;
} hr_chain_block;

/* One answer: no other choice is faster with that peak. */
typedef struct hr_chain_entry {
  uint64_t peak_bytes;
  double seconds;
} hr_chain_entry;

typedef struct hr_chain {
  const hr_chain_entry *entries; /* fastest first: seconds rise, peaks fall */
  size_t n_entries;
  struct hr_chain_labels *labels; /* per block */
  size_t n_blocks;
} hr_chain;

/* Exact while a block has at most HR_CHAIN_LABELS answers behind it; beyond, peaks are rounded up to as many slots,
 * which depend on the blocks alone: an answer is then feasible, and the best up to the width of a slot per block. */
enum { HR_CHAIN_LABELS = 4096 };
hr_status hr__chain_solve(const hr_chain_block *blocks, size_t n_blocks, uint64_t tail_bytes, hr_arena *arena,
                          hr_chain *out, hr_error *err);

/* Variants of all blocks by which an entry comes about. */
void hr__chain_choice(const hr_chain *chain, size_t entry, uint8_t *variants);

#endif
