/* PyTorch's caching allocator for CUDA, simulated: which block serves a request, what is reserved of the driver, when
 * it gives memory back, when it runs out.
 *
 * A request is rounded up (512 bytes) and goes to the small pool (at most 1 MiB) or the large one. It takes the
 * smallest free block of its stream that is large enough, of equal ones that at the lowest address; else a new segment
 * comes from the driver: 2 MiB for the small pool, 20 MiB for requests below 10 MiB, whole 2 MiB above. What is left of
 * a block is cut off (at least 512 bytes in the small pool, more than 1 MiB in the large one), the request gets the low
 * part. A freed block joins its free neighbours of the same segment. Segments go back to the driver only by
 * empty_cache, by garbage collection, and when the driver has no more, and only whole ones. What counts as *allocated*
 * are blocks, as *requested* what was asked for, as *reserved* segments.
 *
 * The rules are those of PyTorch 2.1 to 2.15, one device, without CUDA graphs and private pools. The backend
 * cudaMallocAsync is another allocator and not simulated.
 */
#ifndef HR_TORCH_ALLOCATOR_H
#define HR_TORCH_ALLOCATOR_H

#include "base/status.h"
#include "torch/addresses.h"
#include "torch/blocks.h"

enum { HR_TORCH_ROUNDINGS = 16 };

/* As the driver puts them (addresses.h), or each above or below all that were there before. */
typedef enum hr_torch_order { HR_TORCH_BY_DRIVER, HR_TORCH_RISING, HR_TORCH_FALLING } hr_torch_order;

/* Settings of PYTORCH_ALLOC_CONF, the driver's habits, and the memory there is. */
typedef struct hr_torch_rules {
  uint64_t large_segment_bytes; /* large_segment_size_mb: 20 MiB */
  uint64_t max_split_bytes;     /* max_split_size_mb; UINT64_MAX: none */
  uint64_t max_rounding_bytes;  /* max_non_split_rounding_mb: 20 MiB */
  double collect_above;         /* garbage_collection_threshold, a share of the limit, with `fraction` only; 0: never */
  /* roundup_power2_divisions of sizes up to 2 MiB, 4 MiB, ... (a power of two, 0 and 1: none) */
  uint8_t divisions[HR_TORCH_ROUNDINGS];
  bool expandable;      /* expandable_segments */
  hr_torch_order order; /* of the addresses of new segments */
  /* (optional) where the first segments lie among these, by address: known of a run that was recorded. */
  const uint32_t *places;
  size_t n_places;
  uint64_t limit_bytes; /* what can be reserved; UINT64_MAX: any amount */
  bool fraction;        /* the limit is that of set_per_process_memory_fraction, not the driver's */
} hr_torch_rules;

/* As PyTorch comes, without a limit. */
void hr__torch_rules_init(hr_torch_rules *rules);

typedef struct hr_torch_use {
  uint64_t allocated_bytes, requested_bytes, reserved_bytes;
} hr_torch_use;

typedef struct hr_torch_allocator {
  hr_torch_rules rules;
  hr_torch_blocks blocks;
  hr_torch_addresses addresses; /* of segments, by the driver */
  hr_torch_set free[2];         /* large, small */
  hr_torch_set unmapped[2];     /* parts of expandable segments without memory, by address */
  uint64_t searches[2];         /* in each pool, where garbage is collected */
  uint32_t segments_made;       /* so far: the order of the next one */
  hr_torch_use now, peak;       /* each peak by itself */
  uint64_t failed_bytes;        /* of the last request that found no room: what the driver was asked for */
  size_t retries;               /* requests for which cached segments were given back first */
} hr_torch_allocator;

void hr__torch_allocator_init(hr_torch_allocator *allocator, const hr_torch_rules *rules);
void hr__torch_allocator_fini(hr_torch_allocator *allocator);

/* A block for `bytes`; HR_TORCH_NO_BLOCK for none of them. HR_NO_FIT: out of memory under the limit, without a message
 * and with what could be given back given back, as in PyTorch; HR_NOMEM: this process is. */
hr_status hr__torch_take(hr_torch_allocator *allocator, uint64_t bytes, uint8_t stream, uint32_t *block);
void hr__torch_give(hr_torch_allocator *allocator, uint32_t block); /* HR_TORCH_NO_BLOCK: nothing */
/* HR_NOMEM only. */
hr_status hr__torch_empty_cache(hr_torch_allocator *allocator);
uint64_t hr__torch_block_bytes(const hr_torch_allocator *allocator, uint32_t block); /* 0 of HR_TORCH_NO_BLOCK */

/* The driver takes so much address space for code. HR_NOMEM only. */
hr_status hr__torch_loaded(hr_torch_allocator *allocator, uint64_t bytes);

/* What a request becomes before it is looked for. */
uint64_t hr__torch_round(const hr_torch_rules *rules, uint64_t bytes);

#endif
