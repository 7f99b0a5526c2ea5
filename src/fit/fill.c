/* fill: see fill.h. */
#include "fit/fill.h"

#include <math.h>

#include "fit/constants.h"

hr_choices hr__placement_choices(const hr_choosing *s, const hr_placement *it, hr_stays up, bool few_tiles) {
  hr_choices choices = s->out->choices;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    if (!s->out->open[k] || it->tier[k] == HR_TIER_DEVICE) continue;
    choices.offload[k].tier = it->tier[k];
    choices.offload[k].resident_bytes = it->part == k ? up.device_bytes : 0;
    choices.offload[k].host_bytes = hr__placement_disk_kind(it) == k ? up.host_bytes : 0;
  }
  choices.largest_stay = it->hidden;
  choices.update_on_host = it->update_on_host;
  choices.few_tiles |= few_tiles;
  return choices;
}

hr_status hr__placement_sketch(hr_choosing *s, const hr_placement *it, hr_stays up, bool few_tiles, hr_candidate *c,
                               hr_error *err) {
  hr_choices choices = hr__placement_choices(s, it, up, few_tiles);
  return hr__keep_alike(s, &choices, it->way, c, err);
}

/* Fills what is free of a tier with more of the kind that may stay there. *c, which fits the tier, becomes the fastest
 * sketch that does. */
static hr_status tier_fill(hr_choosing *s, const hr_placement *it, hr_tier tier, bool few_tiles, hr_stays *up,
                           hr_candidate *c, hr_error *err) {
  bool device = tier == HR_TIER_DEVICE;
  uint64_t budget = device ? s->fill_bytes : s->open->host_bytes, from = device ? up->device_bytes : up->host_bytes;
  int kind = device ? it->part : hr__placement_disk_kind(it);
  uint64_t all = hr__kind_bytes(s->prospects, &s->prospects->ways[it->way], kind), share = all / HR_SHARES;
  uint64_t step = (few_tiles ? HR_LOOKED_SHARES * share : share) + 1;
  if (!device) step = share / (few_tiles ? 2 : HR_HOST_STEPS) + 1;
  if (kind == HR_OFFLOAD_ACTIVATIONS) all = UINT64_MAX; /* what is known of them is what is there at once */
  uint64_t to = hr__bytes_least(hr__bytes_add(from, budget - hr__candidate_bytes(c, tier)), all);
  if (few_tiles && !device) to = hr__bytes_less(to, share / 2); /* what passes through the host takes more of it then */
  const int tries = s->coarse ? HR_FILL_TRIES : HR_FILL_TRIES_SMALL;
  for (int i = 0; i < tries && from < all && to >= hr__bytes_add(from, step); i++) {
    hr_candidate next;
    hr_stays more = *up;
    *(device ? &more.device_bytes : &more.host_bytes) = to;
    HR_TRY(hr__placement_sketch(s, it, more, few_tiles, &next, err));
    uint64_t peak = hr__candidate_bytes(&next, tier);
    bool fits = peak <= budget;
    if (fits && hr__device_fits(s, &next) && hr__candidate_seconds(&next) <= hr__candidate_seconds(c)) {
      bool little = few_tiles && hr__candidate_seconds(&next) > (1 - hr_looks_error) * hr__candidate_seconds(c);
      uint64_t grown = hr__bytes_less(peak, hr__candidate_bytes(c, tier));
      little |= grown == 0;                                              /* nothing was left to come up */
      double each = grown > 0 ? (double)(to - from) / (double)grown : 1; /* some are not there all the time, or twice */
      hr__candidate_fini(c);
      *c = next;
      *up = more;
      from = to;
      to = hr__bytes_least(hr__bytes_add(to, (uint64_t)fmin((double)(budget - peak) * each, 1e18)), all);
      if (little) return HR_OK;
      continue;
    }
    hr__candidate_fini(&next);
    if (fits) return HR_OK;
    uint64_t off = peak - budget + share + 1; /* tensors are moved whole */
    to = hr__bytes_less(to, off);
  }
  return HR_OK;
}

hr_status hr__tiers_fill(hr_choosing *s, const hr_placement *it, bool few_tiles, hr_stays *up, hr_candidate *c,
                         hr_error *err) {
  if (!hr__device_fits(s, c)) return HR_OK;
  if (it->part >= 0) HR_TRY(tier_fill(s, it, HR_TIER_DEVICE, few_tiles, up, c, err));
  if (hr__placement_disk_kind(it) < 0 || hr__candidate_bytes(c, HR_TIER_HOST) > s->open->host_bytes) return HR_OK;
  return tier_fill(s, it, HR_TIER_HOST, few_tiles, up, c, err);
}

/* Takes off what is over the budgets of what stays further up; false: nothing of that is there. Tensors are moved
 * whole, and others than before may stay: each time it takes off more. What leaves the device takes room on the host.
 */
static bool stays_less(const hr_choosing *s, const hr_placement *it, const uint64_t over[HR_TIER_COUNT], int times,
                       hr_stays *up) {
  uint64_t device = over[HR_TIER_DEVICE], host = over[HR_TIER_HOST];
  bool part = it->part >= 0 && up->device_bytes > 0;
  if (!(part && device > 0) && !(up->host_bytes > 0 && host > 0)) return false;
  const uint64_t more = (uint64_t)times;
  if (part && device > 0) device += more * (s->whole_bytes[it->part] / (2 * HR_SHARES));
  if (up->host_bytes > 0 && host > 0) host += more * (s->whole_bytes[hr__placement_disk_kind(it)] / (2 * HR_SHARES));
  bool down = part && it->tier[it->part] == HR_TIER_HOST;
  up->device_bytes = hr__bytes_less(up->device_bytes, device);
  up->host_bytes = hr__bytes_less(up->host_bytes, host + (down ? device : 0));
  return true;
}

hr_status hr__placement_offer(hr_choosing *s, const hr_placement *it, hr_stays up, hr_candidate *c, hr_error *err) {
  for (int i = 0;; i++) {
    uint64_t over[HR_TIER_COUNT];
    bool last = i == HR_FILL_TRIES;
    hr__candidate_over(s->open, c, over);
    if (!hr__candidate_fits(s->open, c) && !last &&
        stays_less(s, it, over, i, &up)) { /* other tensors may be the larger ones */
      hr__candidate_fini(c);
    } else {
      s->draft = ((it->part >= 0 && up.device_bytes > 0) || up.host_bytes > 0) && !last;
      hr_status status = hr__candidate_offer(s, c, over, err);
      s->draft = false;
      if (status != HR_OK || last || !stays_less(s, it, over, i, &up)) return status;
    }
    HR_TRY(hr__placement_sketch(s, it, up, hr__choosing_judges(s), c, err));
  }
}
