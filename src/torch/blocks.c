#include "torch/blocks.h"

#include "base/mem.h"

void hr__torch_blocks_init(hr_torch_blocks *blocks) {
  *blocks = (hr_torch_blocks){.unused = HR_TORCH_NO_BLOCK};
}

void hr__torch_blocks_fini(hr_torch_blocks *blocks) {
  hr__free(blocks->items);
  hr__torch_blocks_init(blocks);
}

/* A number's bits mixed (the finalizer of a 32-bit hash): one priority for each block. */
static uint32_t mix(uint32_t number) {
  number = (number ^ (number >> 16)) * 0x7feb352dU;
  number = (number ^ (number >> 15)) * 0x846ca68bU;
  return number ^ (number >> 16);
}

uint32_t hr__torch_block_new(hr_torch_blocks *blocks, const hr_torch_block *block) {
  uint32_t number = blocks->unused;
  hr_torch_block copy = *block;
  if (number != HR_TORCH_NO_BLOCK) {
    blocks->unused = blocks->items[number].next;
  } else {
    if (blocks->count == blocks->capacity) {
      size_t wanted = blocks->capacity ? blocks->capacity * 2 : 256;
      void *more = wanted < UINT32_MAX ? hr__realloc(blocks->items, wanted * sizeof *blocks->items) : NULL;
      if (more == NULL) return HR_TORCH_NO_BLOCK;
      blocks->items = more;
      blocks->capacity = wanted;
    }
    number = (uint32_t)blocks->count++;
  }
  copy.priority = mix(number + 1);
  blocks->items[number] = copy;
  return number;
}

void hr__torch_block_drop(hr_torch_blocks *blocks, uint32_t block) {
  blocks->items[block].next = blocks->unused;
  blocks->unused = block;
}

static int compare(const hr_torch_block *a, const hr_torch_block *b, bool by_size) {
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  if (by_size && a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

/* A tree in two: what comes before `key`, and the rest. */
static void split(hr_torch_block *items, bool by_size, uint32_t tree, const hr_torch_block *key, uint32_t *low,
                  uint32_t *high) {
  while (tree != HR_TORCH_NO_BLOCK) {
    if (compare(&items[tree], key, by_size) < 0) {
      *low = tree;
      low = &items[tree].right;
      tree = *low;
    } else {
      *high = tree;
      high = &items[tree].left;
      tree = *high;
    }
  }
  *low = *high = HR_TORCH_NO_BLOCK;
}

void hr__torch_set_add(hr_torch_blocks *blocks, hr_torch_set *set, uint32_t block) {
  hr_torch_block *items = blocks->items, *added = &items[block];
  uint32_t *link = &set->root;
  while (*link != HR_TORCH_NO_BLOCK && items[*link].priority >= added->priority)
    link = compare(&items[*link], added, set->by_size) < 0 ? &items[*link].right : &items[*link].left;
  split(items, set->by_size, *link, added, &added->left, &added->right);
  *link = block;
}

void hr__torch_set_remove(hr_torch_blocks *blocks, hr_torch_set *set, uint32_t block) {
  hr_torch_block *items = blocks->items;
  uint32_t *link = &set->root;
  while (*link != block)
    link = compare(&items[*link], &items[block], set->by_size) < 0 ? &items[*link].right : &items[*link].left;
  uint32_t low = items[block].left, high = items[block].right;
  while (low != HR_TORCH_NO_BLOCK && high != HR_TORCH_NO_BLOCK) {
    if (items[low].priority >= items[high].priority) {
      *link = low;
      link = &items[low].right;
      low = *link;
    } else {
      *link = high;
      link = &items[high].left;
      high = *link;
    }
  }
  *link = low != HR_TORCH_NO_BLOCK ? low : high;
}

uint32_t hr__torch_set_from(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key) {
  uint32_t found = HR_TORCH_NO_BLOCK;
  for (uint32_t at = set->root; at != HR_TORCH_NO_BLOCK;) {
    bool before = compare(&blocks->items[at], key, set->by_size) < 0;
    if (!before) found = at;
    at = before ? blocks->items[at].right : blocks->items[at].left;
  }
  return found;
}

uint32_t hr__torch_set_after(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key) {
  uint32_t found = HR_TORCH_NO_BLOCK;
  for (uint32_t at = set->root; at != HR_TORCH_NO_BLOCK;) {
    bool behind = compare(&blocks->items[at], key, set->by_size) > 0;
    if (behind) found = at;
    at = behind ? blocks->items[at].left : blocks->items[at].right;
  }
  return found;
}

uint32_t hr__torch_set_before(const hr_torch_blocks *blocks, const hr_torch_set *set, const hr_torch_block *key) {
  uint32_t found = HR_TORCH_NO_BLOCK;
  for (uint32_t at = set->root; at != HR_TORCH_NO_BLOCK;) {
    bool before = compare(&blocks->items[at], key, set->by_size) < 0;
    if (before) found = at;
    at = before ? blocks->items[at].right : blocks->items[at].left;
  }
  return found;
}
