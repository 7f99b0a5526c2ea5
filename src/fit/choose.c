/* choose: see choose.h. */
#include "fit/choose.h"

#include <stdio.h>
#include <string.h>

#include "fit/blocks.h"

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

static bool setting_is_auto(const hr_recipe *recipe, const char *path) {
  return hr__recipe_has(recipe, path) && !hr__recipe_tree(recipe, path) &&
         strcmp(hr__recipe_text(recipe, path), "auto") == 0;
}

/* --- candidates -----------------------------------------------------------------------------------------------------
 */

typedef struct candidate {
  hr_graph *graph;
  hr_plan *plan;
} candidate;

static void candidate_fini(candidate *c) {
  hr__plan_destroy(c->plan);
  hr__graph_destroy(c->graph);
  *c = (candidate){0};
}

static hr_status candidate_make(const hr_open *open, const hr_choices *choices, bool draft, candidate *c,
                                hr_error *err) {
  *c = (candidate){0};
  HR_TRY(hr__compile(open->recipe, choices, NULL, &c->graph, err));
  hr_plan_options options = {.accumulation = open->accumulation, .draft = draft, .budget_bytes = open->budget_bytes};
  hr_status status = hr__plan_build(c->graph, open->facts, open->rates, &options, &c->plan, err);
  if (status != HR_OK) candidate_fini(c);
  return status;
}

static uint64_t candidate_peak(const candidate *c) {
  return c->plan->tiers[HR_TIER_DEVICE].peak_bytes;
}

static bool candidate_fits(const hr_open *open, const candidate *c) {
  return candidate_peak(c) <= open->budget_bytes && c->plan->tiers[HR_TIER_HOST].peak_bytes <= open->host_bytes &&
         c->plan->tiers[HR_TIER_DISK].peak_bytes <= open->disk_bytes;
}

/* Takes the place of what was found before. */
static void candidate_take(hr_chosen *out, candidate *c) {
  candidate before = {out->graph, out->plan};
  candidate_fini(&before);
  out->graph = c->graph;
  out->plan = c->plan;
  *c = (candidate){0};
}

/* --- checkpointing --------------------------------------------------------------------------------------------------
 */

/* Variants of a block, in this order; the last only where activations may be moved. */
static const hr_keep variants[] = {HR_KEEP_ALL, HR_KEEP_SELECTIVE, HR_KEEP_INPUT, HR_KEEP_OFFLOADED};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

typedef struct search {
  const hr_open *open;
  hr_chosen *out;
  hr_keep *keep;    /* being tried, per block */
  hr_keep *settled; /* those of the chosen plan */
  size_t n_keep;
  hr_arena arena;
} search;

static hr_status keep_try(search *s, candidate *c, hr_error *err) {
  hr_choices choices = s->out->choices;
  choices.keep = s->keep;
  choices.n_keep = s->n_keep;
  return candidate_make(s->open, &choices, false, c, err);
}

static void keep_settle(search *s, candidate *c) {
  memcpy(s->settled, s->keep, s->n_keep * sizeof *s->keep);
  candidate_take(s->out, c);
}

static hr_status frontier_solve(search *s, hr_blocks *blocks, hr_chain *chain, hr_error *err) {
  HR_TRY(hr__blocks_init(blocks, s->n_keep, &s->arena, err));
  HR_TRY(hr__blocks_read(blocks, s->out->plan, s->open->accumulation, err)); /* all kept */
  int n_variants = VARIANTS - !s->out->open[HR_OFFLOAD_ACTIVATIONS];
  for (int v = 1; v < n_variants; v++) {
    for (size_t i = 0; i < s->n_keep; i++)
      s->keep[i] = variants[v];
    candidate c;
    HR_TRY(keep_try(s, &c, err));
    hr_status status = hr__blocks_read(blocks, c.plan, s->open->accumulation, err);
    /* the smallest plan so far: the answer if none fits */
    if (status == HR_OK && candidate_peak(&c) < s->out->plan->tiers[HR_TIER_DEVICE].peak_bytes) keep_settle(s, &c);
    candidate_fini(&c);
    HR_TRY(status);
  }
  return hr__chain_solve(blocks->blocks, s->n_keep, blocks->tail_bytes, &s->arena, chain, err);
}

/* Plans an entry and takes the plan if it fits, or, with `anyway`, if it is no larger than what there is. */
static hr_status entry_try(search *s, const hr_chain *chain, size_t entry, uint8_t *choice, bool anyway, bool *fits,
                           hr_error *err) {
  hr__chain_choice(chain, entry, choice);
  for (size_t i = 0; i < s->n_keep; i++)
    s->keep[i] = variants[choice[i]];
  candidate c;
  HR_TRY(keep_try(s, &c, err));
  *fits = candidate_fits(s->open, &c);
  if (*fits || (anyway && candidate_peak(&c) <= s->out->plan->tiers[HR_TIER_DEVICE].peak_bytes)) keep_settle(s, &c);
  candidate_fini(&c);
  return HR_OK;
}

/* The first entry, fastest first, whose plan fits. Entries that cannot fit by what is alive at once are passed over. */
static hr_status frontier_scan(search *s, const hr_blocks *blocks, const hr_chain *chain, hr_error *err) {
  uint8_t *choice = hr__arena_array(&s->arena, s->n_keep, sizeof *choice);
  if (!choice) return hr__nomem(err);
  bool fits = false;
  for (size_t e = 0; e < chain->n_entries && !fits; e++) {
    uint64_t inside = blocks->base_bytes + chain->entries[e].peak_bytes;
    uint64_t alive = inside > blocks->outside_bytes ? inside : blocks->outside_bytes;
    if (alive + s->open->facts->fixed_bytes <= s->open->budget_bytes)
      HR_TRY(entry_try(s, chain, e, choice, false, &fits, err));
  }
  if (fits || candidate_fits(s->open, &(candidate){s->out->graph, s->out->plan})) return HR_OK;
  return entry_try(s, chain, chain->n_entries - 1, choice, true, &fits,
                   err); /* the smallest, made as fast as it can be */
}

static hr_status checkpoint_search(search *s, hr_error *err) {
  candidate c;
  HR_TRY(keep_try(s, &c, err)); /* without blocks known: all kept */
  candidate_take(s->out, &c);
  HR_TRY(hr__blocks_count(s->out->graph, &s->arena, &s->n_keep, err));
  s->keep = hr__arena_array(&s->arena, s->n_keep, sizeof *s->keep);
  s->settled = hr__arena_array(&s->out->arena, s->n_keep, sizeof *s->settled); /* zero: all */
  if (!s->keep || !s->settled) return hr__nomem(err);
  s->out->choices.keep = s->settled;
  s->out->choices.n_keep = s->n_keep;
  candidate all = {s->out->graph, s->out->plan};
  if (candidate_fits(s->open, &all) || s->n_keep == 0) return HR_OK;
  hr_blocks blocks;
  hr_chain chain;
  HR_TRY(frontier_solve(s, &blocks, &chain, err));
  return frontier_scan(s, &blocks, &chain, err);
}

static hr_status checkpoint_choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  search s = {.open = open, .out = out};
  hr_status status = checkpoint_search(&s, err);
  hr__arena_fini(&s.arena);
  return status;
}

/* --- offload --------------------------------------------------------------------------------------------------------
 */

/* Bytes of a kind on the device when all of it stays there. */
static uint64_t kind_bytes(const hr_plan *plan, hr_offload_kind kind) {
  static const hr_role roles[] = {[HR_OFFLOAD_OPTIMIZER] = HR_ROLE_OPTIMIZER,
                                  [HR_OFFLOAD_PARAMETERS] = HR_ROLE_PARAMETER,
                                  [HR_OFFLOAD_GRADIENTS] = HR_ROLE_GRADIENT,
                                  [HR_OFFLOAD_ACTIVATIONS] = HR_ROLE_ACTIVATION};
  const hr_graph *g = plan->graph;
  uint64_t bytes = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].role == roles[kind] && g->buffers[b].home == HR_TIER_DEVICE) bytes += g->buffers[b].bytes;
  return bytes;
}

/* Plans with `resident` bytes of a kind on the device, the rest on the host if it has room, else on the disk, and takes
 * the plan if it fits the device or is the smallest so far. */
static hr_status resident_try(const hr_open *open, hr_chosen *out, hr_offload_kind kind, uint64_t resident,
                              const hr_keep *keep, bool *fits, hr_error *err) {
  hr_choices choices = out->choices;
  choices.keep = keep;
  choices.offload[kind].resident_bytes = resident;
  choices.offload[kind].tier = HR_TIER_HOST;
  candidate c;
  HR_TRY(candidate_make(open, &choices, true, &c, err));
  if (c.plan->tiers[HR_TIER_HOST].peak_bytes > open->host_bytes) {
    candidate_fini(&c);
    choices.offload[kind].tier = HR_TIER_DISK;
    HR_TRY(candidate_make(open, &choices, true, &c, err));
  }
  *fits = candidate_peak(&c) <= open->budget_bytes;
  if (*fits || candidate_peak(&c) < out->plan->tiers[HR_TIER_DEVICE].peak_bytes) {
    out->choices = choices;
    candidate_take(out, &c);
  }
  candidate_fini(&c);
  return HR_OK;
}

/* The largest part of a kind that may stay, in steps of one of 256 of it, which also takes least of the tiers below;
 * nothing of it if even that is too much. What was the smallest way to keep blocks need not be so once a kind is gone:
 * `input` is tried as well. */
static hr_status kind_stream(const hr_open *open, hr_chosen *out, hr_offload_kind kind, const hr_keep *input,
                             bool *fits, hr_error *err) {
  enum { STEPS = 256 };
  uint64_t all = kind_bytes(out->plan, kind);
  HR_TRY(resident_try(open, out, kind, 0, out->choices.keep, fits, err));
  if (!*fits && input && out->choices.keep != input) HR_TRY(resident_try(open, out, kind, 0, input, fits, err));
  if (!*fits) return HR_OK;
  for (uint64_t low = 0, high = STEPS; high - low > 1;) {
    uint64_t middle = low + (high - low) / 2;
    bool middle_fits;
    HR_TRY(resident_try(open, out, kind, all / STEPS * middle, out->choices.keep, &middle_fits, err));
    *(middle_fits ? &low : &high) = middle;
  }
  return HR_OK;
}

static hr_status offload_choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  static const hr_offload_kind kinds[] = {HR_OFFLOAD_OPTIMIZER, HR_OFFLOAD_ACTIVATIONS, HR_OFFLOAD_GRADIENTS,
                                          HR_OFFLOAD_PARAMETERS};
  bool fits = out->plan->tiers[HR_TIER_DEVICE].peak_bytes <= open->budget_bytes;
  hr_keep *input = NULL; /* of every block only what enters it */
  if (!fits && out->choices.keep) {
    input = hr__arena_array(&out->arena, out->choices.n_keep, sizeof *input);
    if (!input) return hr__nomem(err);
    for (size_t i = 0; i < out->choices.n_keep; i++)
      input[i] = HR_KEEP_INPUT;
  }
  bool drafted = false;
  for (int k = 0; k < HR_OFFLOAD_KINDS && !fits; k++) {
    if (!out->open[kinds[k]]) continue;
    HR_TRY(kind_stream(open, out, kinds[k], input, &fits, err));
    drafted = true;
  }
  if (!drafted) return HR_OK;
  candidate c; /* the drafted plan, laid out as well as it can be */
  HR_TRY(candidate_make(open, &out->choices, false, &c, err));
  if (candidate_peak(&c) <= out->plan->tiers[HR_TIER_DEVICE].peak_bytes) candidate_take(out, &c);
  candidate_fini(&c);
  return HR_OK;
}

/* --- where updates are done -----------------------------------------------------------------------------------------
 */

static bool state_on_host(const hr_graph *g) {
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].persistent && g->buffers[b].role == HR_ROLE_OPTIMIZER && g->buffers[b].home == HR_TIER_HOST)
      return true;
  return false;
}

/* Beside a GPU the processor updates what lives in its memory where the plan says that this is faster. */
static hr_status update_choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  if (open->facts->kind == HR_CPU || !setting_is_auto(open->recipe, "memory.offload.update")) return HR_OK;
  if (!state_on_host(out->graph)) return HR_OK;
  hr_choices choices = out->choices;
  choices.update_on_host = true;
  candidate now = {out->graph, out->plan}, c;
  HR_TRY(candidate_make(open, &choices, false, &c, err));
  bool fits = candidate_fits(open, &c) || (!candidate_fits(open, &now) && candidate_peak(&c) <= candidate_peak(&now));
  if (fits && c.plan->step_seconds < out->plan->step_seconds) {
    out->choices.update_on_host = out->any = true;
    candidate_take(out, &c);
  }
  candidate_fini(&c);
  return HR_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------------------
 */

static bool kind_is_auto(const hr_recipe *recipe, hr_offload_kind kind) {
  char path[64];
  snprintf(path, sizeof path, "memory.offload.%s", hr__offload_name(kind));
  return setting_is_auto(recipe, path);
}

bool hr__choose_any(const hr_recipe *recipe) {
  bool any = setting_is_auto(recipe, "memory.checkpoint") || setting_is_auto(recipe, "memory.split");
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    any |= kind_is_auto(recipe, (hr_offload_kind)k);
  return any;
}

static hr_status choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  out->any = hr__choose_any(open->recipe);
  out->split = setting_is_auto(open->recipe, "memory.split");
  out->choices.slices = out->split && open->slices > 1 ? open->slices : 1;
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    out->open[k] = kind_is_auto(open->recipe, (hr_offload_kind)k);
    out->choices.offload[k].resident_bytes = UINT64_MAX;
    out->choices.offload[k].tier = HR_TIER_HOST;
  }
  if (setting_is_auto(open->recipe, "memory.checkpoint")) {
    HR_TRY(checkpoint_choose(open, out, err));
  } else {
    candidate c;
    HR_TRY(candidate_make(open, out->any ? &out->choices : NULL, false, &c, err));
    candidate_take(out, &c);
  }
  HR_TRY(offload_choose(open, out, err));
  return update_choose(open, out, err);
}

hr_status hr__choose(const hr_open *open, hr_chosen *out, hr_error *err) {
  *out = (hr_chosen){0};
  hr_status status = choose(open, out, err);
  if (status != HR_OK) hr__chosen_fini(out);
  return status;
}

void hr__chosen_fini(hr_chosen *chosen) {
  hr__plan_destroy(chosen->plan);
  hr__graph_destroy(chosen->graph);
  hr__arena_fini(&chosen->arena);
  *chosen = (hr_chosen){0};
}
