/* look: see look.h. */
#include "fit/look.h"

#include <math.h>
#include <stdlib.h>

#include "fit/constants.h"
#include "fit/sketches.h"

/* The least that a look took of its bound, of those that keep blocks alike, with the same kind in part on the device,
 * the given one on the disk (-1: none), and the update and activations in the same place. */
static double *look_ratio(hr_looking *l, const hr_placement *it, int disk) {
  bool moved = it->tier[HR_OFFLOAD_ACTIVATIONS] != HR_TIER_DEVICE;
  return &l->ratio[it->way][1 + it->part][1 + disk][it->update_on_host][moved];
}

static hr_status look_add(hr_looking *l, const hr_placement *it, hr_stays up, double seconds, hr_error *err) {
  if (hr__arena_grow(&l->s->arena, (void **)&l->list, &l->capacity, l->count, sizeof *l->list) != 0)
    return hr__nomem(err);
  l->list[l->count] = (hr_look){*it, up, seconds, (int)l->count};
  l->count++;
  double *ratio = look_ratio(l, it, hr__placement_disk_kind(it)), own = seconds / it->seconds;
  if (*ratio == 0 || own < *ratio) *ratio = own;
  bool better = l->best == 0 || seconds < l->best;
  l->idle = better ? 0 : l->idle + 1;
  if (better) l->best = seconds;
  return HR_OK;
}

static int moved_set(const hr_placement *it) {
  int set = 0;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    set |= (it->tier[k] != HR_TIER_DEVICE) << k;
  return set;
}

/* Bytes on the device with all that it moves moved whole; 0: not known. Tiles of an update on the device take more than
 * one on the host. */
static uint64_t peak_known(const hr_looking *l, const hr_placement *it, int way) {
  uint64_t own = l->peak[it->update_on_host][moved_set(it)][way];
  return own > 0 ? own : l->peak[0][moved_set(it)][way];
}

static hr_status mix_look(hr_looking *l, const hr_placement *it, hr_error *err) {
  hr_choosing *s = l->s;
  hr_choices base = hr__placement_choices(s, it, (hr_stays){0}, s->coarse);
  const hr_graph *before = s->best.graph;
  double seconds = 0;
  HR_TRY(hr__keep_mixes(s, &base, l->peak[it->update_on_host][moved_set(it)], hr__choosing_judges(s) ? NULL : &seconds,
                        err));
  if (s->best.graph != before) seconds = hr__candidate_seconds(&s->best);
  return seconds > 0 ? look_add(l, it, (hr_stays){0}, seconds, err) : HR_OK;
}

/* What stays on the host in the first sketch of a large graph: as much as its bound has room for, but for what others
 * with the same kind on the disk had less than theirs. */
static uint64_t host_guess(const hr_looking *l, const hr_placement *it) {
  int kind = hr__placement_disk_kind(it);
  if (!l->s->coarse || kind < 0 || l->host_less[kind] == 0) return 0;
  const hr_prospects *p = l->s->prospects;
  uint64_t all = hr__kind_bytes(p, &p->ways[it->way], kind);
  return hr__bytes_least(hr__bytes_less(it->host_bytes, l->host_less[kind]), all);
}

static void host_learn(hr_looking *l, const hr_placement *it, hr_stays up, const hr_candidate *c) {
  int kind = hr__placement_disk_kind(it);
  uint64_t held = hr__candidate_bytes(c, HR_TIER_HOST), budget = l->s->open->host_bytes;
  if (kind < 0 || up.host_bytes == 0 || held > budget) return;
  uint64_t room = hr__bytes_add(up.host_bytes, budget - held);
  l->host_less[kind] = hr__bytes_most(hr__bytes_less(it->host_bytes, room), 1);
}

/* What stays of a kind once `over` bytes are taken off: tensors are moved whole. */
static uint64_t share_off(const hr_choosing *s, int kind, uint64_t bytes, uint64_t over) {
  return bytes == 0 ? 0 : hr__bytes_less(bytes, over + s->whole_bytes[kind] / HR_SHARES + 1);
}

/* The first sketch: with as much staying on the device as there is room for, by its bound or by the sketch of one that
 * moves the same, and on the host; with nothing where that does not come to an end. */
static hr_status look_first(hr_looking *l, const hr_placement *it, hr_stays *up, hr_candidate *c, hr_error *err) {
  hr_choosing *s = l->s;
  uint64_t known = peak_known(l, it, it->way);
  if (it->part >= 0) up->device_bytes = known > 0 ? hr__bytes_less(s->fill_bytes, known) : it->room_bytes;
  up->host_bytes = host_guess(l, it);
  for (int i = 0; i < HR_FILL_TRIES && (up->device_bytes > 0 || up->host_bytes > 0); i++) {
    HR_TRY(hr__placement_sketch(s, it, *up, s->coarse, c, err));
    uint64_t over = hr__bytes_less(hr__candidate_peak(c), s->fill_bytes);
    uint64_t host_over = hr__bytes_less(hr__candidate_bytes(c, HR_TIER_HOST), s->open->host_bytes);
    if (over == 0 && (host_over == 0 || up->host_bytes == 0)) return HR_OK;
    if (over > 0) up->device_bytes = share_off(s, it->part, up->device_bytes, over);
    if (host_over > 0) up->host_bytes = share_off(s, hr__placement_disk_kind(it), up->host_bytes, host_over);
    hr__candidate_fini(c);
  }
  *up = (hr_stays){0};
  HR_TRY(hr__placement_sketch(s, it, *up, s->coarse, c, err));
  l->peak[it->update_on_host][moved_set(it)][it->way] = hr__candidate_peak(c);
  return HR_OK;
}

/* A recipe may close the kind that stays in part to where it goes whole: that is taken where it is faster, which it
 * may be when copies cost next to nothing. */
static hr_status whole_compare(hr_choosing *s, const hr_placement *it, hr_stays *up, hr_candidate *c, hr_error *err) {
  hr_candidate whole;
  if (it->whole * (1 - hr_bounds_error) >= hr__candidate_seconds(c)) return HR_OK;
  HR_TRY(hr__placement_sketch(s, it, (hr_stays){0}, false, &whole, err));
  if (hr__candidate_seconds(&whole) >= hr__candidate_seconds(c) || !hr__device_fits(s, &whole) ||
      !hr__candidate_fits(s->open, &whole)) {
    hr__candidate_fini(&whole);
    return HR_OK;
  }
  hr__candidate_fini(c);
  *c = whole;
  *up = (hr_stays){0};
  return HR_OK;
}

static hr_status placement_look(hr_looking *l, const hr_placement *it, hr_error *err) {
  hr_choosing *s = l->s;
  if (it->way == HR_WAY_MIX) return mix_look(l, it, err);
  hr_candidate c;
  hr_stays up = {0};
  HR_TRY(look_first(l, it, &up, &c, err));
  hr_status status = hr__tiers_fill(s, it, s->coarse, &up, &c, err);
  if (status == HR_OK && !s->coarse && up.device_bytes > 0) status = whole_compare(s, it, &up, &c, err);
  double seconds = hr__candidate_seconds(&c);
  bool fits = hr__device_fits(s, &c) && hr__candidate_fits(s->open, &c);
  l->nodes += c.sketch->n_nodes;
  if (fits) host_learn(l, it, up, &c);
  if (status == HR_OK && fits && hr__choosing_judges(s)) {
    const hr_graph *before = s->best.graph;
    status = hr__placement_offer(s, it, up, &c, err);
    fits = s->best.graph != before || hr__candidate_slow(s, seconds);
  }
  hr__candidate_fini(&c);
  HR_TRY(status);
  return fits ? look_add(l, it, up, seconds, err) : HR_OK;
}

bool hr__look_late(const hr_looking *l, double bound) {
  const hr_choosing *s = l->s;
  if (hr__candidate_slow(s, bound * (1 - hr_bounds_error))) return true;
  return l->best > 0 && bound * (hr__choosing_judges(s) ? 1 + hr_judged_error : 1 - hr_bounds_error) >= l->best;
}

/* Whether so much was looked at that only what is likely to be better still is. */
static bool looks_many(const hr_looking *l) {
  return l->nodes > (l->s->coarse ? HR_LOOKS_NODES : HR_LOOKS_NODES_SMALL);
}

/* Whether it would have to come nearer to its bound than any like it, where their bounds are good ones; with a kind on
 * the disk, than those without if there is no such one: the disk makes nothing faster. That is enough to know of large
 * graphs. */
static bool look_unlikely(hr_looking *l, const hr_placement *it) {
  double ratio = *look_ratio(l, it, hr__placement_disk_kind(it));
  if (ratio == 0) ratio = *look_ratio(l, it, -1);
  bool known = looks_many(l) && ratio > 0 && ratio < 1 + hr_good_bound;
  return known && it->seconds * ratio * (1 - hr_looks_error) >= l->best;
}

/* Whether the device had no room for a way even with as much or more moved, and the update on the host if this one's
 * is. */
static bool way_large(const hr_looking *l, const hr_placement *it, int way) {
  int own = moved_set(it);
  for (int host = it->update_on_host; host < 2; host++)
    for (int set = 0; set < HR_MOVED_SETS; set++)
      if (l->peak[host][set][way] > l->s->fill_bytes && (own & ~set) == 0) return true;
  return false;
}

/* The same of a placement, which a mix of ways is where every one of them is. */
static bool look_large(const hr_looking *l, const hr_placement *it) {
  if (it->way != HR_WAY_MIX) return way_large(l, it, it->way);
  for (int way = 0; way < l->s->n_alike; way++)
    if (!way_large(l, it, way)) return false;
  return true;
}

/* Whether another placement is the same for sure: there is room for all of the kind that is kept in part, or for all
 * that a mix would drop. */
static bool look_idle(const hr_looking *l, const hr_placement *it) {
  const hr_prospects *p = l->s->prospects;
  bool mix = it->way == HR_WAY_MIX;
  uint64_t peak = peak_known(l, it, mix ? HR_KEEP_ALL : it->way);
  if (peak == 0 || (!mix && it->part < 0)) return false;
  uint64_t more = mix ? 0 : hr__kind_bytes(p, &p->ways[it->way], it->part);
  return hr__bytes_add(peak, more) <= l->s->fill_bytes;
}

/* Offloaded inputs of blocks as what they are: inputs kept, on the host. */
static hr_placement placement_plain(const hr_placement *it) {
  hr_placement plain = *it;
  if (it->way == HR_KEEP_OFFLOADED) plain.way = HR_KEEP_INPUT, plain.tier[HR_OFFLOAD_ACTIVATIONS] = HR_TIER_HOST;
  return plain;
}

/* Whether one that fits is the same but for kinds that lie further up: below the device, since nothing is faster
 * further down; or on the device with all of the kind of which the other keeps a part there. */
static bool look_beaten(const hr_looking *l, const hr_placement *placement) {
  const hr_placement own = placement_plain(placement), *it = &own;
  for (size_t i = 0; i < l->count; i++) {
    const hr_placement plain = placement_plain(&l->list[i].it), *other = &plain;
    bool whole = it->part >= 0 && other->tier[it->part] == HR_TIER_DEVICE;
    bool host = other->update_on_host == it->update_on_host || (whole && it->part == HR_OFFLOAD_OPTIMIZER);
    bool beats = other->way == it->way && host && (whole || other->part == it->part);
    for (int k = 0; beats && k < HR_OFFLOAD_KINDS; k++) {
      if (whole && k == it->part) continue;
      beats = (other->tier[k] == HR_TIER_DEVICE) == (it->tier[k] == HR_TIER_DEVICE) && other->tier[k] <= it->tier[k];
    }
    if (beats) return true;
  }
  return false;
}

/* *ratio: of the seconds of a step to those with few tiles, as far as that shows. */
static hr_status look_plan(hr_choosing *s, const hr_look *found, double *ratio, hr_error *err) {
  const hr_placement *it = &found->it;
  /* a small graph is filled from the beginning: then its plan does not depend on what else was looked at */
  hr_stays up = s->coarse ? found->up : (hr_stays){0};
  hr_choices base = hr__placement_choices(s, it, up, false);
  if (it->way == HR_WAY_MIX) return hr__keep_mixes(s, &base, NULL, NULL, err);
  hr_candidate c;
  HR_TRY(hr__placement_sketch(s, it, up, false, &c, err));
  *ratio = hr__candidate_seconds(&c) / found->seconds;
  if (!hr__device_fits(s, &c) ||
      !hr__candidate_fits(s->open, &c)) { /* what few tiles had room for: from the beginning */
    hr__candidate_fini(&c);
    up = (hr_stays){0};
    HR_TRY(hr__placement_sketch(s, it, up, false, &c, err));
  }
  bool empty = up.device_bytes == 0 && up.host_bytes == 0; /* then filling has begun with the kind as a whole */
  hr_status status = hr__tiers_fill(s, it, false, &up, &c, err);
  if (status == HR_OK && up.device_bytes > 0 && !empty) status = whole_compare(s, it, &up, &c, err);
  if (status == HR_OK) return hr__placement_offer(s, it, up, &c, err);
  hr__candidate_fini(&c);
  return status;
}

/* Fastest first; of equal ones that which moves fewer kinds, then as in the list of placements. */
static int look_compare(const void *a, const void *b) {
  const hr_look *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  int moved = __builtin_popcount((unsigned)moved_set(&x->it)) - __builtin_popcount((unsigned)moved_set(&y->it));
  return moved != 0 ? moved : x->number - y->number;
}

hr_status hr__looks_plan(hr_looking *l, hr_error *err) {
  hr_choosing *s = l->s;
  double ratio = 1 - hr_tiles_error;
  if (l->count > 0) qsort(l->list, l->count, sizeof *l->list, look_compare);
  for (size_t i = 0; i < l->count; i++) {
    double error = hr_looks_error + fabs(1 - ratio) / 10; /* the more tiles matter, the less few of them tell */
    if (hr__candidate_slow(s, l->list[i].seconds * ratio * (1 - error))) break;
    if (s->best.graph && i > 0 && i * s->best.graph->n_nodes > HR_PLANS_NODES) break;
    double own = ratio;
    HR_TRY(look_plan(s, &l->list[i], &own, err));
    if (i == 0 && s->coarse) ratio = own;
  }
  return HR_OK;
}

/* Whether placements with lower bounds have been looked at for long enough: sketches of large graphs take their time.
 */
static bool looks_enough(const hr_looking *l, double bound) {
  double limit = l->s->limit_seconds;
  if (hr__choosing_judges(l->s)) return l->best > 0 && l->looks >= HR_LOOKS_JUDGED;
  if (limit > 0 && looks_many(l) && bound * (1 + hr_near_enough) >= limit) return true;
  if (l->best == 0 || l->looks < HR_LOOKS_LEAST || !looks_many(l)) return false;
  int idle = bound * hr_far < l->best ? 2 * HR_LOOKS_IDLE : HR_LOOKS_IDLE;
  return l->nodes > HR_LOOKS_NODES_MOST || l->idle >= idle || bound * (1 + hr_near_enough) >= l->best;
}

static void ratio_lower(double *least, double ratio) {
  if (ratio > 0 && (*least == 0 || ratio < *least)) *least = ratio;
}

/* Seconds that a placement is likely to take: its bound times the least that others with the same kind in part on the
 * device, the update in the same place and the same kind on the disk took of theirs; where there are none, those with
 * nothing on the disk. What waited for the disk tells nothing of one that does without. */
static double look_expected(const hr_looking *l, const hr_placement *it) {
  double alike = 0, others = 0;
  const int own = 1 + hr__placement_disk_kind(it), none = 0;
  for (int way = 0; way <= HR_WAY_MIX; way++)
    for (int moved = 0; moved < 2; moved++) {
      ratio_lower(&alike, l->ratio[way][1 + it->part][own][it->update_on_host][moved]);
      ratio_lower(&others, l->ratio[way][1 + it->part][none][it->update_on_host][moved]);
    }
  return it->seconds * fmax(alike > 0 ? alike : others, 1);
}

/* The placement to look at next, of those not seen yet: bounds are weak where several kinds share the host, and would
 * keep what is better from its turn. p->count: none is worth a look. */
static size_t look_next(const hr_looking *l, const bool *seen) {
  const hr_prospects *p = l->s->prospects;
  size_t next = p->count;
  double least = 0;
  for (size_t i = 0; i < p->count && !hr__look_late(l, p->list[i].seconds); i++) {
    if (seen[i]) continue;
    if (next == p->count && looks_enough(l, p->list[i].seconds)) break; /* nor are those with larger bounds */
    double expected = look_expected(l, &p->list[i]);
    if (next < p->count && expected >= least) continue;
    next = i;
    least = expected;
  }
  return next;
}

hr_status hr__placements_look(hr_looking *l, int most, hr_error *err) {
  hr_choosing *s = l->s;
  const hr_prospects *p = s->prospects;
  bool *seen = hr__arena_array(&s->arena, p->count + 1, sizeof *seen);
  if (!seen) return hr__nomem(err);
  for (size_t i; most > 0 && (i = look_next(l, seen)) < p->count;) {
    const hr_placement *it = &p->list[i];
    seen[i] = true;
    if (looks_enough(l, it->seconds)) continue;
    if (hr__choosing_judges(s) && l->best > 0 && it->way == HR_WAY_MIX) continue; /* mixes take many sketches */
    if (look_large(l, it) || look_idle(l, it) || look_beaten(l, it) || look_unlikely(l, it)) continue;
    size_t found = l->count;
    l->looks++;
    most--;
    HR_TRY(placement_look(l, it, err));
    if (s->coarse && l->count == found) l->idle++; /* small graphs have the time to pass over what has no room */
  }
  return HR_OK;
}
