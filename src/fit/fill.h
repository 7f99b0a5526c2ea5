/* fill: the sketch of a placement with what is free of each tier filled.
 *
 * Of the kind that may stay in part, what is free on the device is filled, and what is then too much taken off again;
 * so is what is free on the host, with a kind that goes to the disk.
 */
#ifndef HR_FIT_FILL_H
#define HR_FIT_FILL_H

#include "fit/bytes.h"
#include "fit/placement.h"

/* Bytes that stay further up than their kind goes: of the kind that may be on the device in part, and of the one on the
 * disk that moves most on the host. */
typedef struct hr_stays {
  uint64_t device_bytes, host_bytes;
} hr_stays;

/* Whether the device has room for a sketch, as far as it is filled. */
static inline bool hr__device_fits(const hr_choosing *s, const hr_candidate *c) {
  return hr__candidate_peak(c) <= s->fill_bytes;
}

static inline bool hr__choosing_judges(const hr_choosing *s) {
  return hr__effort_judges(s->open->effort);
}

hr_choices hr__placement_choices(const hr_choosing *s, const hr_placement *it, hr_stays up, bool few_tiles);
hr_status hr__placement_sketch(hr_choosing *s, const hr_placement *it, hr_stays up, bool few_tiles, hr_candidate *c,
                               hr_error *err);
/* Fills the device, then the host, for a sketch that fits the device. *c becomes the fastest sketch that fits. */
hr_status hr__tiers_fill(hr_choosing *s, const hr_placement *it, bool few_tiles, hr_stays *up, hr_candidate *c,
                         hr_error *err);
/* Takes over a sketch (hr__candidate_offer). A layout that misses a budget takes off what it is over of what stays
 * further up. That costs less than more effort for the layout, which the last one gets. */
hr_status hr__placement_offer(hr_choosing *s, const hr_placement *it, hr_stays up, hr_candidate *c, hr_error *err);

#endif
