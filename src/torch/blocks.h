/* Blocks: the pieces that the simulated allocator has cut its segments into, and ordered sets of them.
 *
 * Blocks of a segment are a list by address. A set is a treap (a search tree that is a heap by pseudo-random
 * priorities, so that it stays balanced whatever is asked of it): finding, adding and taking out cost log n. Addresses
 * are a segment's place among segments and an offset in it: only their order matters.
 */
#ifndef HR_TORCH_BLOCKS_H
#define HR_TORCH_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_TORCH_NO_BLOCK UINT32_MAX

typedef struct hr_torch_block {
  uint64_t offset, bytes;  /* in its segment */
  uint64_t requested;      /* of a block in use: what was asked for */
  uint64_t aged;           /* of a free one: searches in its pool until it was freed */
  uint64_t order;          /* of its segment among all, by address; no two have the same */
  uint32_t previous, next; /* neighbours in the segment */
  uint32_t left, right;    /* in the set that it is in */
  uint32_t priority;
  uint8_t stream;
  bool small;      /* of the small pool */
  bool free;       /* in no tensor's hands */
  bool mapped;     /* has memory behind it: all but the rest of an expandable segment */
  bool expandable; /* of an expandable segment */
} hr_torch_block;

typedef struct hr_torch_blocks {
  hr_torch_block *items;
  size_t count, capacity;
  uint32_t unused; /* first of the items that are blocks no more, chained by `next` */
} hr_torch_blocks;

/* By stream, then by size, then by address; or without the size. */
typedef struct hr_torch_set {
  uint32_t root;
  bool by_size;
} hr_torch_set;

void hr__torch_blocks_init(hr_torch_blocks *blocks);
void hr__torch_blocks_fini(hr_torch_blocks *blocks);
/* A copy of `block` as a new one; HR_TORCH_NO_BLOCK: out of memory. Pointers to blocks end their lives here. */
uint32_t hr__torch_block_new(hr_torch_blocks *blocks, const hr_torch_block *block);
void hr__torch_block_drop(hr_torch_blocks *blocks, uint32_t block);

void hr__torch_set_add(hr_torch_blocks *blocks, hr_torch_set *set, uint32_t block);
void hr__torch_set_remove(hr_torch_blocks *blocks, hr_torch_set *set, uint32_t block); /* one that is in it */
/* The first that is not before `key` (of which stream, size and address count), the first behind a block of the set,
 * the last before one; HR_TORCH_NO_BLOCK: none. */
uint32_t hr__torch_set_from(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key);
uint32_t hr__torch_set_after(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key);
uint32_t hr__torch_set_before(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key);

#endif
