/* Where the driver puts segments: of two free blocks of one size PyTorch takes the one at the lower address.
 *
 * The driver maps address space in chunks of whole 32 MiB and puts every cudaMalloc into the newest chunk that has a
 * hole large enough, in there into the lowest. Where there is none a new chunk comes, and what it has over is a hole.
 * Nothing lies in two chunks. A chunk of which everything has been freed goes. A new one lies at the upper end of the
 * highest gap between others that has 32 MiB more than it needs, for its alignment, or below all.
 * Found with cudaMalloc alone and in PyTorch on an H200 (driver 580), where it was so in every process
 * (docs/torch.md).
 *
 * At first the driver has two chunks with 414 and 72 MiB of its own in them, and holes of 2 and 24 MiB; when the first
 * kernel runs it gives the 414 back, and makes a chunk of 6 MiB. What it takes later for code that it loads is known of
 * few libraries (replay.c).
 */
#ifndef HR_TORCH_ADDRESSES_H
#define HR_TORCH_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* All in units of 2 MiB, by which the driver maps memory. */
typedef struct hr_torch_hole {
  uint32_t begin, units;
  uint32_t chunk; /* its number */
} hr_torch_hole;

typedef struct hr_torch_chunk {
  uint32_t begin, units;
  uint32_t taken;  /* units of it */
  uint32_t number; /* as they came */
} hr_torch_chunk;

typedef struct hr_torch_addresses {
  hr_torch_hole *holes; /* those of the newest chunk first, in each rising */
  size_t n_holes, holes_capacity;
  hr_torch_chunk *chunks; /* falling */
  size_t n_chunks, chunks_capacity;
  uint32_t chunks_made;
  size_t taken; /* segments that are there */
} hr_torch_addresses;

void hr__torch_addresses_init(hr_torch_addresses *addresses);
void hr__torch_addresses_fini(hr_torch_addresses *addresses);
/* The first kernel has run. HR_NOMEM only. */
hr_status hr__torch_addresses_kernel(hr_torch_addresses *addresses);
/* A place for a segment. HR_NOMEM only. */
hr_status hr__torch_address_take(hr_torch_addresses *addresses, uint64_t bytes, uint32_t *place);
void hr__torch_address_give(hr_torch_addresses *addresses, uint32_t place, uint64_t bytes);

#endif
