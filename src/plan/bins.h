/* Placing many intervals: a layout that is looked at by time.
 *
 * Of a large set few intervals are alive at one time, and a place among all of them is found by walking those alone.
 * The time axis is cut into bins, and each bin has what was placed in it, by rising offset. An interval within one bin
 * looks at that bin, one over a few bins at what they hold together, a longer one at the whole layout. All three see
 * the same neighbours in the same order of offsets, so the result is that of hr__layout_place to the byte.
 */
#ifndef HR_PLAN_BINS_H
#define HR_PLAN_BINS_H

#include "plan/layout.h"

typedef struct hr_bins {
  const hr_interval *items;
  size_t count; /* of them */
  hr_layout layout;
  size_t n_sorted; /* of layout.placed: those behind are in no order, until the whole is looked at */
  uint32_t begin, width;
  size_t n_bins;
  hr_placed *placed; /* of bin b: placed[first[b] .. first[b] + taken[b]) */
  size_t *first;     /* n_bins + 1: room for all items that meet a bin */
  size_t *taken;
  hr_placed *near; /* room to put together what some bins hold */
} hr_bins;

/* `ceiling_bytes`: as of hr_layout. Storage is the arena's. */
hr_status hr__bins_init(hr_bins *bins, const hr_interval *items, size_t count, size_t ceiling_bytes, hr_arena *arena,
                        hr_error *err);
void hr__bins_clear(hr_bins *bins);
void hr__bins_place(hr_bins *bins, uint32_t item, hr_gap_rule rule, bool hang);

#endif
