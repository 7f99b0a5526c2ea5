/* choose: see choose.h. */
#include "fit/choose.h"

#include <stdio.h>
#include <string.h>

#include "fit/placement.h"

const char *hr__keep_name(hr_keep keep) {
  static const char *const names[] = {[HR_KEEP_ALL] = "all",
                                      [HR_KEEP_SELECTIVE] = "selective",
                                      [HR_KEEP_INPUT] = "input",
                                      [HR_KEEP_OFFLOADED] = "offloaded input"};
  return names[keep];
}

const char *hr__offload_name(hr_offload_kind kind) {
  static const char *const names[] = {[HR_OFFLOAD_OPTIMIZER] = "optimizer",
                                      [HR_OFFLOAD_PARAMETERS] = "parameters",
                                      [HR_OFFLOAD_GRADIENTS] = "gradients",
                                      [HR_OFFLOAD_ACTIVATIONS] = "activations"};
  return names[kind];
}

bool hr__offload_has(hr_offload_kind kind, hr_role role) {
  static const hr_role roles[] = {[HR_OFFLOAD_OPTIMIZER] = HR_ROLE_OPTIMIZER,
                                  [HR_OFFLOAD_PARAMETERS] = HR_ROLE_PARAMETER,
                                  [HR_OFFLOAD_GRADIENTS] = HR_ROLE_GRADIENT,
                                  [HR_OFFLOAD_ACTIVATIONS] = HR_ROLE_ACTIVATION};
  return role == roles[kind] || (kind == HR_OFFLOAD_OPTIMIZER && role == HR_ROLE_AVERAGE);
}

static bool setting_is_auto(const hr_recipe *recipe, const char *path) {
  return hr__recipe_word_is(recipe, path, "auto");
}

static bool kind_is_auto(const hr_recipe *recipe, hr_offload_kind kind) {
  char path[64];
  snprintf(path, sizeof path, "memory.offload.%s", hr__offload_name(kind));
  return setting_is_auto(recipe, path);
}

bool hr__choose_closes(const hr_recipe *recipe, const hr_technique_key *technique) {
  return technique->flags & (HR_TECHNIQUE_CHOSEN | HR_TECHNIQUE_SLICED) && setting_is_auto(recipe, technique->path);
}

bool hr__choose_any(const hr_recipe *recipe) {
  bool any = false;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++)
    any |= hr__choose_closes(recipe, &hr_technique_keys[i]);
  return any;
}

/* Whether no layout can fit. */
static bool bound_misses(const hr_open *open, const hr_plan *plan) {
  const uint64_t budgets[HR_TIER_COUNT] = {
      [HR_TIER_DEVICE] = open->budget_bytes, [HR_TIER_HOST] = open->host_bytes, [HR_TIER_DISK] = open->disk_bytes};
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (plan->tiers[t].lower_bound_bytes + plan->tiers[t].fixed_bytes > budgets[t]) return true;
  return false;
}

/* The fastest plan that fits; without one the smallest, laid out with effort only where it may fit after all, and as
 * one of many not at all. */
static hr_status chosen_take(hr_choosing *s, hr_error *err) {
  hr_candidate *c = s->best.graph ? &s->best : &s->least;
  hr_chosen *out = s->out;
  double limit = s->open->limit_seconds;
  if (limit > 0 && (c == &s->least || c->plan->step_seconds > limit)) return HR_OK;
  if (c == &s->least && s->open->effort == HR_EFFORT_RUN)
    HR_TRY(hr__candidate_lay(s, c, bound_misses(s->open, c->plan), err));
  out->choices = c->choices;
  if (c->keep) {
    hr_keep *keep = hr__arena_array(&out->arena, c->choices.n_keep, sizeof *keep);
    if (!keep) return hr__nomem(err);
    memcpy(keep, c->keep, c->choices.n_keep * sizeof *keep);
    out->choices.keep = keep;
  }
  out->graph = c->graph;
  out->plan = c->plan;
  c->graph = NULL;
  c->plan = NULL;
  if (hr__effort_judges(s->open->effort)) { /* then it may not be laid out, and is no more than a branch */
    out->trunk = s->trunk;
    s->trunk = NULL;
  }
  return HR_OK;
}

static hr_status choose(hr_choosing *s, hr_error *err) {
  const hr_open *open = s->open;
  hr_chosen *out = s->out;
  out->any = hr__choose_any(open->recipe);
  out->split = setting_is_auto(open->recipe, "memory.split");
  out->choices.slices = out->split && open->slices > 1 ? open->slices : 1;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    out->open[k] = kind_is_auto(open->recipe, (hr_offload_kind)k);
    out->choices.offload[k].resident_bytes = UINT64_MAX;
    out->choices.offload[k].tier = HR_TIER_HOST;
  }
  s->keeps = setting_is_auto(open->recipe, "memory.checkpoint");
  out->choices.few_tiles = hr__effort_judges(open->effort);
  HR_TRY(hr__keep_choose(s, err));
  if (!s->hopeless) HR_TRY(hr__move_choose(s, err));
  return chosen_take(s, err);
}

hr_status hr__choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  *out = (hr_chosen){0};
  hr_prospects prospects = {.count = 0};
  hr_choosing s = {.open = open, .out = out, .limit_seconds = open->limit_seconds, .prospects = &prospects};
  prospects.choosing = &s;
  hr_status status = choose(&s, err);
  hr__candidate_fini(&s.best);
  hr__candidate_fini(&s.least);
  hr__trunk_destroy(s.trunk);
  hr__arena_fini(&s.arena);
  if (status != HR_OK) hr__chosen_fini(out);
  return status;
}

void hr__chosen_fini(hr_chosen *chosen) {
  hr__plan_destroy(chosen->plan);
  hr__graph_destroy(chosen->graph);
  hr__trunk_destroy(chosen->trunk);
  hr__arena_fini(&chosen->arena);
  *chosen = (hr_chosen){0};
}
