/* Offload: which kinds leave the device, and how far.
 *
 * For every way to keep blocks, and where activations are open for the first with all that it keeps below the device,
 * the other open kinds are first moved down whole, which shows whether that way can fit. In the two ways that promise
 * most (for a plan that is only to be judged: in the first that fits without the disk) they come back, the one with the
 * most traffic for a byte first (a parameter is read twice for every micro-batch, a gradient is written and read, state
 * moves once for a step): those that can whole, of the first that cannot as much as the budget allows. A way whose plan
 * takes longer than the best so far even with nothing moved is not looked at.
 */
#include "fit/candidate.h"

static const hr_offload_kind back[] = {HR_OFFLOAD_PARAMETERS, HR_OFFLOAD_GRADIENTS, HR_OFFLOAD_OPTIMIZER};
enum { BACK = sizeof back / sizeof *back, TRIES = 3, SHARES = 256, REFINED = 2 };

static bool device_fits(const hr_choosing *s, const hr_candidate *c) {
  return hr__candidate_peak(c) <= s->fill_bytes;
}

static hr_status all_down(hr_choosing *s, int way, hr_choices *choices, hr_candidate *c, hr_error *err) {
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (s->out->open[k] && k != HR_OFFLOAD_ACTIVATIONS) choices->offload[k].resident_bytes = 0;
  return hr__keep_alike(s, choices, way, c, err);
}

/* What the host has no room for goes on to the disk, the kind with the least traffic first. */
static hr_status host_relieve(hr_choosing *s, int way, hr_choices *choices, hr_candidate *c, hr_error *err) {
  static const hr_offload_kind kinds[] = {HR_OFFLOAD_OPTIMIZER, HR_OFFLOAD_GRADIENTS, HR_OFFLOAD_PARAMETERS,
                                          HR_OFFLOAD_ACTIVATIONS};
  for (int i = 0; i < HR_OFFLOAD_KINDS && c->plan->tiers[HR_TIER_HOST].peak_bytes > s->open->host_bytes; i++) {
    if (!s->out->open[kinds[i]] || choices->offload[kinds[i]].resident_bytes == UINT64_MAX) continue;
    choices->offload[kinds[i]].tier = HR_TIER_DISK;
    hr__candidate_fini(c);
    HR_TRY(hr__keep_alike(s, choices, way, c, err));
  }
  return HR_OK;
}

/* Replaces *c by what other choices give, if that fits the device as well and is no slower: of tensors too small to be
 * moved none went down, and their kind is back for nothing. */
static hr_status improve(hr_choosing *s, int way, hr_choices *choices, const hr_choices *to, hr_candidate *c,
                         bool *fits, uint64_t *over, hr_error *err) {
  hr_candidate next;
  HR_TRY(hr__keep_alike(s, to, way, &next, err));
  *fits = device_fits(s, &next);
  *over = *fits ? 0 : hr__candidate_peak(&next) - s->fill_bytes;
  if (*fits && next.plan->step_seconds <= c->plan->step_seconds) {
    hr__candidate_fini(c);
    *c = next;
    *choices = *to;
  } else {
    hr__candidate_fini(&next);
  }
  return HR_OK;
}

/* The part of a kind that may stay: what is free is filled, and what is then too much taken off again. */
static hr_status kind_part(hr_choosing *s, int way, hr_offload_kind kind, hr_choices *choices, hr_candidate *c,
                           hr_error *err) {
  uint64_t step = s->whole_bytes[kind] / SHARES + 1;
  uint64_t resident = s->fill_bytes - hr__candidate_peak(c), over;
  for (int i = 0; i < TRIES && resident >= step; i++) {
    hr_choices to = *choices;
    bool fits;
    to.offload[kind].resident_bytes = resident;
    HR_TRY(improve(s, way, choices, &to, c, &fits, &over, err));
    bool taken = choices->offload[kind].resident_bytes == resident;
    uint64_t room = s->fill_bytes - hr__candidate_peak(c);
    if (fits && (!taken || room < step)) return HR_OK;
    if (fits)
      resident += room;
    else
      resident = over + step < resident ? resident - over - step : 0;
  }
  return HR_OK;
}

/* Those that can come back whole do; of the first that cannot, a part. */
static hr_status kinds_back(hr_choosing *s, int way, hr_choices *choices, hr_candidate *c, int *part, hr_error *err) {
  *part = -1;
  for (int i = 0; i < BACK; i++) {
    if (!s->out->open[back[i]]) continue;
    hr_choices to = *choices;
    uint64_t over;
    to.offload[back[i]].resident_bytes = UINT64_MAX;
    /* of what is staged at the peak no more than all can be saved */
    uint64_t saved = c->plan->tiers[HR_TIER_DEVICE].categories[HR_CAT_STAGING];
    bool fits = hr__candidate_peak(c) + s->whole_bytes[back[i]] <= s->fill_bytes + saved;
    if (fits) HR_TRY(improve(s, way, choices, &to, c, &fits, &over, err));
    if (!fits && *part < 0) *part = (int)back[i];
  }
  return *part < 0 ? HR_OK : kind_part(s, way, (hr_offload_kind)*part, choices, c, err);
}

static bool state_on_host(const hr_graph *g) {
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && g->buffers[b].role == HR_ROLE_OPTIMIZER && g->buffers[b].home == HR_TIER_HOST)
      return true;
  return false;
}

bool hr__update_has_places(const hr_choosing *s, const hr_graph *g) {
  return s->open->facts->kind != HR_CPU && hr__recipe_word_is(s->open->recipe, "memory.offload.update", "auto") &&
         state_on_host(g);
}

/* Beside a GPU the processor updates what lives in its memory where that is faster. */
static hr_status update_place(hr_choosing *s, int way, hr_choices *choices, hr_candidate *c, hr_error *err) {
  if (!hr__update_has_places(s, c->graph)) return HR_OK;
  hr_choices to = *choices;
  to.update_on_host = true;
  hr_candidate next;
  HR_TRY(hr__keep_alike(s, &to, way, &next, err));
  bool better = next.plan->step_seconds < c->plan->step_seconds && (device_fits(s, &next) || !device_fits(s, c));
  if (better) {
    hr_candidate before = *c;
    *c = next;
    next = before;
    *choices = to;
  }
  hr__candidate_fini(&next);
  return HR_OK;
}

/* A layout that misses the budget takes off what it is over of the kind that stays in part. That costs less than more
 * effort for the layout, which the last one gets. */
static hr_status way_offer(hr_choosing *s, int way, hr_choices *choices, hr_candidate *c, int part, hr_error *err) {
  for (int i = 0;; i++) {
    uint64_t over, *resident = part < 0 ? NULL : &choices->offload[part].resident_bytes;
    s->draft = resident && *resident > 0 && i < TRIES;
    hr_status status = hr__candidate_offer(s, c, &over, err);
    s->draft = false;
    if (status != HR_OK || over == 0 || part < 0 || i == TRIES) return status;
    *resident = *resident > over ? *resident - over : 0;
    HR_TRY(hr__keep_alike(s, choices, way, c, err));
  }
}

/* A way to keep blocks with everything moved down, and about how long it takes once what can has come back. */
typedef struct way_down {
  int way;
  hr_choices choices;
  hr_candidate c;
  double estimate;
} way_down;

static hr_status way_refine(hr_choosing *s, way_down *d, hr_error *err) {
  int part = -1;
  if (!d->c.graph) HR_TRY(hr__keep_alike(s, &d->choices, d->way, &d->c, err));
  if (device_fits(s, &d->c)) HR_TRY(kinds_back(s, d->way, &d->choices, &d->c, &part, err));
  HR_TRY(host_relieve(s, d->way, &d->choices, &d->c, err));
  HR_TRY(update_place(s, d->way, &d->choices, &d->c, err));
  return way_offer(s, d->way, &d->choices, &d->c, part, err);
}

/* As if time fell evenly from all moved to what a way takes with nothing but its activations moved. Ways that need the
 * disk, whatever comes back, come behind all others, and those that do not fit the device last. */
static double way_estimate(const hr_choosing *s, const hr_candidate *c, double pure) {
  double moved = 1, seconds = c->plan->step_seconds;
  for (int i = 0; i < BACK; i++)
    if (s->out->open[back[i]]) moved += (double)s->whole_bytes[back[i]];
  if (!device_fits(s, c)) return 1e30 + (double)hr__candidate_peak(c);
  uint64_t room = s->fill_bytes - hr__candidate_peak(c), host = c->plan->tiers[HR_TIER_HOST].peak_bytes;
  double share = (double)room / moved, behind = host > room && host - room > s->open->host_bytes ? 1e9 : 0;
  return behind + seconds - (seconds - pure) * (share < 1 ? share : 1);
}

/* Moves everything down; with activations too, what they alone take is not known yet. */
static hr_status way_lower(hr_choosing *s, way_down *d, bool activations, hr_error *err) {
  double pure = s->pure[d->way];
  if (activations) {
    hr_candidate alone;
    d->choices.offload[HR_OFFLOAD_ACTIVATIONS].resident_bytes = 0;
    HR_TRY(hr__keep_alike(s, &d->choices, d->way, &alone, err));
    pure = alone.plan->step_seconds;
    hr__candidate_fini(&alone);
  }
  HR_TRY(all_down(s, d->way, &d->choices, &d->c, err));
  d->estimate = way_estimate(s, &d->c, pure);
  return HR_OK;
}

static void way_insert(way_down downs[REFINED + 1], int *count, const way_down *d) {
  int at = *count;
  for (; at > 0 && downs[at - 1].estimate > d->estimate; at--)
    downs[at] = downs[at - 1];
  downs[at] = *d;
  if (*count < REFINED) (*count)++;
  for (int i = 1; i <= REFINED; i++) /* one graph at a time: another that is gone into is made again */
    hr__candidate_fini(&downs[i].c);
}

/* The most promising ways are gone into. */
static hr_status ways_try(hr_choosing *s, way_down downs[REFINED + 1], hr_error *err) {
  int count = 0;
  bool judged = s->open->wish != HR_WISH_RUN, lower = s->out->open[HR_OFFLOAD_ACTIVATIONS] && !judged;
  for (int i = -lower; i < s->n_alike; i++) { /* recomputing what is then moved as well would save little */
    int way = i < 0 ? 0 : i;
    if (hr__candidate_slow(s, s->pure[way])) continue;
    way_down d = {.way = way, .choices = s->out->choices};
    HR_TRY(way_lower(s, &d, i < 0, err));
    way_insert(downs, &count, &d);
  }
  for (int i = 0; i < count; i++) { /* for a plan to be judged one that fits is enough, unless the disk makes it slow */
    bool enough = judged && s->best.graph && s->best.plan->tiers[HR_TIER_DISK].peak_bytes == 0;
    if (!enough) HR_TRY(way_refine(s, &downs[i], err));
  }
  return HR_OK;
}

/* Where nothing fits, activations go down as well. */
static hr_status activations_down(hr_choosing *s, hr_error *err) {
  int way = s->keeps ? HR_KEEP_INPUT : 0;
  hr_choices choices = s->out->choices;
  choices.offload[HR_OFFLOAD_ACTIVATIONS].resident_bytes = 0;
  hr_candidate c;
  uint64_t over;
  HR_TRY(all_down(s, way, &choices, &c, err));
  HR_TRY(host_relieve(s, way, &choices, &c, err));
  return hr__candidate_offer(s, &c, &over, err);
}

/* The update alone may have two places, with what is below the device by the recipe's own word. */
static hr_status closed_update(hr_choosing *s, hr_error *err) {
  hr_candidate *from = s->best.graph ? &s->best : &s->least;
  hr_choices choices = from->choices;
  if (!from->graph || !hr__update_has_places(s, from->graph)) return HR_OK;
  bool any = s->out->any;
  choices.update_on_host = s->out->any = true;
  hr_candidate c;
  uint64_t over;
  HR_TRY(hr__candidate_sketch(s, &choices, &c, err));
  if (c.plan->step_seconds < from->plan->step_seconds)
    HR_TRY(hr__candidate_offer(s, &c, &over, err));
  else
    hr__candidate_fini(&c);
  s->out->any = any || (s->best.graph ? &s->best : &s->least)->choices.update_on_host;
  return HR_OK;
}

hr_status hr__move_choose(hr_choosing *s, hr_error *err) {
  bool any = false;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    any |= s->out->open[k] && k != HR_OFFLOAD_ACTIVATIONS;
  if (!any && !s->out->open[HR_OFFLOAD_ACTIVATIONS]) return closed_update(s, err);
  way_down downs[REFINED + 1] = {0};
  hr_status status = any ? ways_try(s, downs, err) : HR_OK;
  for (int i = 0; i < REFINED; i++)
    hr__candidate_fini(&downs[i].c);
  HR_TRY(status);
  if (!s->best.graph && s->out->open[HR_OFFLOAD_ACTIVATIONS]) HR_TRY(activations_down(s, err));
  return HR_OK;
}
