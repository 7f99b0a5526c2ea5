/* Segments from the driver, and back to it. See pool.h. */
#include "torch/pool.h"

/* Places of a recording lie around the middle, those of which nothing is known above or below. An address may be given
 * twice, one behind the other: what was made later tells the two apart. */
static uint64_t place_of_next(const hr_torch_allocator *a) {
  const hr_torch_rules *rules = &a->rules;
  uint64_t made = a->segments_made, middle = UINT32_MAX / 2;
  return made < rules->n_places            ? middle + rules->places[made]
         : rules->order == HR_TORCH_RISING ? middle + made
                                           : middle - 1 - made;
}

static bool by_driver(const hr_torch_allocator *a) {
  return a->rules.order == HR_TORCH_BY_DRIVER && a->rules.n_places == 0;
}

hr_status hr__torch_loaded(hr_torch_allocator *a, uint64_t bytes) {
  uint32_t place;
  return by_driver(a) ? hr__torch_address_take(&a->addresses, bytes, &place) : HR_OK;
}

static hr_status range_new(hr_torch_allocator *a, const hr_torch_request *request, uint64_t bytes, bool mapped,
                           uint64_t place, uint32_t *block) {
  hr_torch_block range = {.bytes = bytes,
                          .order = place << 32 | a->segments_made,
                          .previous = HR_TORCH_NO_BLOCK,
                          .next = HR_TORCH_NO_BLOCK,
                          .stream = request->stream,
                          .small = request->small,
                          .free = true,
                          .mapped = mapped,
                          .expandable = a->rules.expandable};
  *block = hr__torch_block_new(&a->blocks, &range);
  if (*block == HR_TORCH_NO_BLOCK) return HR_NOMEM;
  a->segments_made++;
  return HR_OK;
}

hr_status hr__torch_range_new(hr_torch_allocator *a, const hr_torch_request *request, uint64_t bytes, uint32_t *block) {
  return range_new(a, request, bytes, false, place_of_next(a), block);
}

hr_status hr__torch_segment_new(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  if (!hr__torch_room(a, request->segment)) return HR_NO_FIT;
  uint32_t place = (uint32_t)place_of_next(a);
  if (by_driver(a)) {
    if (a->segments_made == 1) HR_TRY(hr__torch_addresses_kernel(&a->addresses)); /* it fills the first one */
    HR_TRY(hr__torch_address_take(&a->addresses, request->segment, &place));
  }
  HR_TRY(range_new(a, request, request->segment, true, place, block));
  hr__torch_reserve(a, request->segment);
  return HR_OK;
}

static bool is_whole(const hr_torch_block *block) {
  return block->previous == HR_TORCH_NO_BLOCK && block->next == HR_TORCH_NO_BLOCK && !block->expandable;
}

/* A free block that is a whole segment goes back. */
static void release(hr_torch_allocator *a, uint32_t block) {
  const hr_torch_block *released = &a->blocks.items[block];
  a->now.reserved_bytes -= released->bytes;
  if (by_driver(a)) hr__torch_address_give(&a->addresses, (uint32_t)(released->order >> 32), released->bytes);
  hr__torch_set_remove(&a->blocks, &a->free[released->small], block);
  hr__torch_block_drop(&a->blocks, block);
}

/* Searches of the large pool since a block was freed. */
static uint64_t age(const hr_torch_allocator *a, const hr_torch_block *block) {
  return a->searches[0] - block->aged;
}

/* A walk over a pool's free blocks in order that may release the one it is at. */
static uint32_t first_free(const hr_torch_allocator *a, bool small) {
  hr_torch_block least = {0};
  return hr__torch_set_from(&a->blocks, &a->free[small], &least);
}

static uint32_t next_free(const hr_torch_allocator *a, bool small, uint32_t block) {
  return hr__torch_set_after(&a->blocks, &a->free[small], &a->blocks.items[block]);
}

/* Blocks of at least the average age, again and again until enough has gone. */
void hr__torch_collect(hr_torch_allocator *a) {
  uint64_t threshold = (uint64_t)(a->rules.collect_above * (double)a->rules.limit_bytes);
  if (a->now.reserved_bytes <= threshold) return;
  uint64_t target = a->now.reserved_bytes - threshold, reclaimed = 0, total_age = 0, count = 0;
  for (uint32_t b = first_free(a, false); b != HR_TORCH_NO_BLOCK; b = next_free(a, false, b)) {
    if (!is_whole(&a->blocks.items[b])) continue;
    total_age += age(a, &a->blocks.items[b]);
    count++;
  }
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    double oldest = (double)total_age / (double)count;
    freed = false;
    for (uint32_t b = first_free(a, false), next; b != HR_TORCH_NO_BLOCK; b = next) {
      next = next_free(a, false, b);
      const hr_torch_block *block = &a->blocks.items[b];
      if (!is_whole(block) || (double)age(a, block) < oldest) continue;
      freed = true;
      reclaimed += block->bytes;
      total_age -= age(a, block);
      count--;
      release(a, b);
    }
  }
}

bool hr__torch_release_oversize(hr_torch_allocator *a, const hr_torch_request *request) {
  uint64_t most = a->rules.max_split_bytes;
  if (most == UINT64_MAX) return false;
  const hr_torch_set *set = &a->free[request->small];
  hr_torch_block key = {.stream = request->stream, .bytes = request->bytes < most ? most : request->bytes};
  uint32_t found = hr__torch_set_from(&a->blocks, set, &key);
  if (found != HR_TORCH_NO_BLOCK && a->blocks.items[found].stream == request->stream) {
    if (!is_whole(&a->blocks.items[found])) return false;
    release(a, found);
    return true;
  }
  uint64_t released = 0; /* none is large enough: several, the largest first */
  found = hr__torch_set_before(&a->blocks, set, &key);
  while (released < key.bytes && found != HR_TORCH_NO_BLOCK) {
    const hr_torch_block *block = &a->blocks.items[found];
    if (block->bytes < most || block->stream != request->stream || !is_whole(block)) break;
    uint32_t before = hr__torch_set_before(&a->blocks, set, block);
    released += block->bytes;
    release(a, found);
    found = before;
  }
  return released >= key.bytes;
}

/* Everything of a pool that is free: whole segments, and the pages of expandable ones. */
static hr_status pool_release(hr_torch_allocator *a, bool small) {
  for (uint32_t b = first_free(a, small), next; b != HR_TORCH_NO_BLOCK; b = next) {
    next = next_free(a, small, b);
    if (is_whole(&a->blocks.items[b])) release(a, b);
  }
  /* Unmapping cuts blocks, and a block of which nothing can go stays in the set: those that can are looked for anew. */
  hr_torch_block key = {0};
  for (uint32_t b; (b = hr__torch_set_after(&a->blocks, &a->free[small], &key)) != HR_TORCH_NO_BLOCK;) {
    key = a->blocks.items[b];
    if (key.expandable) HR_TRY(hr__torch_unmap(a, b));
  }
  return HR_OK;
}

hr_status hr__torch_release_all(hr_torch_allocator *a) {
  HR_TRY(pool_release(a, false));
  return pool_release(a, true);
}
