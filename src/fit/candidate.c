/* candidate: see candidate.h. */
#include "fit/candidate.h"

#include <string.h>

#include "fit/bytes.h"
#include "fit/constants.h"
#include "fit/sketches.h"

void hr__candidate_fini(hr_candidate *c) {
  hr__plan_destroy(c->plan);
  hr__graph_destroy(c->graph);
  hr__free(c->keep);
  *c = (hr_candidate){0};
}

hr_status hr__candidate_sketch(hr_choosing *s, const hr_choices *choices, hr_candidate *c, hr_error *err) {
  *c = (hr_candidate){.choices = *choices};
  if (choices->keep) {
    c->keep = hr__alloc(choices->n_keep * sizeof *c->keep);
    if (!c->keep) return hr__nomem(err);
    memcpy(c->keep, choices->keep, choices->n_keep * sizeof *c->keep);
    c->choices.keep = c->keep;
  }
  hr_status status = s->trunk ? HR_OK : hr__trunk_grow(s->open->recipe, choices->slices, &s->trunk, err);
  if (status == HR_OK) status = hr__sketch_find(s, s->out->any ? &c->choices : NULL, &c->sketch, err);
  if (status == HR_OK && c->sketch->step_seconds == 0) status = hr__candidate_make(s, c, err);
  if (status != HR_OK) hr__candidate_fini(c);
  return status;
}

hr_status hr__candidate_make(hr_choosing *s, hr_candidate *c, hr_error *err) {
  if (c->plan) return HR_OK;
  hr_plan_options options = {.accumulation = s->open->accumulation, .effort = HR_EFFORT_SKETCH};
  HR_TRY(hr__trunk_branch(s->trunk, c->sketch->by_choice ? &c->choices : NULL, &c->graph, err));
  HR_TRY(hr__plan_build(c->graph, s->open->facts, s->open->rates, &options, &c->plan, err));
  c->sketch->step_seconds = c->plan->step_seconds;
  c->sketch->n_nodes = c->graph->n_nodes;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    c->sketch->peak_bytes[t] = c->plan->tiers[t].peak_bytes;
  return HR_OK;
}

/* A sketch becomes a plan. */
hr_status hr__candidate_lay(const hr_choosing *s, hr_candidate *c, bool draft, hr_error *err) {
  /* a closed recipe has one plan for all budgets: as small as layouts get */
  bool judged = hr__effort_judges(s->open->effort);
  hr_effort effort = s->open->effort;
  if (!judged && draft) effort = HR_EFFORT_DRAFT;
  if (!judged && !draft && c->plan->n_slots <= HR_SMALL_SLOTS) effort = HR_EFFORT_RUN; /* also one of many settings */
  uint64_t budget = judged || hr__choose_any(s->open->recipe) ? s->open->budget_bytes : 0;
  hr_plan_options options = {
      .accumulation = s->open->accumulation, .effort = effort, .budget_bytes = budget, .nameless = true};
  hr__plan_destroy(c->plan);
  c->plan = NULL;
  HR_TRY(hr__graph_compact(c->graph, err));
  return hr__plan_build(c->graph, s->open->facts, s->open->rates, &options, &c->plan, err);
}

double hr__candidate_seconds(const hr_candidate *c) {
  return c->plan ? c->plan->step_seconds : c->sketch->step_seconds;
}

uint64_t hr__candidate_bytes(const hr_candidate *c, hr_tier tier) {
  return c->plan ? c->plan->tiers[tier].peak_bytes : c->sketch->peak_bytes[tier];
}

uint64_t hr__candidate_peak(const hr_candidate *c) {
  return hr__candidate_bytes(c, HR_TIER_DEVICE);
}

bool hr__candidate_fits(const hr_open *open, const hr_candidate *c) {
  return hr__candidate_peak(c) <= open->budget_bytes && hr__candidate_bytes(c, HR_TIER_HOST) <= open->host_bytes &&
         hr__candidate_bytes(c, HR_TIER_DISK) <= open->disk_bytes;
}

void hr__candidate_over(const hr_open *open, const hr_candidate *c, uint64_t over[HR_TIER_COUNT]) {
  const uint64_t budgets[HR_TIER_COUNT] = {
      [HR_TIER_DEVICE] = open->budget_bytes, [HR_TIER_HOST] = open->host_bytes, [HR_TIER_DISK] = open->disk_bytes};
  for (int t = 0; t < HR_TIER_COUNT; t++)
    over[t] = hr__bytes_less(hr__candidate_bytes(c, (hr_tier)t), budgets[t]);
}

uint64_t hr__candidate_sure_bytes(const hr_open *open, const hr_plan *plan) {
  return !hr__effort_judges(open->effort) || plan->n_slots <= HR_JUDGED_SLOTS
             ? 0
             : open->budget_bytes - open->budget_bytes / 100;
}

bool hr__candidate_slow(const hr_choosing *s, double seconds) {
  if (s->limit_seconds > 0 && seconds > s->limit_seconds) return true;
  return s->best.graph && seconds >= hr__candidate_seconds(&s->best);
}

static void candidate_keep(hr_candidate *place, hr_candidate *c) {
  hr__candidate_fini(place);
  *place = *c;
  *c = (hr_candidate){0};
}

/* Over a budget: of those the smallest is remembered, of equal ones the fastest, as long as nothing fits. */
static hr_status candidate_miss(hr_choosing *s, hr_candidate *c, hr_error *err) {
  const hr_candidate *least = &s->least;
  uint64_t peak = hr__candidate_peak(c), known = least->graph ? hr__candidate_peak(least) : UINT64_MAX;
  bool faster = least->graph && hr__candidate_seconds(c) < hr__candidate_seconds(least);
  if (s->best.graph || (least->graph && peak >= known && !(peak == known && faster))) return HR_OK;
  HR_TRY(hr__candidate_make(s, c, err));
  candidate_keep(&s->least, c);
  return HR_OK;
}

/* By how much the layout of a sketch that holds just as much has missed the budget; 0: there was none. */
static uint64_t missed_find(const hr_choosing *s, uint64_t sketch_bytes) {
  for (size_t i = 0; i < s->n_missed; i++)
    if (s->missed[i].sketch_bytes == sketch_bytes) return s->missed[i].over_bytes;
  return 0;
}

static hr_status missed_add(hr_choosing *s, uint64_t sketch_bytes, uint64_t over_bytes, hr_error *err) {
  if (over_bytes == 0) return HR_OK;
  if (hr__arena_grow(&s->arena, (void **)&s->missed, &s->cap_missed, s->n_missed, sizeof *s->missed) != 0)
    return hr__nomem(err);
  s->missed[s->n_missed++] = (hr_missed){sketch_bytes, over_bytes};
  return HR_OK;
}

/* Of a sketch that may fit and is fast enough. */
static hr_status sketch_offer(hr_choosing *s, hr_candidate *c, uint64_t over[HR_TIER_COUNT], hr_error *err) {
  uint64_t sketch_bytes = hr__candidate_peak(c);
  HR_TRY(hr__candidate_make(s, c, err));
  bool sure = sketch_bytes <= hr__candidate_sure_bytes(s->open, c->plan);
  if (!sure && s->draft) over[HR_TIER_DEVICE] = missed_find(s, sketch_bytes);
  if (over[HR_TIER_DEVICE] > 0) return HR_OK;
  if (!sure) HR_TRY(hr__candidate_lay(s, c, s->draft, err));
  if (hr__candidate_fits(s->open, c)) {
    candidate_keep(&s->best, c);
    return HR_OK;
  }
  hr__candidate_over(s->open, c, over);
  HR_TRY(candidate_miss(s, c, err));
  return missed_add(s, sketch_bytes, over[HR_TIER_DEVICE], err);
}

hr_status hr__candidate_offer(hr_choosing *s, hr_candidate *c, uint64_t over[HR_TIER_COUNT], hr_error *err) {
  hr_status status = HR_OK;
  memset(over, 0, HR_TIER_COUNT * sizeof *over);
  if (!hr__candidate_fits(s->open, c)) {
    hr__candidate_over(s->open, c, over);
    status = candidate_miss(s, c, err);
  } else if (!hr__candidate_slow(s, hr__candidate_seconds(c))) {
    status = sketch_offer(s, c, over, err);
  }
  hr__candidate_fini(c);
  return status;
}
