/* placement: see placement.h. */
#include "fit/placement.h"

#include <math.h>
#include <stdlib.h>

#include "fit/bytes.h"

int hr__placement_disk_kind(const hr_placement *it) {
  static const hr_offload_kind kinds[] = {HR_OFFLOAD_PARAMETERS, HR_OFFLOAD_GRADIENTS, HR_OFFLOAD_ACTIVATIONS,
                                          HR_OFFLOAD_OPTIMIZER};
  for (int i = 0; i < HR_OFFLOAD_KINDS; i++)
    if (it->tier[kinds[i]] == HR_TIER_DISK) return (int)kinds[i];
  return -1;
}

/* The most bytes of gradients that a program has on the device at a time. */
static hr_status gradients_most(hr_arena *arena, const hr_plan *plan, uint64_t *most, hr_error *err) {
  *most = 0;
  for (hr_id p = 0; p < plan->graph->n_programs; p++) {
    uint32_t count = plan->graph->programs[p].count;
    uint64_t *begin = hr__arena_array(arena, count + 1, sizeof *begin), alive = 0; /* and what ended before */
    uint64_t *end = hr__arena_array(arena, count + 1, sizeof *end);
    if (!begin || !end) return hr__nomem(err);
    for (size_t i = 0; i < plan->n_slots; i++) {
      const hr_slot *slot = &plan->slots[i];
      if (slot->program != p || slot->tier != HR_TIER_DEVICE || slot->category != HR_CAT_GRADIENTS) continue;
      begin[slot->first] += slot->bytes;
      end[slot->last + 1] += slot->bytes;
    }
    for (uint32_t at = 0; at < count; at++) {
      alive += begin[at] - end[at];
      if (alive > *most) *most = alive;
    }
  }
  return HR_OK;
}

hr_status hr__figures_resting(hr_way_figures *f, hr_choosing *s, const hr_plan *plan, hr_error *err) {
  const hr_tier_plan *device = &plan->tiers[HR_TIER_DEVICE];
  for (int t = 0; t < HR_TIER_COUNT; t++)
    f->closed_bytes[t] = plan->tiers[t].persistent_bytes;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (s->out->open[k]) f->closed_bytes[HR_TIER_DEVICE] -= s->whole_bytes[k];
  f->gradient_bytes = hr__bytes_less(device->categories[HR_CAT_GRADIENTS], s->whole_bytes[HR_OFFLOAD_GRADIENTS]);
  f->working_bytes = device->categories[HR_CAT_ACTIVATIONS] + device->categories[HR_CAT_WORKSPACE];
  HR_TRY(gradients_most(&s->arena, plan, &f->gradients_most, err));
  f->gradients_most = hr__bytes_most(f->gradients_most, f->gradient_bytes);
  return HR_OK;
}

hr_status hr__figures_moved(hr_way_figures *f, const hr_choosing *s, const hr_plan *plan, bool activations,
                            hr_error *err) {
  const hr_tier_plan *device = &plan->tiers[HR_TIER_DEVICE];
  f->known[activations] = true;
  f->peak_bytes[activations] = device->peak_bytes;
  hr_traffic *traffic = &f->traffic[activations];
  hr__traffic_read(plan, s->open->accumulation, s->out->open, activations, traffic);
  HR_TRY(hr__traffic_curves(plan, s->open->accumulation, s->out->open, traffic, err));
  f->transient_bytes[activations] =
      hr__bytes_less(device->lower_bound_bytes, device->persistent_bytes + device->categories[HR_CAT_STAGING]);
  uint64_t waiting = 0;
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++)
    waiting += plan->tiers[t].categories[HR_CAT_ACTIVATIONS];
  *(activations ? &f->activation_bytes : &f->copies_bytes) = waiting;
  return HR_OK;
}

void hr__figures_settle(hr_way_figures *f) {
  if (!f->known[1]) return;
  f->activation_bytes = hr__bytes_less(f->activation_bytes, f->copies_bytes);
  hr_carried *all = &f->traffic[1].pass[HR_OFFLOAD_ACTIVATIONS], *own = &f->traffic[1].pass[HR_OFFLOAD_PARAMETERS];
  const hr_carried *before = &f->traffic[0].pass[HR_OFFLOAD_PARAMETERS];
  for (int way = 0; way < HR_TRAFFIC_WAYS; way++) {
    all->bytes[way] = fmax(all->bytes[way] - (before->bytes[way] - own->bytes[way]), 0);
    all->copies[way] = fmax(all->copies[way] - (before->copies[way] - own->copies[way]), 0);
  }
  *own = *before; /* what went with the parameters goes with them still */
}

/* --- bounds of one placement -------------------------------------------------------------------------------------- */

uint64_t hr__kind_bytes(const hr_prospects *p, const hr_way_figures *f, int kind) {
  uint64_t own = kind == HR_OFFLOAD_GRADIENTS     ? f->gradients_most
                 : kind == HR_OFFLOAD_ACTIVATIONS ? f->activation_bytes
                                                  : 0;
  return p->choosing->whole_bytes[kind] + own;
}

/* Bytes that are on the device at once whatever is on its way, without the part that may stay of one kind. */
static uint64_t device_least(const hr_prospects *p, const hr_way_figures *f, const hr_placement *it) {
  const hr_choosing *s = p->choosing;
  bool moved = it->tier[HR_OFFLOAD_ACTIVATIONS] != HR_TIER_DEVICE;
  bool gradients = it->tier[HR_OFFLOAD_GRADIENTS] == HR_TIER_DEVICE;
  uint64_t transients = f->transient_bytes[moved], state = f->closed_bytes[HR_TIER_DEVICE];
  if (gradients) transients = hr__bytes_most(transients, f->gradients_most);
  if (!moved && it->tier[HR_OFFLOAD_PARAMETERS] == HR_TIER_DEVICE)
    transients = hr__bytes_most(transients, f->working_bytes + (gradients ? f->gradient_bytes : 0));
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (s->out->open[k] && it->tier[k] == HR_TIER_DEVICE) state += s->whole_bytes[k];
  return s->open->facts->fixed_bytes + state + transients;
}

/* Bytes of a lower tier; `resident`: the most that stays on the device of the kind that may in part. */
static uint64_t below_least(const hr_prospects *p, const hr_way_figures *f, const hr_placement *it, hr_tier tier,
                            uint64_t resident) {
  uint64_t bytes = f->closed_bytes[tier], waiting = 0;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    if (it->tier[k] != tier) continue;
    bytes += hr__bytes_less(p->choosing->whole_bytes[k], it->part == k ? resident : 0);
    if (k == HR_OFFLOAD_PARAMETERS && it->part != k) waiting += f->copies_bytes;
    if (k == HR_OFFLOAD_GRADIENTS) waiting += hr__bytes_less(f->gradients_most, it->part == k ? resident : 0);
    if (k == HR_OFFLOAD_ACTIVATIONS) waiting += f->activation_bytes;
  }
  return bytes + waiting - waiting / 10; /* what waits is not all there at once */
}

/* How much of a kind so many bytes are. */
static double share_of(const hr_prospects *p, const hr_way_figures *f, int kind, uint64_t bytes) {
  return fmin((double)bytes / ((double)hr__kind_bytes(p, f, kind) + 1), 1);
}

/* Sets the seconds of a placement, and whether its copies are hidden. */
static void seconds_set(const hr_prospects *p, const hr_way_figures *f, hr_placement *it,
                        const uint64_t room[HR_TIER_COUNT]) {
  const hr_choosing *s = p->choosing;
  const hr_copy_rates *rates = &s->open->rates->copies;
  const hr_traffic *traffic = &f->traffic[it->tier[HR_OFFLOAD_ACTIVATIONS] != HR_TIER_DEVICE];
  double device[HR_OFFLOAD_KINDS], above[HR_OFFLOAD_KINDS]; /* how much of it is on the device, and not on the disk */
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    uint64_t stays = it->part == k ? room[HR_TIER_DEVICE] : 0; /* and on the host what is not there */
    device[k] = it->tier[k] == HR_TIER_DEVICE ? 1 : share_of(p, f, k, stays);
    above[k] = it->tier[k] != HR_TIER_DISK ? 1 : device[k];
    if (hr__placement_disk_kind(it) == k) above[k] = share_of(p, f, k, hr__bytes_add(stays, room[HR_TIER_HOST]));
  }
  const hr_traffic *updates = it->update_on_host ? &p->host_update : traffic;
  double pass = f->traffic[0].pass_seconds, update = f->traffic[0].update_seconds, host = 0;
  if (it->update_on_host) {
    host = fmax(1 - 1.02 * device[HR_OFFLOAD_OPTIMIZER], 0) * p->host_update.host_seconds;
    update = 0; /* all of it may be on the host */
  }
  if (hr__recipe_word_is(s->open->recipe, "memory.update", "in-backward")) { /* all of it side by side */
    hr_traffic all = *traffic;
    hr__traffic_add(all.pass, updates->update);
    double copies = hr__traffic_seconds(all.pass, device, above, rates);
    it->hidden = copies <= pass + update;
    it->seconds = fmax(fmax(pass + update, host), copies);
    return;
  }
  double copies = hr__traffic_seconds(traffic->pass, device, above, rates);
  it->hidden = copies <= pass;
  it->seconds =
      fmax(pass, copies) + fmax(fmax(update, host), hr__traffic_seconds(updates->update, device, above, rates));
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void lower(uint64_t *bytes, uint64_t to) {
  if (to < *bytes) *bytes = to;
}

/* The best that any way has, for mixes of them. */
static hr_way_figures mixes_figures(const hr_prospects *p) {
  hr_way_figures best = {.known = {false}};
  for (int way = 0; way < p->choosing->n_alike; way++) {
    const hr_way_figures *f = &p->ways[way];
    if (!f->known[0]) { /* slower, and smaller: nothing is known of how much */
      best.transient_bytes[0] = best.transient_bytes[1] = best.working_bytes = best.copies_bytes = 0;
      continue;
    }
    if (!best.known[0]) best = *f;
    lower(&best.transient_bytes[0], f->transient_bytes[0]);
    lower(&best.working_bytes, f->working_bytes);
    lower(&best.copies_bytes, f->copies_bytes);
    if (!f->known[1]) continue;
    if (!best.known[1] || f->activation_bytes < best.activation_bytes) best.traffic[1] = f->traffic[1];
    lower(&best.transient_bytes[1], f->transient_bytes[1]);
    lower(&best.activation_bytes, f->activation_bytes);
    best.known[1] = true;
  }
  return best;
}

static hr_status placement_add(hr_prospects *p, const hr_way_figures *f, hr_placement it, hr_error *err) {
  const hr_choosing *s = p->choosing;
  uint64_t least = device_least(p, f, &it);
  if (least > s->fill_bytes) return HR_OK;
  uint64_t room[HR_TIER_COUNT] = {[HR_TIER_DEVICE] = s->fill_bytes - least};
  uint64_t host = below_least(p, f, &it, HR_TIER_HOST, room[HR_TIER_DEVICE]);
  if (host > s->open->host_bytes) return HR_OK;
  room[HR_TIER_HOST] = s->open->host_bytes - host;
  uint64_t disk = below_least(p, f, &it, HR_TIER_DISK, room[HR_TIER_DEVICE]);
  if (disk > s->open->disk_bytes && disk - s->open->disk_bytes > room[HR_TIER_HOST]) return HR_OK;
  seconds_set(p, f, &it, (uint64_t[HR_TIER_COUNT]){[HR_TIER_HOST] = room[HR_TIER_HOST]});
  it.whole = it.seconds;
  seconds_set(p, f, &it, room);
  it.room_bytes = room[HR_TIER_DEVICE];
  it.host_bytes = room[HR_TIER_HOST];
  if (hr__arena_grow((hr_arena *)&s->arena, (void **)&p->list, &p->capacity, p->count, sizeof *p->list) != 0)
    return hr__nomem(err);
  p->list[p->count++] = it;
  return HR_OK;
}

static bool update_may_be_on_host(const hr_prospects *p, const hr_placement *it) {
  if (!p->update_places) return false;
  return !p->choosing->out->open[HR_OFFLOAD_OPTIMIZER] || it->tier[HR_OFFLOAD_OPTIMIZER] == HR_TIER_HOST;
}

/* A place for every kind, one of them in part, which begins with all of it moved; whole where none can be, and of
 * mixes, which take what room there is themselves. The update in each place it has. */
static hr_status parts_add(hr_prospects *p, const hr_way_figures *f, hr_placement it, hr_error *err) {
  bool parts = false;
  for (int k = 0; k < HR_OFFLOAD_ACTIVATIONS; k++)
    parts |= it.way != HR_WAY_MIX && it.tier[k] != HR_TIER_DEVICE;
  for (it.part = parts ? 0 : -1; it.part < (parts ? HR_OFFLOAD_ACTIVATIONS : 0); it.part++) {
    if (parts && it.tier[it.part] == HR_TIER_DEVICE) continue;
    for (int host = 0; host <= update_may_be_on_host(p, &it); host++) {
      bool moved = host;
      for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
        moved |= it.tier[k] != HR_TIER_DEVICE;
      it.update_on_host = host;
      if (moved) HR_TRY(placement_add(p, f, it, err));
    }
  }
  return HR_OK;
}

/* Whether a kind has anything to be moved in a way. */
static bool kind_moves(const hr_prospects *p, const hr_way_figures *f, int kind) {
  if (!p->choosing->out->open[kind]) return false;
  const hr_traffic *traffic = &f->traffic[kind == HR_OFFLOAD_ACTIVATIONS];
  if (kind == HR_OFFLOAD_ACTIVATIONS && !f->known[1]) return false;
  double copies = 0;
  for (int way = 0; way < HR_TRAFFIC_WAYS; way++)
    copies += traffic->pass[kind].copies[way] + traffic->update[kind].copies[way];
  return copies > 0;
}

/* The same of a placement: of a mix in any of its ways. */
static bool placement_moves(const hr_prospects *p, int way, const hr_way_figures *f, int kind) {
  if (way != HR_WAY_MIX) return kind_moves(p, f, kind);
  bool any = false;
  for (int own = 0; own < p->choosing->n_alike; own++)
    any |= kind_moves(p, &p->ways[own], kind);
  return any;
}

/* Inputs of blocks alone are kept, and go to the host: the same as the way that offloads just these. */
static bool placement_twice(const hr_prospects *p, const hr_placement *it) {
  return it->way == HR_KEEP_INPUT && it->tier[HR_OFFLOAD_ACTIVATIONS] == HR_TIER_HOST && p->choosing->keeps &&
         p->ways[HR_KEEP_OFFLOADED].known[0];
}

static hr_status way_add(hr_prospects *p, int way, const hr_way_figures *f, hr_error *err) {
  int places[HR_OFFLOAD_KINDS], total = 1;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    total *= places[k] = placement_moves(p, way, f, k) ? HR_TIER_COUNT : 1;
  }
  for (int number = 0; number < total; number++) {
    hr_placement it = {.way = way};
    for (int k = 0, rest = number; k < HR_OFFLOAD_KINDS; rest /= places[k++])
      it.tier[k] = (hr_tier)(rest % places[k]);
    if (!placement_twice(p, &it)) HR_TRY(parts_add(p, f, it, err));
  }
  return HR_OK;
}

static int placement_compare(const void *a, const void *b) {
  const hr_placement *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  if (x->way != y->way) return x->way - y->way;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (x->tier[k] != y->tier[k]) return (int)x->tier[k] - (int)y->tier[k];
  if (x->part != y->part) return x->part - y->part;
  return (int)x->update_on_host - (int)y->update_on_host;
}

hr_status hr__placements_list(hr_prospects *p, bool mixes, hr_error *err) {
  p->count = 0;
  bool any = false;
  for (int way = 0; way < p->choosing->n_alike; way++) {
    any |= p->ways[way].known[0];
    if (p->ways[way].known[0]) HR_TRY(way_add(p, way, &p->ways[way], err));
  }
  if (any && mixes && p->choosing->keeps) {
    hr_way_figures best = mixes_figures(p);
    HR_TRY(way_add(p, HR_WAY_MIX, &best, err));
  }
  if (p->count > 0) qsort(p->list, p->count, sizeof *p->list, placement_compare);
  return HR_OK;
}
