/* Offsets: how much effort goes into laying out a program's transients, and what comes of it. See building.h. */
#include <string.h>

#include "base/checked.h"
#include "plan/building.h"
#include "plan/pack.h"

/* Enough for thousands of new layouts of a small program, for ten of a large one: 0.1 s at most. */
static uint64_t effort_default(size_t count) {
  return 90000000 / (count + 100);
}

/* What a layout is wanted for: one of at most `enough` is worth no more effort, one above `most` is of no use. */
typedef struct wanted {
  size_t enough, most;
} wanted;

enum {
  LARGE = 4096
}; /* intervals: the default effort for as many is one or two layouts, each of a tenth of a second */

/* With the default effort; and with more of it while the total is above what is wanted, each time also with crumbs
 * apart, which costs a little where the plain way meets the bound: the best of all. That is rare (layouts of training
 * steps meet their bound) and then takes seconds at worst, the most of them only where a budget depends on it. The
 * first layout of a draft is good enough, and so is that of a set whose bound is too much. */
static hr_status pack_default(const hr_interval *intervals, size_t count, bool draft, size_t bound_bytes, wanted want,
                              hr_arena *scratch, size_t *offsets, hr_packing *packing, hr_error *err) {
  static const struct {
    uint64_t effort;
    bool apart;
  } attempts[] = {{6, false}, {6, true}, {12, false}, {12, true}, {48, false}, {48, true}};
  enum { USUAL = 2 };
  uint64_t first = count > LARGE && bound_bytes > want.most ? 0 : effort_default(count); /* 0: one layout */
  HR_TRY(hr__pack(intervals, count, first, offsets, packing, err));
  if (draft || bound_bytes > want.most) return HR_OK;
  size_t *tried = hr__arena_array(scratch, count, sizeof *tried);
  if (!tried) return hr__nomem(err);
  for (size_t i = 0; packing->total_bytes > want.enough && i < sizeof attempts / sizeof *attempts; i++) {
    if (i >= USUAL && packing->total_bytes <= want.most) break;
    hr_packing trial;
    uint64_t effort = attempts[i].effort * effort_default(count);
    HR_TRY((attempts[i].apart ? hr__pack_apart : hr__pack)(intervals, count, effort, tried, &trial, err));
    if (trial.total_bytes >= packing->total_bytes) continue;
    *packing = trial;
    memcpy(offsets, tried, count * sizeof *tried);
  }
  return HR_OK;
}

/* One layout, and only where that is above what is wanted, and quick to do, those of the default effort. */
static hr_status pack_glance(const hr_interval *intervals, size_t count, size_t most, size_t *offsets,
                             hr_packing *packing, hr_error *err) {
  HR_TRY(hr__pack(intervals, count, 0, offsets, packing, err));
  if (packing->total_bytes <= most || packing->lower_bound_bytes > most || count > LARGE) return HR_OK;
  return hr__pack(intervals, count, effort_default(count), offsets, packing, err);
}

/* The largest sum of live bytes, and where it is first met. */
static hr_status tier_bound(hr_building *b, size_t from, hr_tier tier, hr_id program) {
  const hr_plan *plan = b->plan;
  hr_program_plan *out = &plan->programs[program];
  uint32_t count = b->graph->programs[program].count;
  size_t *change = hr__arena_array(&b->scratch, (size_t)count + 2, sizeof *change), live = 0;
  if (!change) return hr__nomem(b->err);
  for (size_t s = from; s < plan->n_slots; s++) {
    if (plan->slots[s].tier != tier) continue;
    change[plan->slots[s].first] += plan->slots[s].bytes;
    change[plan->slots[s].last + 1] -= plan->slots[s].bytes;
  }
  for (uint32_t i = 0; i < count; i++) { /* sums wrap around on the way, and are right */
    live += change[i];
    if (live <= out->lower_bound_bytes[tier]) continue;
    out->lower_bound_bytes[tier] = live;
    b->peaks[program][tier] = i;
  }
  out->transient_bytes[tier] = out->lower_bound_bytes[tier];
  return HR_OK;
}

/* Of a program's transients: 1 % above the bound, or what programs before this one need anyway; and no more than the
 * budget of the device leaves. Without a budget all the effort goes into the first. */
static wanted transients_wanted(const hr_building *b, hr_tier tier, const hr_program_plan *program) {
  const hr_plan *plan = b->plan;
  size_t persistent = plan->tiers[tier].persistent_bytes, bound = program->lower_bound_bytes[tier];
  wanted want = {.enough = bound + (persistent + bound) / 100};
  for (const hr_program_plan *before = plan->programs; before < program; before++)
    if (before->transient_bytes[tier] > want.enough) want.enough = before->transient_bytes[tier];
  want.most = want.enough;
  if (b->options->budget_bytes == 0 || tier != HR_TIER_DEVICE) return want;
  uint64_t taken = persistent + plan->facts.fixed_bytes + hr__peak_nodes_bytes(b);
  want.most = taken < b->options->budget_bytes ? b->options->budget_bytes - taken : 0;
  if (want.most < want.enough) want.enough = want.most;
  return want;
}

/* Lays out slots[from..n_slots) of one tier above the persistent part. */
static hr_status tier_pack(hr_building *b, size_t from, hr_tier tier, hr_program_plan *out) {
  hr_plan *plan = b->plan;
  size_t room = plan->n_slots - from, count = 0;
  hr_interval *intervals = hr__arena_array(&b->scratch, room, sizeof *intervals);
  size_t *offsets = hr__arena_array(&b->scratch, room, sizeof *offsets);
  if (!intervals || !offsets) return hr__nomem(b->err);
  for (size_t s = from; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->tier == tier && slot->bytes > 0) intervals[count++] = (hr_interval){slot->first, slot->last, slot->bytes};
  }
  hr_packing packing;
  wanted want = transients_wanted(b, tier, out);
  if (hr__effort_judges(b->options->effort))
    HR_TRY(pack_glance(intervals, count, want.most, offsets, &packing, b->err));
  else
    HR_TRY(pack_default(intervals, count, b->options->effort == HR_EFFORT_DRAFT, out->lower_bound_bytes[tier], want,
                        &b->scratch, offsets, &packing, b->err));
  out->transient_bytes[tier] = packing.total_bytes;
  out->lower_bound_bytes[tier] = packing.lower_bound_bytes;
  size_t bottom = plan->tiers[tier].persistent_bytes, top;
  if (!hr__add_size(bottom, packing.total_bytes, &top)) return hr__slots_refuse(b, hr_tier_name(tier));
  count = 0;
  for (size_t s = from; s < plan->n_slots; s++) {
    hr_slot *slot = &plan->slots[s];
    if (slot->tier == tier) slot->offset = bottom + (slot->bytes > 0 ? offsets[count++] : 0);
  }
  return HR_OK;
}

hr_status hr__offsets_find(hr_building *b, size_t from, hr_id program) {
  for (int t = 0; t < HR_TIER_COUNT; t++)
    HR_TRY(tier_bound(b, from, (hr_tier)t, program));
  for (int t = 0; t < HR_TIER_COUNT && b->options->effort != HR_EFFORT_SKETCH; t++)
    HR_TRY(tier_pack(b, from, (hr_tier)t, &b->plan->programs[program]));
  return HR_OK;
}
