/* Packing: intervals and sizes in, offsets and one total out. No tensors, no devices. */
#ifndef HR_PLAN_PACK_H
#define HR_PLAN_PACK_H

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_interval {
  uint32_t first, last; /* alive at first, first+1, ..., last */
  size_t bytes;         /* > 0, already rounded to the alignment */
} hr_interval;

typedef struct hr_packing {
  size_t total_bytes;
  size_t lower_bound_bytes; /* largest sum of live bytes at any time */
} hr_packing;

/* Lays out `count` intervals so that no two that are alive together overlap; writes offsets[count]. Deterministic: the
 * effort is bounded by `effort` (a count of placements, not by the clock). Stops as soon as the bound is met. */
hr_status hr__pack(const hr_interval *intervals, size_t count, uint64_t effort, size_t *offsets, hr_packing *result,
                   hr_error *err);

/* The same with crumbs (below about 0.1 % of the bound each) in a layout of their own above all others. In a large set
 * they lie in the way of whatever is to fit exactly, and they cost little apart: the total is their own bound above
 * that of the others at best. For sets that hr__pack, which has passed their sizes, leaves too large. */
hr_status hr__pack_apart(const hr_interval *intervals, size_t count, uint64_t effort, size_t *offsets,
                         hr_packing *result, hr_error *err);

#endif
