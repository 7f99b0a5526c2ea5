/* Offload: which kinds leave the device, and how far, together with what is kept of the blocks and where the update is.
 *
 * Placements (fit/placement.h) are looked at in rising order of their bounds until these pass what was found, each by
 * sketches with few tiles. Of the kind that may stay in part, what is free on the device is filled, and what is then
 * too much taken off again; so is what is free on the host, with a kind that goes to the disk. For a plan to be run,
 * those that come close to the best of them are then planned as they would be run, the most promising first.
 */
#include <limits.h>
#include <stdlib.h>

#include "fit/placement.h"

/* Nodes of sketches that are looked at in any case, and at most. */
enum { LOOKS_NODES = 20000, LOOKS_NODES_MOST = 400000, PLANS_NODES = 200000 };
/* Beyond those in any case: looks without a better one after which there are no more. */
enum { LOOKS_IDLE = 12 };
enum { TRIES = 3, SHARES = 256, LOOKS_LEAST = 8, LOOKS_JUDGED = 3 };

/* What bounds promise beyond that much is looked for longest. */
static const double near_enough = 0.03;
/* Figures put together from other sketches are right but for that much, */
static const double bounds_error = 0.01;
/* differences between sketches with few tiles for that much, */
static const double looks_error = 0.01;
/* and few tiles take longer than many by at most that much. */
static const double tiles_error = 0.10;
/* A plan that is only to be judged may be slower than the best by that much. */
static const double judged_error = 0.10;

static uint64_t add_capped(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool device_fits(const hr_choosing *s, const hr_candidate *c) {
  return hr__candidate_peak(c) <= s->fill_bytes;
}

static bool is_judged(const hr_choosing *s) {
  return hr__effort_judges(s->open->effort);
}

/* Bytes that stay further up than their kind goes: of the kind that may be on the device in part, and of the one on the
 * disk that moves most on the host. */
typedef struct stays {
  uint64_t device_bytes, host_bytes;
} stays;

static hr_choices placement_choices(const hr_choosing *s, const hr_placement *it, stays up, bool few_tiles) {
  hr_choices choices = s->out->choices;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    if (!s->out->open[k] || it->tier[k] == HR_TIER_DEVICE) continue;
    choices.offload[k].tier = it->tier[k];
    choices.offload[k].resident_bytes = it->part == k ? up.device_bytes : 0;
    choices.offload[k].host_bytes = hr__placement_disk_kind(it) == k ? up.host_bytes : 0;
  }
  choices.update_on_host = it->update_on_host;
  choices.few_tiles |= few_tiles;
  return choices;
}

static hr_status placement_sketch(hr_choosing *s, const hr_placement *it, stays up, bool few_tiles, hr_candidate *c,
                                  hr_error *err) {
  hr_choices choices = placement_choices(s, it, up, few_tiles);
  return hr__keep_alike(s, &choices, it->way, c, err);
}

/* Fills what is free of a tier with more of the kind that may stay there. *c, which fits the tier, becomes the fastest
 * sketch that does. */
static hr_status tier_fill(hr_choosing *s, const hr_placement *it, hr_tier tier, bool few_tiles, stays *up,
                           hr_candidate *c, hr_error *err) {
  bool device = tier == HR_TIER_DEVICE;
  uint64_t budget = device ? s->fill_bytes : s->open->host_bytes, from = device ? up->device_bytes : up->host_bytes;
  int kind = device ? it->part : hr__placement_disk_kind(it);
  uint64_t step = s->whole_bytes[kind] / SHARES + 1, all = UINT64_MAX;
  if (kind != HR_OFFLOAD_ACTIVATIONS) all = hr__kind_bytes(s->prospects, &s->prospects->ways[it->way], kind);
  uint64_t to = add_capped(from, budget - c->plan->tiers[tier].peak_bytes);
  for (int i = 0; i < TRIES && from < all && to >= add_capped(from, step); i++) {
    hr_candidate next;
    stays more = *up;
    *(device ? &more.device_bytes : &more.host_bytes) = to;
    HR_TRY(placement_sketch(s, it, more, few_tiles, &next, err));
    uint64_t peak = next.plan->tiers[tier].peak_bytes;
    bool fits = peak <= budget;
    if (fits && device_fits(s, &next) && next.plan->step_seconds <= c->plan->step_seconds) {
      bool little = few_tiles && next.plan->step_seconds > (1 - looks_error) * c->plan->step_seconds;
      hr__candidate_fini(c);
      *c = next;
      *up = more;
      from = to;
      to = add_capped(to, budget - peak);
      if (little) return HR_OK;
      continue;
    }
    hr__candidate_fini(&next);
    if (fits) return HR_OK;
    uint64_t off = peak - budget + step;
    to = off < to ? to - off : 0;
  }
  return HR_OK;
}

/* What is free on the device, then on the host, for a sketch that fits the device. */
static hr_status tiers_fill(hr_choosing *s, const hr_placement *it, bool few_tiles, stays *up, hr_candidate *c,
                            hr_error *err) {
  if (!device_fits(s, c)) return HR_OK;
  if (it->part >= 0) HR_TRY(tier_fill(s, it, HR_TIER_DEVICE, few_tiles, up, c, err));
  if (hr__placement_disk_kind(it) < 0 || c->plan->tiers[HR_TIER_HOST].peak_bytes > s->open->host_bytes) return HR_OK;
  return tier_fill(s, it, HR_TIER_HOST, few_tiles, up, c, err);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* A placement that fits by a sketch with few tiles. */
typedef struct look {
  hr_placement it;
  stays up;
  double seconds;
  int number; /* in the order they were found */
} look;

enum { SETS = 1 << HR_OFFLOAD_KINDS };
typedef struct looking {
  hr_choosing *s;
  uint64_t peak[SETS][HR_ALIKE]; /* per set of kinds that are moved whole, and way: bytes on the device, 0: not known */
  size_t nodes;                  /* of all sketches */
  look *list;                    /* in the arena of s */
  size_t count, capacity;
  double best; /* seconds of the fastest; 0: there is none */
  int looks;   /* so far */
  int idle;    /* since the fastest was found */
} looking;

static hr_status look_add(looking *l, const hr_placement *it, stays up, double seconds, hr_error *err) {
  if (hr__arena_grow(&l->s->arena, (void **)&l->list, &l->capacity, l->count, sizeof *l->list) != 0)
    return hr__nomem(err);
  l->list[l->count] = (look){*it, up, seconds, (int)l->count};
  l->count++;
  if (l->best > 0 && seconds >= l->best) return HR_OK;
  l->best = seconds;
  l->idle = 0;
  return HR_OK;
}

static int moved_set(const hr_placement *it) {
  int set = 0;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    set |= (it->tier[k] != HR_TIER_DEVICE) << k;
  return set;
}

static hr_status mix_look(looking *l, const hr_placement *it, hr_error *err) {
  hr_choosing *s = l->s;
  hr_choices base = placement_choices(s, it, (stays){0}, true);
  const hr_graph *before = s->best.graph;
  double seconds = 0;
  HR_TRY(hr__keep_mixes(s, &base, l->peak[moved_set(it)], is_judged(s) ? NULL : &seconds, err));
  if (s->best.graph != before) seconds = s->best.plan->step_seconds;
  return seconds > 0 ? look_add(l, it, (stays){0}, seconds, err) : HR_OK;
}

static uint64_t take_off(uint64_t bytes, uint64_t over) {
  return bytes > over ? bytes - over : 0;
}

/* The first sketch: with as much staying on the device as there is room for, by its bound or by the sketch of one that
 * moves the same; with nothing where that does not come to an end. */
static hr_status look_first(looking *l, const hr_placement *it, stays *up, hr_candidate *c, hr_error *err) {
  hr_choosing *s = l->s;
  uint64_t *peak = &l->peak[moved_set(it)][it->way];
  if (it->part >= 0) up->device_bytes = *peak > 0 ? take_off(s->fill_bytes, *peak) : it->room_bytes;
  for (int i = 0; i < TRIES && up->device_bytes > 0; i++) {
    HR_TRY(placement_sketch(s, it, *up, true, c, err));
    if (device_fits(s, c)) return HR_OK;
    uint64_t over = hr__candidate_peak(c) - s->fill_bytes + s->whole_bytes[it->part] / SHARES + 1;
    up->device_bytes = take_off(up->device_bytes, over);
    hr__candidate_fini(c);
  }
  up->device_bytes = 0;
  HR_TRY(placement_sketch(s, it, *up, true, c, err));
  *peak = hr__candidate_peak(c);
  return HR_OK;
}

/* A layout that misses a budget takes off what it is over of what stays further up. That costs less than more effort
 * for the layout, which the last one gets. */
static hr_status look_offer(hr_choosing *s, const hr_placement *it, stays up, hr_candidate *c, hr_error *err) {
  for (int i = 0;; i++) {
    uint64_t over[HR_TIER_COUNT];
    bool part = it->part >= 0 && up.device_bytes > 0;
    s->draft = (part || up.host_bytes > 0) && i < TRIES;
    hr_status status = hr__candidate_offer(s, c, over, err);
    s->draft = false;
    bool less = (part && over[HR_TIER_DEVICE] > 0) || (up.host_bytes > 0 && over[HR_TIER_HOST] > 0);
    if (status != HR_OK || !less || i == TRIES) return status;
    bool down = part && it->tier[it->part] == HR_TIER_HOST; /* what leaves the device takes room on the host */
    up.device_bytes = take_off(up.device_bytes, over[HR_TIER_DEVICE]);
    up.host_bytes = take_off(up.host_bytes, over[HR_TIER_HOST] + (down ? over[HR_TIER_DEVICE] : 0));
    HR_TRY(placement_sketch(s, it, up, is_judged(s), c, err));
  }
}

static hr_status placement_look(looking *l, const hr_placement *it, hr_error *err) {
  hr_choosing *s = l->s;
  if (it->way == HR_WAY_MIX) return mix_look(l, it, err);
  hr_candidate c;
  stays up = {0};
  HR_TRY(look_first(l, it, &up, &c, err));
  hr_status status = tiers_fill(s, it, true, &up, &c, err);
  double seconds = c.plan->step_seconds;
  bool fits = device_fits(s, &c) && hr__candidate_fits(s->open, &c);
  l->nodes += c.graph->n_nodes;
  if (status == HR_OK && fits && is_judged(s)) {
    const hr_graph *before = s->best.graph;
    status = look_offer(s, it, up, &c, err);
    fits = s->best.graph != before || hr__candidate_slow(s, seconds);
  }
  hr__candidate_fini(&c);
  HR_TRY(status);
  return fits ? look_add(l, it, up, seconds, err) : HR_OK;
}

/* Whether nothing from this bound on is worth a look. */
static bool look_late(const looking *l, double bound) {
  const hr_choosing *s = l->s;
  if (hr__candidate_slow(s, bound * (1 - bounds_error))) return true;
  return l->best > 0 && bound * (is_judged(s) ? 1 + judged_error : 1 - bounds_error) >= l->best;
}

/* Whether as much or more was moved, and that was too much for the device; of a mix with every way. */
static bool look_large(const looking *l, const hr_placement *it) {
  int own = moved_set(it), first = it->way == HR_WAY_MIX ? 0 : it->way;
  int last = it->way == HR_WAY_MIX ? l->s->n_alike - 1 : it->way;
  bool large = true;
  for (int way = first; way <= last && large; way++) {
    large = false;
    for (int set = 0; set < SETS; set++)
      large |= l->peak[set][way] > l->s->fill_bytes && (own & ~set) == 0;
  }
  return large;
}

/* Whether another placement is the same for sure: there is room for all of the kind that is kept in part, or for all
 * that a mix would drop. */
static bool look_idle(const looking *l, const hr_placement *it) {
  const hr_prospects *p = l->s->prospects;
  bool mix = it->way == HR_WAY_MIX;
  uint64_t peak = l->peak[moved_set(it)][mix ? HR_KEEP_ALL : it->way];
  if (peak == 0 || (!mix && it->part < 0)) return false;
  uint64_t more = mix ? 0 : hr__kind_bytes(p, &p->ways[it->way], it->part);
  return add_capped(peak, more) <= l->s->fill_bytes;
}

/* Offloaded inputs of blocks as what they are: inputs kept, on the host. */
static hr_placement placement_plain(const hr_placement *it) {
  hr_placement plain = *it;
  if (it->way == HR_KEEP_OFFLOADED) plain.way = HR_KEEP_INPUT, plain.tier[HR_OFFLOAD_ACTIVATIONS] = HR_TIER_HOST;
  return plain;
}

/* Whether one that fits is the same but for kinds that lie further up: below the device, since nothing is faster
 * further down; or on the device with all of the kind of which the other keeps a part there. */
static bool look_beaten(const looking *l, const hr_placement *placement) {
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

/* --- plans to be run ---------------------------------------------------------------------------------------------- */

/* A recipe may close the kind that stays in part to where it goes whole: that is taken where it is faster, which it may
 * be when copies cost next to nothing. */
static hr_status whole_compare(hr_choosing *s, const hr_placement *it, stays *up, hr_candidate *c, hr_error *err) {
  hr_candidate whole;
  HR_TRY(placement_sketch(s, it, (stays){0}, false, &whole, err));
  if (whole.plan->step_seconds >= c->plan->step_seconds || !device_fits(s, &whole) ||
      !hr__candidate_fits(s->open, &whole)) {
    hr__candidate_fini(&whole);
    return HR_OK;
  }
  hr__candidate_fini(c);
  *c = whole;
  *up = (stays){0};
  return HR_OK;
}

/* *ratio: of the seconds of a step to those with few tiles, as far as that shows. */
static hr_status look_plan(hr_choosing *s, const look *found, double *ratio, hr_error *err) {
  const hr_placement *it = &found->it;
  stays up = found->up;
  hr_choices base = placement_choices(s, it, up, false);
  if (it->way == HR_WAY_MIX) return hr__keep_mixes(s, &base, NULL, NULL, err);
  hr_candidate c;
  HR_TRY(placement_sketch(s, it, up, false, &c, err));
  *ratio = c.plan->step_seconds / found->seconds;
  if (!device_fits(s, &c) || !hr__candidate_fits(s->open, &c)) { /* what few tiles had room for: from the beginning */
    hr__candidate_fini(&c);
    up = (stays){0};
    HR_TRY(placement_sketch(s, it, up, false, &c, err));
  }
  hr_status status = tiers_fill(s, it, false, &up, &c, err);
  if (status == HR_OK && up.device_bytes > 0) status = whole_compare(s, it, &up, &c, err);
  if (status == HR_OK) return look_offer(s, it, up, &c, err);
  hr__candidate_fini(&c);
  return status;
}

/* Fastest first; of equal ones that which moves fewer kinds, then as in the list of placements. */
static int look_compare(const void *a, const void *b) {
  const look *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  int moved = __builtin_popcount((unsigned)moved_set(&x->it)) - __builtin_popcount((unsigned)moved_set(&y->it));
  return moved != 0 ? moved : x->number - y->number;
}

/* The most promising first; what the first of them takes less than with few tiles the others do as well. Of large
 * graphs only some are planned. */
static hr_status looks_plan(looking *l, hr_error *err) {
  hr_choosing *s = l->s;
  double ratio = 1 - tiles_error;
  if (l->count > 0) qsort(l->list, l->count, sizeof *l->list, look_compare);
  for (size_t i = 0; i < l->count && !hr__candidate_slow(s, l->list[i].seconds * ratio * (1 - looks_error)); i++) {
    if (s->best.graph && i > 0 && i * s->best.graph->n_nodes > PLANS_NODES) break;
    double own = ratio;
    HR_TRY(look_plan(s, &l->list[i], &own, err));
    if (i == 0) ratio = own;
  }
  return HR_OK;
}

/* Whether placements with lower bounds have been looked at for long enough: sketches of large graphs take their time.
 */
static bool looks_enough(const looking *l, double bound) {
  double limit = l->s->limit_seconds;
  if (is_judged(l->s)) return l->best > 0 && l->looks >= LOOKS_JUDGED;
  if (limit > 0 && l->nodes > LOOKS_NODES && bound * (1 + near_enough) >= limit) return true;
  if (l->best == 0 || l->looks < LOOKS_LEAST || l->nodes <= LOOKS_NODES) return false;
  return l->nodes > LOOKS_NODES_MOST || l->idle >= LOOKS_IDLE || bound * (1 + near_enough) >= l->best;
}

/* At most as many as `most`. */
static hr_status placements_look(looking *l, int most, hr_error *err) {
  const hr_choosing *s = l->s;
  const hr_prospects *p = s->prospects;
  for (size_t i = 0; i < p->count && most > 0 && !look_late(l, p->list[i].seconds); i++) {
    const hr_placement *it = &p->list[i];
    if (looks_enough(l, it->seconds)) break;
    if (is_judged(s) && l->best > 0 && it->way == HR_WAY_MIX) continue; /* mixes take many sketches */
    if (look_large(l, it) || look_idle(l, it) || look_beaten(l, it)) continue;
    l->looks++;
    l->idle++;
    most--;
    HR_TRY(placement_look(l, it, err));
  }
  return HR_OK;
}

/* --- figures of the ways ------------------------------------------------------------------------------------------ */

static bool state_on_host(const hr_graph *g) {
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && g->buffers[b].role == HR_ROLE_OPTIMIZER && g->buffers[b].home == HR_TIER_HOST)
      return true;
  return false;
}

bool hr__update_has_places(const hr_choosing *s, const hr_graph *g) {
  return hr__recipe_word_is(s->open->recipe, "memory.offload.update", "auto") && state_on_host(g);
}

/* Everything that is open on the host, activations only where they are to be. */
static hr_placement all_down(int way, bool activations) {
  hr_placement it = {.way = way, .part = -1};
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    it.tier[k] = k != HR_OFFLOAD_ACTIVATIONS || activations ? HR_TIER_HOST : HR_TIER_DEVICE;
  return it;
}

static hr_status way_figures(hr_choosing *s, int way, hr_error *err) {
  hr_prospects *p = s->prospects;
  bool moves = s->out->open[HR_OFFLOAD_ACTIVATIONS] && way != HR_KEEP_OFFLOADED;
  moves &= !is_judged(s); /* then only where nothing fits without: see least_offer */
  for (int activations = 0; activations <= moves; activations++) {
    hr_placement it = all_down(way, activations);
    hr_candidate c;
    if (p->ways[way].known[activations]) continue; /* by hr__move_hopeless */
    HR_TRY(placement_sketch(s, &it, (stays){0}, true, &c, err));
    hr__figures_moved(&p->ways[way], s, c.plan, activations);
    bool places = !p->update_places && hr__update_has_places(s, c.graph);
    hr__candidate_fini(&c);
    if (!places) continue;
    p->update_places = it.update_on_host = true;
    HR_TRY(placement_sketch(s, &it, (stays){0}, true, &c, err));
    hr__traffic_read(c.plan, s->open->accumulation, s->out->open, activations, &p->host_update);
    hr__candidate_fini(&c);
  }
  hr__figures_settle(&p->ways[way]);
  return HR_OK;
}

/* Where nothing fits: everything as far down as the budgets of host and disk allow, with few tiles. */
static hr_status least_offer(hr_choosing *s, hr_error *err) {
  static const hr_offload_kind kinds[] = {HR_OFFLOAD_OPTIMIZER, HR_OFFLOAD_GRADIENTS, HR_OFFLOAD_PARAMETERS,
                                          HR_OFFLOAD_ACTIVATIONS};
  hr_placement it = all_down(s->keeps ? HR_KEEP_INPUT : 0, true);
  hr_candidate c;
  uint64_t over[HR_TIER_COUNT];
  HR_TRY(placement_sketch(s, &it, (stays){0}, true, &c, err));
  for (int i = 0; i < HR_OFFLOAD_KINDS && c.plan->tiers[HR_TIER_HOST].peak_bytes > s->open->host_bytes; i++) {
    if (!s->out->open[kinds[i]]) continue;
    it.tier[kinds[i]] = HR_TIER_DISK;
    hr__candidate_fini(&c);
    HR_TRY(placement_sketch(s, &it, (stays){0}, true, &c, err));
  }
  return hr__candidate_offer(s, &c, over, err);
}

hr_status hr__move_hopeless(hr_choosing *s, bool *hopeless, hr_error *err) {
  bool activations = s->out->open[HR_OFFLOAD_ACTIVATIONS], any = activations;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    any |= s->out->open[k];
  *hopeless = any;
  for (int way = s->keeps ? HR_KEEP_INPUT : 0; *hopeless && way >= 0; way -= HR_KEEP_INPUT) {
    hr_placement it = all_down(way, activations); /* what is not recomputed is not all there at once either */
    hr_candidate c;
    uint64_t over[HR_TIER_COUNT];
    HR_TRY(placement_sketch(s, &it, (stays){0}, true, &c, err));
    *hopeless = !device_fits(s, &c);
    if (activations && !is_judged(s)) hr__figures_moved(&s->prospects->ways[way], s, c.plan, activations);
    if (*hopeless)
      HR_TRY(hr__candidate_offer(s, &c, over, err));
    else
      hr__candidate_fini(&c);
  }
  return HR_OK;
}

/* Reads the figures of every way that may be of use: with a plan of the first to compare with, slower ones are not. */
static hr_status figures_read(looking *l, hr_error *err) {
  enum { ACTIVATIONS = 1 << HR_OFFLOAD_ACTIVATIONS };
  hr_choosing *s = l->s;
  for (int way = 0; way < s->n_alike; way++) {
    const hr_way_figures *f = &s->prospects->ways[way];
    if (look_late(l, s->pure[way])) continue;
    HR_TRY(way_figures(s, way, err));
    l->peak[SETS - 1 - ACTIVATIONS][way] = f->peak_bytes[0];
    l->peak[SETS - 1][way] = f->peak_bytes[1];
    if (way > 0) continue;
    HR_TRY(hr__placements_list(s->prospects, false, err));
    HR_TRY(placements_look(l, 1, err));
  }
  return HR_OK;
}

static hr_status placements_try(hr_choosing *s, hr_error *err) {
  looking l = {.s = s};
  HR_TRY(figures_read(&l, err));
  HR_TRY(hr__placements_list(s->prospects, true, err));
  HR_TRY(placements_look(&l, INT_MAX, err));
  return is_judged(s) ? HR_OK : looks_plan(&l, err);
}

static const hr_candidate *candidate_first(const hr_choosing *s) {
  return s->best.graph ? &s->best : &s->least;
}

hr_status hr__move_choose(hr_choosing *s, hr_error *err) {
  bool any = false, before = s->out->any;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    any |= s->out->open[k];
  if (!any && (!candidate_first(s)->graph || !hr__update_has_places(s, candidate_first(s)->graph))) return HR_OK;
  s->out->any = true; /* the place of the update at least */
  HR_TRY(placements_try(s, err));
  if (!s->best.graph && any) HR_TRY(least_offer(s, err));
  s->out->any = before || candidate_first(s)->choices.update_on_host;
  return HR_OK;
}
