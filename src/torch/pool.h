/* Inside of the simulated allocator (allocator.h): segments, and how they come and go. */
#ifndef HR_TORCH_POOL_H
#define HR_TORCH_POOL_H

#include "torch/allocator.h"

#define HR_TORCH_MIB (UINT64_C(1) << 20)

/* One request on its way. */
typedef struct hr_torch_request {
  uint64_t bytes;   /* rounded */
  uint64_t segment; /* what the driver would be asked for */
  uint8_t stream;
  bool small;
} hr_torch_request;

/* Whether so many more bytes may be reserved; remembers those that may not. */
bool hr__torch_room(hr_torch_allocator *a, uint64_t bytes);
void hr__torch_reserve(hr_torch_allocator *a, uint64_t bytes);
/* Joins a block that is in no set with its free neighbours that are as it is (mapped or not), which leave their sets.
 */
void hr__torch_join(hr_torch_allocator *a, uint32_t block);

/* segments.c: a range of new addresses as a block of no set, without memory behind it (HR_NOMEM). */
hr_status hr__torch_range_new(hr_torch_allocator *a, const hr_torch_request *request, uint64_t bytes, uint32_t *block);
/* segments.c: a new segment as a block of no set (HR_NO_FIT, HR_NOMEM as hr__torch_take), and the three ways in which
 * cached ones go back: old ones above the threshold; oversize ones, just enough (false: not enough); all that are
 * wholly free. */
hr_status hr__torch_segment_new(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block);
void hr__torch_collect(hr_torch_allocator *a);
bool hr__torch_release_oversize(hr_torch_allocator *a, const hr_torch_request *request);
hr_status hr__torch_release_all(hr_torch_allocator *a);

/* expandable.c: the same of segments that grow. */
hr_status hr__torch_expand(hr_torch_allocator *a, const hr_torch_request *request, uint32_t *block);
hr_status hr__torch_unmap(hr_torch_allocator *a, uint32_t block);
/* How far a free block could grow in place: by its own bytes and those behind it that have no memory yet. */
uint64_t hr__torch_reach(const hr_torch_allocator *a, uint32_t block);

#endif
