/* Checkpointing: what to keep of every block while everything else stays where it is. */
#include "fit/constants.h"
#include "fit/placement.h"
#include "fit/sketches.h"

/* *late: it takes longer than is of use, as all behind it do. `seconds`: see hr__keep_mixes. */
static hr_status mix_try(hr_choosing *s, const hr_choices *base, const hr_chain *chain, size_t entry,
                         uint64_t over[HR_TIER_COUNT], bool *late, double *seconds, hr_error *err) {
  uint8_t *ways = hr__arena_array(&s->arena, s->n_keep, sizeof *ways);
  hr_keep *keep = hr__arena_array(&s->arena, s->n_keep, sizeof *keep);
  if (!ways || !keep) return hr__nomem(err);
  hr__chain_choice(chain, entry, ways);
  for (size_t i = 0; i < s->n_keep; i++)
    keep[i] = (hr_keep)ways[i];
  hr_choices choices = *base;
  choices.keep = keep;
  choices.n_keep = s->n_keep;
  hr_candidate c;
  HR_TRY(hr__candidate_sketch(s, &choices, &c, err));
  *late = hr__candidate_slow(s, hr__candidate_seconds(&c));
  if (!seconds) return hr__candidate_offer(s, &c, over, err);
  hr__candidate_over(s->open, &c, over);
  if (hr__candidate_fits(s->open, &c)) *seconds = hr__candidate_seconds(&c);
  hr__candidate_fini(&c);
  return HR_OK;
}

/* Mixes, fastest first, until one fits. Those that cannot by what is alive at once are passed over, and behind one
 * that misses the budget those that hold hardly less. */
static hr_status mixes_try(hr_choosing *s, const hr_choices *base, const hr_blocks *blocks, double *seconds,
                           hr_error *err) {
  hr_chain chain;
  HR_TRY(hr__chain_solve(blocks->blocks, s->n_keep, blocks->tail_bytes, &s->arena, &chain, err));
  const hr_graph *before = s->best.graph;
  uint64_t most = s->mix_bytes, over[HR_TIER_COUNT];
  bool late = false;
  for (size_t e = 0; e < chain.n_entries && !late; e++) {
    uint64_t inside = blocks->base_bytes + chain.entries[e].peak_bytes;
    uint64_t alive = inside > blocks->outside_bytes ? inside : blocks->outside_bytes;
    if (alive + s->open->facts->fixed_bytes > most) continue;
    HR_TRY(mix_try(s, base, &chain, e, over, &late, seconds, err));
    if (s->best.graph != before || (seconds && *seconds > 0)) return HR_OK;
    most = alive + s->open->facts->fixed_bytes - (over[HR_TIER_DEVICE] / 2 < alive ? over[HR_TIER_DEVICE] / 2 : alive);
  }
  if (s->best.graph || late || seconds) return HR_OK;
  return mix_try(s, base, &chain, chain.n_entries - 1, over, &late, NULL, err); /* the smallest, as fast as can be */
}

hr_status hr__keep_mixes(hr_choosing *s, const hr_choices *base, uint64_t peaks[HR_ALIKE], double *seconds,
                         hr_error *err) {
  hr_blocks blocks;
  if (seconds) *seconds = 0;
  HR_TRY(hr__blocks_init(&blocks, s->n_keep, &s->arena, err));
  for (int way = 0; way < s->n_alike; way++) {
    hr_candidate c;
    HR_TRY(hr__keep_alike(s, base, way, &c, err));
    if (peaks) peaks[way] = hr__candidate_peak(&c);
    const hr_blocks *own;
    hr_status status = hr__sketch_blocks(s, &c, &own, err);
    if (status == HR_OK) hr__blocks_add(&blocks, own);
    hr__candidate_fini(&c);
    HR_TRY(status);
  }
  return mixes_try(s, base, &blocks, seconds, err);
}

hr_status hr__keep_alike(hr_choosing *s, const hr_choices *base, int way, hr_candidate *c, hr_error *err) {
  hr_choices choices = *base;
  if (s->keeps) {
    hr_keep *keep = hr__arena_array(&s->arena, s->n_keep, sizeof *keep);
    if (!keep) return hr__nomem(err);
    for (size_t i = 0; i < s->n_keep; i++)
      keep[i] = (hr_keep)way;
    choices.keep = keep;
    choices.n_keep = s->n_keep;
  }
  return hr__candidate_sketch(s, &choices, c, err);
}

/* How many blocks there are shows only in the graph, which is then the one with all of them kept. */
static hr_status all_kept(hr_choosing *s, const hr_choices *base, hr_candidate *c, hr_error *err) {
  HR_TRY(hr__candidate_sketch(s, base, c, err)); /* the first of all, so it is made */
  hr_status status = s->keeps ? hr__blocks_count(c->graph, &s->arena, &s->n_keep, err) : HR_OK;
  s->keeps = s->keeps && s->n_keep > 0;
  if (status == HR_OK && s->keeps) {
    c->keep = hr__alloc_zero(s->n_keep, sizeof *c->keep); /* zero: all */
    c->choices.keep = c->keep;
    c->choices.n_keep = s->n_keep;
    if (!c->keep) status = hr__nomem(err);
  }
  if (status != HR_OK) hr__candidate_fini(c);
  return status;
}

/* Bytes of a kind that are on the device for the whole step when all of it is. */
static uint64_t kind_bytes(const hr_graph *g, hr_offload_kind kind) {
  uint64_t bytes = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && hr__offload_has(kind, g->buffers[b].role) && g->buffers[b].home == HR_TIER_DEVICE)
      bytes += g->buffers[b].bytes;
  return bytes;
}

/* Whether the state alone is too much: what may not leave the device for that, or all of it for all tiers. *above: what
 * the device holds of it as long as nothing is moved. */
static bool state_misses(const hr_choosing *s, const hr_plan *plan, uint64_t *above) {
  const hr_open *open = s->open;
  const hr_graph *g = plan->graph;
  uint64_t stays = open->facts->fixed_bytes, all = open->facts->fixed_bytes;
  for (size_t b = 0; b < g->n_buffers; b++) {
    if (!g->buffers[b].persistent) continue;
    all += g->buffers[b].bytes;
    if (g->buffers[b].home == HR_TIER_DEVICE) stays += g->buffers[b].bytes;
  }
  *above = stays;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (s->out->open[k]) stays -= s->whole_bytes[k];
  uint64_t room = open->budget_bytes;
  if (__builtin_add_overflow(room, open->host_bytes, &room) || __builtin_add_overflow(room, open->disk_bytes, &room))
    room = UINT64_MAX;
  return stays > open->budget_bytes || all > room;
}

/* Whether host and disk have room. */
static bool fits_below(const hr_open *open, const hr_plan *plan) {
  return plan->tiers[HR_TIER_HOST].peak_bytes <= open->host_bytes &&
         plan->tiers[HR_TIER_DISK].peak_bytes <= open->disk_bytes;
}

/* Whether sketches take their time: for their own nodes, or for the tiles of what may move. */
static bool sketches_long(const hr_choosing *s, const hr_graph *g) {
  uint64_t moves = 0;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (s->out->open[k]) moves += s->whole_bytes[k];
  return g->n_nodes > HR_SMALL_NODES || moves > hr_small_bytes;
}

/* Layouts of many slots end a little above their bound, and the search for one that does not takes seconds: there a
 * mix leaves 0.2 % of the budget, which costs it about a quarter of that in time. */
static uint64_t mixes_room(const hr_choosing *s, const hr_plan *plan) {
  return plan->n_slots > HR_SMALL_SLOTS ? s->fill_bytes - s->fill_bytes / 512 : s->fill_bytes;
}

hr_status hr__keep_choose(hr_choosing *s, hr_error *err) {
  const hr_choices base = s->out->choices;
  hr_candidate c;
  hr_blocks blocks;
  const hr_blocks *own;
  uint64_t over[HR_TIER_COUNT], above;
  HR_TRY(all_kept(s, &base, &c, err));
  if (hr__update_has_places(s, c.graph)) s->limit_seconds = 0; /* hr__move_choose looks at the other one */
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    s->whole_bytes[k] = kind_bytes(c.graph, (hr_offload_kind)k);
  s->coarse = sketches_long(s, c.graph);
  s->n_alike = s->keeps ? HR_ALIKE - !s->out->open[HR_OFFLOAD_ACTIVATIONS] : 1;
  uint64_t sure = hr__candidate_sure_bytes(s->open, c.plan);
  s->fill_bytes = sure > 0 ? sure : s->open->budget_bytes;
  s->mix_bytes = mixes_room(s, c.plan);
  bool misses = state_misses(s, c.plan, &above), verdict = s->open->effort == HR_EFFORT_VERDICT;
  s->hopeless = verdict && misses;
  if (s->hopeless) return hr__candidate_offer(s, &c, over, err);
  if (above > s->open->budget_bytes) {                          /* then something has to move */
    s->hopeless = misses && hr__effort_judges(s->open->effort); /* then the least on the device is all to be known */
    hr_status moved = hr__move_hopeless(s, err);
    if (moved != HR_OK || s->hopeless) hr__candidate_fini(&c);
    HR_TRY(moved);
    if (s->hopeless) return HR_OK;
  }
  bool below = false; /* some way: a mix holds no less there than the least of them */
  hr_status status = hr__blocks_init(&blocks, s->keeps ? s->n_keep : 0, &s->arena, err);
  for (int way = 0; way < s->n_alike && status == HR_OK; way++) {
    if (way > 0) status = hr__keep_alike(s, &base, way, &c, err);
    if (status == HR_OK) status = hr__candidate_make(s, &c, err);
    if (status == HR_OK) {
      s->pure[way] = c.plan->step_seconds;
      status = hr__figures_resting(&s->prospects->ways[way], s, c.plan, err);
    }
    below = below || (status == HR_OK && fits_below(s->open, c.plan));
    if (status == HR_OK) status = hr__sketch_blocks(s, &c, &own, err);
    if (status == HR_OK) hr__blocks_add(&blocks, own);
    if (status == HR_OK) status = hr__candidate_offer(s, &c, over, err);
    s->rests = way == 0 && s->best.graph;
    if (way == 0 && (s->best.graph || hr__candidate_slow(s, s->pure[0]))) { /* nothing can be faster */
      for (int other = 1; other < s->n_alike; other++)
        s->pure[other] = s->pure[0];
      hr__candidate_fini(&c);
      return status;
    }
  }
  hr__candidate_fini(&c);
  HR_TRY(status);
  if (!below) return HR_OK;
  if (verdict && above > s->open->budget_bytes) return HR_OK; /* then only moving helps */
  return s->keeps ? mixes_try(s, &base, &blocks, NULL, err) : HR_OK;
}
