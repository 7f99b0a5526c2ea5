/* move: which kinds leave the device, and how far, together with what is kept of the blocks and where the update is.
 *
 * A few sketches of each way to keep blocks give the figures that bounds of all placements are made of; fit/look goes
 * through these. Where nothing fits the smallest plan is the answer.
 */
#include <limits.h>
#include <math.h>

#include "fit/constants.h"
#include "fit/look.h"

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

/* The sketch of a placement with its graph and its plan. */
static hr_status placement_make(hr_choosing *s, const hr_placement *it, hr_candidate *c, hr_error *err) {
  HR_TRY(hr__placement_sketch(s, it, (hr_stays){0}, s->coarse, c, err));
  hr_status status = hr__candidate_make(s, c, err);
  if (status != HR_OK) hr__candidate_fini(c);
  return status;
}

/* Everything that may be moved; without activations. */
static int set_of_all(bool activations) {
  return HR_MOVED_SETS - 1 - (activations ? 0 : 1 << HR_OFFLOAD_ACTIVATIONS);
}

static hr_status way_figures(hr_looking *l, int way, hr_error *err) {
  hr_choosing *s = l->s;
  hr_prospects *p = s->prospects;
  bool moves = s->out->open[HR_OFFLOAD_ACTIVATIONS] && way != HR_KEEP_OFFLOADED;
  moves &= !hr__choosing_judges(s); /* then only where nothing fits without: see least_offer */
  for (int activations = 0; activations <= moves; activations++) {
    hr_placement it = all_down(way, activations);
    hr_candidate c;
    if (p->ways[way].known[activations]) continue; /* by hr__move_hopeless */
    HR_TRY(placement_make(s, &it, &c, err));
    hr_status status = hr__figures_moved(&p->ways[way], s, c.plan, activations, err);
    bool places = !p->update_places && hr__update_has_places(s, c.graph);
    hr__candidate_fini(&c);
    HR_TRY(status);
    if (!places) continue;
    p->update_places = it.update_on_host = true;
    HR_TRY(placement_make(s, &it, &c, err));
    hr__traffic_read(c.plan, s->open->accumulation, s->out->open, activations, &p->host_update);
    status = hr__traffic_curves(c.plan, s->open->accumulation, s->out->open, &p->host_update, err);
    l->peak[1][set_of_all(activations)][way] = hr__candidate_peak(&c);
    hr__candidate_fini(&c);
    HR_TRY(status);
  }
  for (int activations = 0; activations < 2; activations++)
    l->peak[0][set_of_all(activations)][way] = p->ways[way].peak_bytes[activations];
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
  HR_TRY(hr__placement_sketch(s, &it, (hr_stays){0}, s->coarse, &c, err));
  for (int i = 0; i < HR_OFFLOAD_KINDS && hr__candidate_bytes(&c, HR_TIER_HOST) > s->open->host_bytes; i++) {
    if (!s->out->open[kinds[i]]) continue;
    it.tier[kinds[i]] = HR_TIER_DISK;
    hr__candidate_fini(&c);
    HR_TRY(hr__placement_sketch(s, &it, (hr_stays){0}, s->coarse, &c, err));
  }
  return hr__candidate_offer(s, &c, over, err);
}

/* Whether the device may have room once the processor does the update: then no tiles of it pass through. */
static bool update_in_the_way(const hr_choosing *s, const hr_candidate *c) {
  uint64_t staging = c->plan->tiers[HR_TIER_DEVICE].categories[HR_CAT_STAGING];
  return hr__update_has_places(s, c->graph) && hr__bytes_less(hr__candidate_peak(c), staging) <= s->fill_bytes;
}

/* Of one way to keep blocks; *hopeless: there is no room, or was known not to be. *again: there may be with the update
 * on the host. */
static hr_status way_hopeless(hr_choosing *s, int way, bool host, bool *hopeless, bool *again, hr_error *err) {
  bool activations = s->out->open[HR_OFFLOAD_ACTIVATIONS];
  hr_placement it = all_down(way, activations); /* what is not recomputed is not all there at once either */
  it.update_on_host = host;
  hr_candidate c;
  uint64_t over[HR_TIER_COUNT];
  HR_TRY(placement_make(s, &it, &c, err));
  bool misses = !hr__device_fits(s, &c);
  *again = misses && !s->hopeless && !host && update_in_the_way(s, &c);
  *hopeless = misses || s->hopeless;
  hr_status status = HR_OK;
  if (activations && !host && !hr__choosing_judges(s))
    status = hr__figures_moved(&s->prospects->ways[way], s, c.plan, activations, err);
  if (status == HR_OK && *hopeless) return hr__candidate_offer(s, &c, over, err);
  hr__candidate_fini(&c);
  return status;
}

hr_status hr__move_hopeless(hr_choosing *s, hr_error *err) {
  bool hopeless = false;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    hopeless |= s->out->open[k];
  for (int way = s->keeps ? HR_KEEP_INPUT : 0; hopeless && way >= 0; way -= HR_KEEP_INPUT) {
    bool again, never;
    HR_TRY(way_hopeless(s, way, false, &hopeless, &again, err));
    if (again) HR_TRY(way_hopeless(s, way, true, &hopeless, &never, err));
  }
  s->hopeless = hopeless;
  return HR_OK;
}

/* Reads the figures of every way that may be of use: with a plan of the first to compare with, slower ones are not. */
static hr_status figures_read(hr_looking *l, hr_error *err) {
  hr_choosing *s = l->s;
  for (int way = 0; way < s->n_alike; way++) {
    if (hr__look_late(l, s->pure[way])) continue;
    HR_TRY(way_figures(l, way, err));
    if (way > 0) continue;
    HR_TRY(hr__placements_list(s->prospects, false, err));
    HR_TRY(hr__placements_look(l, 1, err));
  }
  return HR_OK;
}

static hr_status placements_try(hr_choosing *s, hr_error *err) {
  hr_looking l = {.s = s};
  HR_TRY(figures_read(&l, err));
  HR_TRY(hr__placements_list(s->prospects, true, err));
  HR_TRY(hr__placements_look(&l, INT_MAX, err));
  return hr__choosing_judges(s) ? HR_OK : hr__looks_plan(&l, err);
}

/* Of a step with all of the optimizer's state updated by the processor: nothing makes that, or the passes, shorter. */
static double host_update_least(const hr_choosing *s, const hr_plan *plan) {
  hr_traffic traffic;
  hr__traffic_read(plan, s->open->accumulation, s->out->open, false, &traffic);
  bool beside = hr__recipe_word_is(s->open->recipe, "memory.update", "in-backward");
  return beside ? fmax(traffic.pass_seconds, traffic.host_seconds) : traffic.pass_seconds + traffic.host_seconds;
}

/* Everything fits as it is: nothing that is moved makes a step faster, but for the optimizer's state where the
 * processor updates it, and what it then reads and writes. */
static hr_status host_update_compare(hr_choosing *s, hr_error *err) {
  enum { OPTIMIZER = 1 << HR_OFFLOAD_OPTIMIZER, OTHERS = 1 << HR_OFFLOAD_PARAMETERS | 1 << HR_OFFLOAD_GRADIENTS };
  int open = 0;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    open |= s->out->open[k] << k;
  for (int moved = 0; moved < 1 << HR_OFFLOAD_KINDS; moved++) {
    if ((moved & OPTIMIZER) != (open & OPTIMIZER) || (moved & ~OPTIMIZER & ~(open & OTHERS)) != 0) continue;
    hr_placement it = {.part = -1, .update_on_host = true};
    for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
      it.tier[k] = moved >> k & 1 ? HR_TIER_HOST : HR_TIER_DEVICE;
    hr_candidate c;
    uint64_t over[HR_TIER_COUNT];
    HR_TRY(placement_make(s, &it, &c, err));
    bool places = hr__update_has_places(s, c.graph);
    bool late = !places || hr__candidate_slow(s, host_update_least(s, c.plan) * (1 - hr_bounds_error));
    bool hopeful = !late && !hr__candidate_slow(s, hr__candidate_seconds(&c) * (1 - hr_tiles_error));
    hr__candidate_fini(&c);
    if (late) return HR_OK;
    if (!hopeful) continue;
    HR_TRY(hr__placement_sketch(s, &it, (hr_stays){0}, false, &c, err));
    HR_TRY(hr__candidate_offer(s, &c, over, err));
  }
  return HR_OK;
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
  HR_TRY(s->rests ? host_update_compare(s, err) : placements_try(s, err));
  bool asked = s->open->limit_seconds == 0; /* else nothing but what is faster is */
  if (!s->best.graph && any && asked) HR_TRY(least_offer(s, err));
  s->out->any = before || candidate_first(s)->choices.update_on_host;
  return HR_OK;
}
