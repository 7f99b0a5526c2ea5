#include "torch/allocator.h"

#include <assert.h>

#include "torch/pool.h"

enum { BLOCK_BYTES = 512 };
static const uint64_t SMALL_BYTES = HR_TORCH_MIB;       /* at most, of the small pool's requests */
static const uint64_t SMALL_SEGMENT = 2 * HR_TORCH_MIB; /* of the small pool */
static const uint64_t SHARED_BELOW = 10 * HR_TORCH_MIB; /* requests of the large pool that share segments */
static const uint64_t LARGE_ROUND = 2 * HR_TORCH_MIB;   /* and the others' segments are rounded to */
static const uint64_t ANY_BYTES = UINT64_C(1) << 60;    /* more than this is asked of no device */

void hr__torch_rules_init(hr_torch_rules *rules) {
  *rules = (hr_torch_rules){.large_segment_bytes = 20 * HR_TORCH_MIB,
                            .max_split_bytes = UINT64_MAX,
                            .max_rounding_bytes = 20 * HR_TORCH_MIB,
                            .limit_bytes = UINT64_MAX};
}

void hr__torch_allocator_init(hr_torch_allocator *a, const hr_torch_rules *rules) {
  *a = (hr_torch_allocator){.rules = *rules};
  hr__torch_blocks_init(&a->blocks);
  hr__torch_addresses_init(&a->addresses);
  for (int small = 0; small < 2; small++) {
    a->free[small] = (hr_torch_set){HR_TORCH_NO_BLOCK, true};
    a->unmapped[small] = (hr_torch_set){HR_TORCH_NO_BLOCK, false};
  }
}

void hr__torch_allocator_fini(hr_torch_allocator *a) {
  hr__torch_blocks_fini(&a->blocks);
  hr__torch_addresses_fini(&a->addresses);
}

static int top_bit(uint64_t number) {
  return 63 - __builtin_clzll(number);
}

/* To the next of so many steps between two powers of two. */
static uint64_t round_division(uint64_t bytes, unsigned divisions) {
  if ((bytes & (bytes - 1)) == 0) return bytes;
  uint64_t below = UINT64_C(1) << top_bit(bytes), step = below >> top_bit(divisions);
  return step == 0 ? below << 1 : (bytes + step - 1) & ~(step - 1);
}

uint64_t hr__torch_round(const hr_torch_rules *rules, uint64_t bytes) {
  if (bytes < BLOCK_BYTES) return BLOCK_BYTES;
  int interval = top_bit(bytes) - 20; /* from 1 MiB on by powers of two, all below with the first */
  if (interval < 0) interval = 0;
  if (interval >= HR_TORCH_ROUNDINGS) interval = HR_TORCH_ROUNDINGS - 1;
  unsigned divisions = rules->divisions[interval];
  if (divisions > 1 && bytes > (uint64_t)BLOCK_BYTES * divisions) return round_division(bytes, divisions);
  return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

static uint64_t segment_bytes(const hr_torch_rules *rules, uint64_t bytes) {
  if (bytes <= SMALL_BYTES) return SMALL_SEGMENT;
  if (bytes < SHARED_BELOW) return rules->large_segment_bytes;
  return (bytes + LARGE_ROUND - 1) / LARGE_ROUND * LARGE_ROUND;
}

bool hr__torch_room(hr_torch_allocator *a, uint64_t bytes) {
  uint64_t limit = a->rules.limit_bytes < ANY_BYTES ? a->rules.limit_bytes : ANY_BYTES;
  if (bytes <= limit && a->now.reserved_bytes <= limit - bytes) return true;
  a->failed_bytes = bytes;
  return false;
}

void hr__torch_reserve(hr_torch_allocator *a, uint64_t bytes) {
  a->now.reserved_bytes += bytes;
  if (a->now.reserved_bytes > a->peak.reserved_bytes) a->peak.reserved_bytes = a->now.reserved_bytes;
}

static bool collects(const hr_torch_rules *rules) {
  return rules->collect_above > 0 && rules->fraction; /* PyTorch collects only under a limit of its own */
}

/* The best of the free blocks, taken out of its set; HR_TORCH_NO_BLOCK: none will do. */
static uint32_t free_take(hr_torch_allocator *a, const hr_torch_request *request) {
  hr_torch_set *set = &a->free[request->small];
  if (collects(&a->rules)) a->searches[request->small]++;
  hr_torch_block key = {.stream = request->stream, .bytes = request->bytes};
  uint32_t found = hr__torch_set_from(&a->blocks, set, &key);
  const hr_torch_block *items = a->blocks.items;
  if (found == HR_TORCH_NO_BLOCK || items[found].stream != request->stream) return HR_TORCH_NO_BLOCK;
  while (items[found].expandable) { /* one that can grow counts with all that it can grow to */
    uint32_t next = hr__torch_set_after(&a->blocks, set, &items[found]);
    if (next == HR_TORCH_NO_BLOCK || items[next].stream != request->stream) break;
    if (hr__torch_reach(a, next) >= hr__torch_reach(a, found)) break;
    found = next;
  }
  uint64_t most = a->rules.max_split_bytes, bytes = items[found].bytes;
  if (request->bytes < most && bytes >= most) return HR_TORCH_NO_BLOCK;
  if (request->bytes >= most && bytes - request->bytes >= a->rules.max_rounding_bytes) return HR_TORCH_NO_BLOCK;
  hr__torch_set_remove(&a->blocks, set, found);
  return found;
}

static hr_status segment_take(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  return a->rules.expandable ? hr__torch_expand(a, request, block) : hr__torch_segment_new(a, request, block);
}

/* From the driver, giving back what is cached where it has no more. */
static hr_status driver_take(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block) {
  if (collects(&a->rules)) hr__torch_collect(a);
  hr_status status = segment_take(a, request, block);
  if (status == HR_NO_FIT && hr__torch_release_oversize(a, request)) status = segment_take(a, request, block);
  if (status != HR_NO_FIT) return status;
  a->retries++;
  HR_TRY(hr__torch_release_all(a));
  return segment_take(a, request, block);
}

static bool is_cut(const hr_torch_allocator *a, const hr_torch_request *request, uint64_t left) {
  if (request->small || a->rules.expandable) return left >= BLOCK_BYTES;
  return request->bytes < a->rules.max_split_bytes && left > SMALL_BYTES;
}

/* Leaves `block` its first bytes; the rest becomes a free block behind it. */
static hr_status rest_cut(hr_torch_allocator *a, uint32_t block, uint64_t bytes) {
  hr_torch_block rest = a->blocks.items[block];
  rest.offset += bytes;
  rest.bytes -= bytes;
  rest.previous = block;
  rest.free = true;
  uint32_t cut = hr__torch_block_new(&a->blocks, &rest);
  if (cut == HR_TORCH_NO_BLOCK) return HR_NOMEM;
  hr_torch_block *items = a->blocks.items;
  if (rest.next != HR_TORCH_NO_BLOCK) items[rest.next].previous = cut;
  items[block].next = cut;
  items[block].bytes = bytes;
  hr__torch_set_add(&a->blocks, &a->free[rest.small], cut);
  return HR_OK;
}

hr_status hr__torch_take(hr_torch_allocator *a, uint64_t bytes, uint8_t stream, uint32_t *block) {
  *block = HR_TORCH_NO_BLOCK;
  if (bytes == 0) return HR_OK;
  if (bytes > ANY_BYTES) {
    a->failed_bytes = bytes;
    return HR_NO_FIT;
  }
  hr_torch_request request = {.bytes = hr__torch_round(&a->rules, bytes), .stream = stream};
  request.small = request.bytes <= SMALL_BYTES;
  request.segment = segment_bytes(&a->rules, request.bytes);
  uint32_t found = free_take(a, &request);
  if (found == HR_TORCH_NO_BLOCK) HR_TRY(driver_take(a, &request, &found));
  if (is_cut(a, &request, a->blocks.items[found].bytes - request.bytes)) HR_TRY(rest_cut(a, found, request.bytes));
  hr_torch_block *taken = &a->blocks.items[found];
  taken->free = false;
  taken->requested = bytes;
  a->now.allocated_bytes += taken->bytes;
  a->now.requested_bytes += bytes;
  if (a->now.allocated_bytes > a->peak.allocated_bytes) a->peak.allocated_bytes = a->now.allocated_bytes;
  if (a->now.requested_bytes > a->peak.requested_bytes) a->peak.requested_bytes = a->now.requested_bytes;
  *block = found;
  return HR_OK;
}

static bool joins(const hr_torch_allocator *a, uint32_t block, uint32_t neighbour) {
  if (neighbour == HR_TORCH_NO_BLOCK) return false;
  const hr_torch_block *items = a->blocks.items;
  return items[neighbour].free && items[neighbour].mapped == items[block].mapped;
}

void hr__torch_join(hr_torch_allocator *a, uint32_t block) {
  hr_torch_block *items = a->blocks.items, *joined = &items[block];
  hr_torch_set *set = joined->mapped ? &a->free[joined->small] : &a->unmapped[joined->small];
  uint32_t before = joined->previous, behind = joined->next;
  if (joins(a, block, before)) {
    hr__torch_set_remove(&a->blocks, set, before);
    joined->offset = items[before].offset;
    joined->bytes += items[before].bytes;
    joined->previous = items[before].previous;
    if (joined->previous != HR_TORCH_NO_BLOCK) items[joined->previous].next = block;
    hr__torch_block_drop(&a->blocks, before);
  }
  if (joins(a, block, behind)) {
    hr__torch_set_remove(&a->blocks, set, behind);
    joined->bytes += items[behind].bytes;
    joined->next = items[behind].next;
    if (joined->next != HR_TORCH_NO_BLOCK) items[joined->next].previous = block;
    hr__torch_block_drop(&a->blocks, behind);
  }
}

void hr__torch_give(hr_torch_allocator *a, uint32_t block) {
  if (block == HR_TORCH_NO_BLOCK) return;
  hr_torch_block *given = &a->blocks.items[block];
  assert(!given->free && given->mapped);
  a->now.allocated_bytes -= given->bytes;
  a->now.requested_bytes -= given->requested;
  given->free = true;
  hr__torch_join(a, block);
  given->aged = a->searches[given->small];
  hr__torch_set_add(&a->blocks, &a->free[given->small], block);
}

hr_status hr__torch_empty_cache(hr_torch_allocator *a) {
  return hr__torch_release_all(a);
}

uint64_t hr__torch_block_bytes(const hr_torch_allocator *a, uint32_t block) {
  return block == HR_TORCH_NO_BLOCK ? 0 : a->blocks.items[block].bytes;
}
