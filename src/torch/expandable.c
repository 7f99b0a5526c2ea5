/* Expandable segments: one range of addresses for each stream and pool, into which pages are mapped as they are needed.
 * See pool.h.
 *
 * A segment is a list of blocks as any other; those without memory are free, not `mapped`, and in a set of their own.
 * Pages are 2 MiB in the small pool and as large as a large segment in the other; a block without memory begins and
 * ends at a page. The range is taken to be endless (PyTorch reserves 9/8 of the device's memory).
 */
#include "torch/pool.h"

static const uint64_t RANGE_BYTES = UINT64_C(1) << 61; /* less what is not a whole page */

static uint64_t page_bytes(const hr_torch_allocator *a, bool small) {
  return small ? 2 * HR_TORCH_MIB : a->rules.large_segment_bytes;
}

uint64_t hr__torch_reach(const hr_torch_allocator *a, uint32_t block) {
  const hr_torch_block *items = a->blocks.items;
  uint32_t next = items[block].next;
  bool grows = next != HR_TORCH_NO_BLOCK && !items[next].mapped;
  return items[block].bytes + (grows ? items[next].bytes : 0);
}

/* Whether free blocks from here on have so many bytes together. */
static bool has_space(const hr_torch_allocator *a, uint32_t block, uint64_t bytes) {
  const hr_torch_block *items = a->blocks.items;
  uint64_t sum = 0;
  for (; sum < bytes && block != HR_TORCH_NO_BLOCK && items[block].free; block = items[block].next)
    sum += items[block].bytes;
  return sum >= bytes;
}

static hr_status range_new(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  uint64_t page = page_bytes(a, request->small);
  HR_TRY(hr__torch_range_new(a, request, RANGE_BYTES / page * page, block));
  hr__torch_set_add(&a->blocks, &a->unmapped[request->small], *block);
  return HR_OK;
}

/* The lowest place where the request can be put by mapping pages: a block without memory, or the free one before it. */
static hr_status place_find(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  const hr_torch_set *set = &a->unmapped[request->small];
  hr_torch_block key = {.stream = request->stream};
  uint32_t at = hr__torch_set_from(&a->blocks, set, &key);
  for (; at != HR_TORCH_NO_BLOCK; at = hr__torch_set_after(&a->blocks, set, &a->blocks.items[at])) {
    if (a->blocks.items[at].stream != request->stream) break;
    uint32_t before = a->blocks.items[at].previous;
    *block = before != HR_TORCH_NO_BLOCK && a->blocks.items[before].free ? before : at;
    if (has_space(a, *block, request->bytes)) return HR_OK;
  }
  return range_new(a, request, block);
}

/* Gives the first bytes of a block without memory whole pages of it, and joins what is free around them; the result is
 * in the set of free blocks. */
static hr_status map(hr_torch_allocator *a, uint32_t block, uint64_t bytes) {
  hr_torch_block rest = a->blocks.items[block];
  uint64_t page = page_bytes(a, rest.small), mapped = (bytes + page - 1) / page * page;
  if (!hr__torch_room(a, mapped)) return HR_NO_FIT;
  if (mapped < rest.bytes) {
    rest.offset += mapped;
    rest.bytes -= mapped;
    rest.previous = block;
    uint32_t behind = hr__torch_block_new(&a->blocks, &rest);
    if (behind == HR_TORCH_NO_BLOCK) return HR_NOMEM;
    hr__torch_set_remove(&a->blocks, &a->unmapped[rest.small], block);
    if (rest.next != HR_TORCH_NO_BLOCK) a->blocks.items[rest.next].previous = behind;
    a->blocks.items[block].next = behind;
    a->blocks.items[block].bytes = mapped;
    hr__torch_set_add(&a->blocks, &a->unmapped[rest.small], behind);
  } else {
    hr__torch_set_remove(&a->blocks, &a->unmapped[rest.small], block);
  }
  a->blocks.items[block].mapped = true;
  hr__torch_join(a, block);
  hr__torch_set_add(&a->blocks, &a->free[rest.small], block);
  hr__torch_reserve(a, mapped);
  return HR_OK;
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

hr_status hr__torch_expand(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  if (a->rules.fraction && !hr__torch_room(a, request->segment)) return HR_NO_FIT;
  uint32_t at;
  HR_TRY(place_find(a, request, &at));
  if (!a->blocks.items[at].mapped) HR_TRY(map(a, at, least(a->blocks.items[at].bytes, request->bytes)));
  while (a->blocks.items[at].bytes < request->bytes) {
    uint32_t next = a->blocks.items[at].next; /* without memory: it takes the block before it in */
    uint64_t missing = request->bytes - a->blocks.items[at].bytes;
    HR_TRY(map(a, next, least(a->blocks.items[next].bytes, missing)));
    at = next;
  }
  hr__torch_set_remove(&a->blocks, &a->free[request->small], at);
  *block = at;
  return HR_OK;
}

/* A free block of its own, in the set, of a part of another that keeps the rest. */
static hr_status part_new(hr_torch_allocator *a, hr_torch_block part) {
  uint32_t block = hr__torch_block_new(&a->blocks, &part);
  if (block == HR_TORCH_NO_BLOCK) return HR_NOMEM;
  if (part.previous != HR_TORCH_NO_BLOCK) a->blocks.items[part.previous].next = block;
  if (part.next != HR_TORCH_NO_BLOCK) a->blocks.items[part.next].previous = block;
  hr__torch_set_add(&a->blocks, &a->free[part.small], block);
  return HR_OK;
}

/* The whole pages of a free block go back; what is left of it at either end stays. */
hr_status hr__torch_unmap(hr_torch_allocator *a, uint32_t block) {
  hr_torch_block whole = a->blocks.items[block];
  uint64_t page = page_bytes(a, whole.small), end = whole.offset + whole.bytes;
  uint64_t first = (whole.offset + page - 1) / page * page, last = end / page * page;
  if (first >= last) return HR_OK;
  hr__torch_set_remove(&a->blocks, &a->free[whole.small], block);
  if (first > whole.offset) {
    hr_torch_block before = whole;
    before.bytes = first - whole.offset;
    before.next = block;
    HR_TRY(part_new(a, before));
  }
  if (end > last) {
    hr_torch_block behind = whole;
    behind.offset = last;
    behind.bytes = end - last;
    behind.previous = block;
    HR_TRY(part_new(a, behind));
  }
  hr_torch_block *unmapped = &a->blocks.items[block];
  unmapped->offset = first;
  unmapped->bytes = last - first;
  unmapped->mapped = false;
  a->now.reserved_bytes -= last - first;
  hr__torch_join(a, block);
  hr__torch_set_add(&a->blocks, &a->unmapped[whole.small], block);
  unmapped = &a->blocks.items[block];
  if (unmapped->previous == HR_TORCH_NO_BLOCK && unmapped->next == HR_TORCH_NO_BLOCK) { /* the range is empty */
    hr__torch_set_remove(&a->blocks, &a->unmapped[whole.small], block);
    hr__torch_block_drop(&a->blocks, block);
  }
  return HR_OK;
}
