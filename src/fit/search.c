/* search: see search.h. */
#include "fit/search.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "fit/bound.h"
#include "fit/numbering.h"
#include "model/model.h"
#include "plan/fingerprint.h"

enum { SETTINGS_MOST = 1 << 14, TOGETHER = 2 };

typedef struct setting {
  size_t number; /* in the order of the choices */
  bool refused;  /* contradicts itself, or has no kernel */
  hr_bound bound;
  double token_seconds; /* of the bound */
  bool pruned;
  bool uncut_misses; /* over the budget by what slices do not change */
} setting;

/* What is known of a setting with all blocks whole. */
typedef struct whole {
  double token_seconds; /* of the bound; 0: not known */
  bool uncut_misses;
} whole;

/* One that was planned. */
typedef struct outcome {
  hr_status status;
  hr_error error;
  hr_recipe *recipe;
  hr_chosen chosen;
  hr_found found;
} outcome;

typedef struct searching {
  const hr_space *space;
  hr_search *out;
  hr_arena scratch; /* what the answer does not name: a run would go on holding it */
  setting *settings;
  size_t n_settings;
  hr_pool *pool;
  hr_error *errors; /* per setting of a batch on threads */
  hr_status *statuses;
  atomic_size_t n_bounded; /* of all rounds so far */
  /* those that were planned */
  hr_found *planned;
  size_t cap_planned;
  size_t level, n_levels; /* of quality: the one being looked at */
  whole *wholes;          /* per number of a setting */
  bool any, last_resort;
  outcome best;
  size_t best_number;
  hr_error first_error; /* of a setting that was refused */
  hr_status first_status;
} searching;

static void progress_tell(const searching *s) {
  if (!s->space->progress) return;
  const hr_search *out = s->out;
  hr_search_state state = {.settings = out->n_settings,
                           .bounded = atomic_load(&s->n_bounded),
                           .planned = out->n_planned,
                           .done = out->n_planned + out->n_pruned + out->n_refused,
                           .by_sample = hr__model_vocabulary(s->space->recipe) == 0,
                           .token_seconds = s->any && s->best.found.fits ? s->best.found.token_seconds : 0};
  s->space->progress(s->space->user, &state);
}

/* --- settings of the space ---------------------------------------------------------------------------------------- */

/* Rounds: as it is; cut into slices, which always recomputes, and so only of settings that might still be faster than
 * what was found; with other results that nobody's hand has opened, and both, only when nothing fits before. */
enum { ROUND_SLICES = 1, ROUND_RESULTS = 2 };

static int round_of(const searching *s, size_t number) {
  int own = 0;
  for (size_t k = 0; k < s->out->n_knobs; k++) {
    const hr_knob *knob = &s->out->knobs[k];
    size_t choice = hr__number_choice(s->out, number, k);
    if (knob->slices && choice > 0) own |= ROUND_SLICES;
    if (!s->space->any_result && !knob->by_hand && knob->changes[choice]) own |= ROUND_RESULTS;
  }
  return own;
}

/* How many slices there may be of rows of an axis that the model has named. */
static int64_t slices_by_row(const hr_search *search) {
  for (size_t k = 0; k < search->n_knobs; k++)
    if (search->knobs[k].slices) return search->knobs[k].slices_by_row;
  return 0;
}

/* A recipe that is closed but for what fit/choose closes. As many slices as there are samples are the most, or rows. */
static hr_status setting_load(searching *s, size_t number, const hr_found *found, hr_recipe **recipe, hr_open *open,
                              hr_error *err) {
  *recipe = NULL;
  HR_TRY(s->space->load(s->space->user, found->overrides, found->n_overrides, recipe, open, err));
  int64_t slices = hr__number_slices(s->out, number), samples = hr__recipe_int(*recipe, "training.batch_size");
  int64_t rows = slices_by_row(s->out), most = samples > rows ? samples : rows;
  open->slices = slices < most ? slices : most;
  if (slices < 2 * most) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%" PRId64 " samples cannot be cut into %" PRId64 " slices", samples,
                  slices);
}

/* Of a step; samples where the model takes no tokens. */
static double tokens_of(const hr_recipe *recipe, int accumulation) {
  double samples = (double)hr__recipe_int(recipe, "training.batch_size") * accumulation;
  return hr__model_vocabulary(recipe) > 0 ? samples * (double)hr__recipe_int(recipe, "data.sequence_length") : samples;
}

/* --- bounds ------------------------------------------------------------------------------------------------------- */

static hr_status setting_bound(searching *s, setting *it, hr_arena *arena, hr_error *err) {
  hr_found found;
  hr_recipe *recipe;
  hr_open open = {0};
  HR_TRY(hr__number_describe(s->out, it->number, arena, &found, err));
  hr_status status = setting_load(s, it->number, &found, &recipe, &open, err);
  if (status == HR_OK) status = hr__bound(&open, &it->bound, err);
  if (status == HR_OK) {
    it->token_seconds = it->bound.step_seconds / tokens_of(recipe, open.accumulation);
    it->pruned = it->bound.device_bytes > open.budget_bytes;
    it->uncut_misses = it->bound.uncut_bytes > open.budget_bytes;
  }
  hr__recipe_destroy(recipe);
  return status;
}

static void bound_task(void *arg, int64_t task, int worker) {
  (void)worker;
  searching *s = arg;
  hr_arena arena;
  hr__arena_init(&arena);
  s->statuses[task] = setting_bound(s, &s->settings[task], &arena, &s->errors[task]);
  hr__arena_fini(&arena);
  atomic_fetch_add(&s->n_bounded, 1);
  progress_tell(s);
}

/* Only lack of memory ends the search: any other error means that the setting is none. */
static hr_status bounds_find(searching *s, hr_error *err) {
  s->errors = hr__arena_array(&s->scratch, s->n_settings, sizeof *s->errors);
  s->statuses = hr__arena_array(&s->scratch, s->n_settings, sizeof *s->statuses);
  if (!s->errors || !s->statuses) return hr__nomem(err);
  hr__pool_run(s->pool, s->space->threads, (int64_t)s->n_settings, bound_task, s);
  for (size_t i = 0; i < s->n_settings; i++) {
    if (s->statuses[i] == HR_NOMEM) return hr__nomem(err);
    s->settings[i].refused = s->statuses[i] != HR_OK;
    if (!s->settings[i].refused || s->first_status != HR_OK) continue;
    s->first_status = s->statuses[i];
    s->first_error = s->errors[i];
  }
  return HR_OK;
}

static int setting_compare(const void *a, const void *b) {
  const setting *x = a, *y = b;
  if (x->refused != y->refused) return x->refused ? 1 : -1;
  if (x->token_seconds != y->token_seconds) return x->token_seconds < y->token_seconds ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static void outcome_fini(outcome *o) {
  hr__chosen_fini(&o->chosen);
  hr__recipe_destroy(o->recipe);
  *o = (outcome){0};
}

typedef struct pair {
  searching *s;
  const setting *settings[TOGETHER];
  outcome outcomes[TOGETHER];
} pair;

static bool anything_fits(const searching *s) {
  return s->any && s->best.found.fits;
}

/* Seconds for a token above which nothing can be the answer; 0: there is no limit. */
static double limit_of(const searching *s) {
  return anything_fits(s) ? s->best.found.token_seconds : s->space->limit_token_seconds;
}

static hr_status setting_plan(searching *s, const setting *it, bool quick, outcome *o, hr_error *err) {
  hr_open open = {0};
  HR_TRY(setting_load(s, it->number, &o->found, &o->recipe, &open, err));
  open.effort = quick && !hr__effort_judges(s->space->effort) ? HR_EFFORT_DRAFT : s->space->effort;
  if (quick) open.limit_seconds = limit_of(s) * tokens_of(o->recipe, open.accumulation);
  HR_TRY(hr__choose(&open, &o->chosen, err));
  const hr_plan *plan = o->chosen.plan;
  if (!plan) return HR_OK; /* nothing that is as fast as the best */
  o->found.step_seconds = plan->step_seconds;
  o->found.token_seconds = plan->step_seconds / tokens_of(o->recipe, open.accumulation);
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    const hr_tier_plan *tier = &plan->tiers[t];
    bool laid = !hr__effort_judges(open.effort);
    o->found.peak_bytes[t] = laid ? tier->peak_bytes : tier->lower_bound_bytes + tier->fixed_bytes;
  }
  o->found.fits = plan->tiers[HR_TIER_DEVICE].peak_bytes <= open.budget_bytes &&
                  plan->tiers[HR_TIER_HOST].peak_bytes <= open.host_bytes &&
                  plan->tiers[HR_TIER_DISK].peak_bytes <= open.disk_bytes;
  return HR_OK;
}

static void plan_task(void *arg, int64_t task, int worker) {
  (void)worker;
  pair *p = arg;
  outcome *o = &p->outcomes[task];
  o->status = setting_plan(p->s, p->settings[task], p->s->out->n_settings > 1 || p->s->n_levels > 1, o, &o->error);
}

/* Whether a is to be taken instead of b. */
static bool found_better(const hr_found *a, size_t a_number, const hr_found *b, size_t b_number) {
  if (a->fits != b->fits) return a->fits;
  uint64_t a_peak = a->peak_bytes[HR_TIER_DEVICE], b_peak = b->peak_bytes[HR_TIER_DEVICE];
  if (!a->fits && a_peak != b_peak) return a_peak < b_peak;
  if (a->token_seconds != b->token_seconds) return a->token_seconds < b->token_seconds;
  if (a->changes_results != b->changes_results) return b->changes_results;
  if (a_peak != b_peak) return a_peak < b_peak;
  return a_number < b_number;
}

static hr_status outcome_take(searching *s, const setting *it, outcome *o, hr_error *err) {
  if (o->status == HR_NOMEM) return hr__nomem(err);
  if (o->status != HR_OK) { /* what a bound did not meet: a layout larger than the address space */
    s->out->n_refused++;
    if (s->first_status == HR_OK) {
      s->first_status = o->status;
      s->first_error = o->error;
    }
    return HR_OK;
  }
  if (!o->chosen.plan) {
    s->out->n_pruned++;
    return HR_OK;
  }
  if (hr__arena_grow(&s->out->arena, (void **)&s->planned, &s->cap_planned, s->out->n_planned, sizeof *s->planned) != 0)
    return hr__nomem(err);
  s->planned[s->out->n_planned++] = o->found;
  bool useless = s->last_resort && !o->found.fits; /* without a change of results that is worth something */
  if (s->any && (useless || !found_better(&o->found, it->number, &s->best.found, s->best_number))) return HR_OK;
  outcome_fini(&s->best);
  s->best = *o;
  *o = (outcome){0};
  s->best_number = it->number;
  s->any = true;
  return HR_OK;
}

/* Whether planning a setting can still change the answer. */
static bool setting_hopeless(const searching *s, const setting *it) {
  double limit = limit_of(s);
  return limit > 0 && (it->pruned || it->token_seconds > limit);
}

static hr_status pair_run(searching *s, pair *p, int count, hr_error *err) {
  hr_status status = HR_OK;
  for (int i = 0; i < count && status == HR_OK; i++)
    status = hr__number_describe(s->out, p->settings[i]->number, &s->out->arena, &p->outcomes[i].found, err);
  if (status == HR_OK) hr__pool_run(s->pool, s->space->threads, count, plan_task, p);
  for (int i = 0; i < count; i++) {
    if (status == HR_OK) status = outcome_take(s, p->settings[i], &p->outcomes[i], err);
    outcome_fini(&p->outcomes[i]);
  }
  progress_tell(s);
  return status;
}

/* Of settings whose bounds are about the same the one that memory is least short of by far goes first, and alone: how
 * fast it is cuts planning of all others short. */
static void first_settle(searching *s) {
  enum { FAR = 20 }; /* the part of all bytes */
  size_t first = 0;
  for (size_t i = 0; i < s->n_settings && !s->settings[i].refused; i++) {
    const setting *it = &s->settings[i], *best = &s->settings[first];
    bool near = it->token_seconds <= 1.02 * s->settings[0].token_seconds;
    if (near && it->pruned == best->pruned &&
        it->bound.resting_bytes < best->bound.resting_bytes - best->bound.resting_bytes / FAR)
      first = i;
  }
  setting taken = s->settings[first];
  memmove(s->settings + 1, s->settings, first * sizeof taken);
  s->settings[0] = taken;
}

/* Of many large settings that are all over the budget by their bound, only the one with the least bytes is planned; of
 * any, where it is all that is asked whether one fits. */
static void over_thin(searching *s) {
  enum { NODES = 20000 };
  size_t nodes = 0, least = SIZE_MAX;
  for (size_t i = 0; i < s->n_settings && !s->settings[i].refused; i++) {
    const hr_bound *bound = &s->settings[i].bound;
    if (!s->settings[i].pruned) return;
    nodes += bound->n_nodes;
    if (least == SIZE_MAX || bound->resting_bytes < s->settings[least].bound.resting_bytes) least = i;
  }
  bool many = nodes > NODES || s->space->effort == HR_EFFORT_VERDICT;
  if (!many || least == SIZE_MAX) return;
  s->settings[0] = s->settings[least];
  s->out->n_pruned += s->n_settings - 1;
  s->n_settings = 1;
}

/* Settings that are over the budget by their bound come last, and only where nothing fits, not even with less quality:
 * for the smallest plan. */
static hr_status settings_plan(searching *s, hr_error *err) {
  bool least = s->level + 1 == s->n_levels;
  if (least) over_thin(s);
  if (s->n_settings > 0) first_settle(s);
  for (size_t i = 0; i < s->n_settings && !least; i++)
    s->out->n_pruned += s->settings[i].pruned && !s->settings[i].refused;
  for (int over = 0; over < (least ? 2 : 1); over++) {
    if (over && s->any && s->space->effort == HR_EFFORT_VERDICT) return HR_OK; /* it is known: none fits */
    for (size_t i = 0; i < s->n_settings && !s->settings[i].refused;) {
      pair p = {.s = s};
      int count = 0, together = i == 0 ? 1 : TOGETHER;
      for (; count < together && i < s->n_settings && !s->settings[i].refused; i++) {
        if (s->settings[i].pruned != over) continue;
        if (setting_hopeless(s, &s->settings[i]))
          s->out->n_pruned++;
        else
          p.settings[count++] = &s->settings[i];
      }
      HR_TRY(pair_run(s, &p, count, err));
    }
  }
  return HR_OK;
}

/* --- the frontier ------------------------------------------------------------------------------------------------- */

static int found_compare(const void *a, const void *b) {
  const hr_found *x = a, *y = b;
  if (x->token_seconds != y->token_seconds) return x->token_seconds < y->token_seconds ? -1 : 1;
  uint64_t x_peak = x->peak_bytes[HR_TIER_DEVICE], y_peak = y->peak_bytes[HR_TIER_DEVICE];
  return x_peak < y_peak ? -1 : x_peak > y_peak;
}

void hr__search_frontier(hr_search *out, hr_found *planned) {
  qsort(planned, out->n_planned, sizeof *planned, found_compare);
  for (size_t i = 0; i < out->n_planned; i++) {
    bool beaten = out->n_frontier > 0 &&
                  planned[out->n_frontier - 1].peak_bytes[HR_TIER_DEVICE] <= planned[i].peak_bytes[HR_TIER_DEVICE];
    bool chosen = planned[i].overrides == out->chosen.overrides;
    if (beaten && !chosen) continue;
    if (chosen) out->at = out->n_frontier;
    planned[out->n_frontier++] = planned[i];
  }
  out->frontier = planned;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Whether slices may help: not where what they leave as it is misses the budget, and not where even the whole blocks'
 * bound is above the best time. */
static bool slices_hopeful(const searching *s, size_t number) {
  const whole *known = &s->wholes[hr__number_whole(s->out, number)];
  if (known->uncut_misses) return false;
  return !anything_fits(s) || known->token_seconds < s->best.found.token_seconds;
}

static hr_status round_run(searching *s, size_t total, int round, hr_error *err) {
  s->settings = hr__arena_array(&s->scratch, total, sizeof *s->settings);
  if (!s->settings) return hr__nomem(err);
  s->n_settings = 0;
  s->last_resort = round & ROUND_RESULTS;
  for (size_t number = 0; number < total; number++)
    if (hr__number_level(s->out, number) == s->level && round_of(s, number) == round &&
        (!(round & ROUND_SLICES) || slices_hopeful(s, number)))
      s->settings[s->n_settings++].number = number;
  s->out->n_settings += s->n_settings;
  if (total > 1) HR_TRY(bounds_find(s, err)); /* a single setting has nothing to be compared with */
  for (size_t i = 0; i < s->n_settings && !(round & ROUND_SLICES); i++) {
    const setting *it = &s->settings[i];
    if (!it->refused) s->wholes[it->number] = (whole){it->token_seconds, it->uncut_misses};
  }
  qsort(s->settings, s->n_settings, sizeof *s->settings, setting_compare);
  for (size_t i = 0; i < s->n_settings; i++)
    s->out->n_refused += s->settings[i].refused;
  return settings_plan(s, err);
}

/* Of many settings none of which fits the smallest was not laid out. */
static hr_status best_lay(searching *s, hr_error *err) {
  if (s->best.found.fits || s->out->n_settings < 2 || hr__effort_judges(s->space->effort)) return HR_OK;
  const setting it = {.number = s->best_number};
  outcome laid = {.found = s->best.found};
  hr_status status = setting_plan(s, &it, false, &laid, err);
  if (status == HR_OK && laid.chosen.plan) {
    outcome_fini(&s->best);
    s->best = laid;
    return HR_OK;
  }
  outcome_fini(&laid);
  return status;
}

static hr_status search(searching *s, hr_error *err) {
  hr_search *out = s->out;
  size_t total;
  HR_TRY(hr__knobs_find(s->space->recipe, s->space->all, &out->arena, &out->knobs, &out->n_knobs, err));
  total = hr__numbers_count(out, SETTINGS_MOST);
  if (total > SETTINGS_MOST)
    return hr__fail(err, HR_BAD_INPUT, hr__recipe_name(s->space->recipe), "open fewer settings, or with fewer choices",
                    "more than %d settings are left open at once", SETTINGS_MOST);
  if (total > 1 && s->space->threads > 1) HR_TRY(hr__pool_create(s->space->threads, &s->pool, err));
  s->wholes = hr__arena_array(&s->scratch, total, sizeof *s->wholes);
  if (!s->wholes) return hr__nomem(err);
  s->n_levels = hr__levels_count(out);
  for (int results = 0; results <= ROUND_RESULTS; results += ROUND_RESULTS)
    for (s->level = 0; s->level < s->n_levels && !anything_fits(s); s->level++) {
      HR_TRY(round_run(s, total, results, err));
      if (results == 0 || !anything_fits(s)) HR_TRY(round_run(s, total, results | ROUND_SLICES, err));
    }
  if (!s->any && s->space->limit_token_seconds > 0) return HR_OK;
  if (!s->any) {
    if (err) *err = s->first_error;
    return s->first_status;
  }
  HR_TRY(best_lay(s, err));
  hr_plan *plan = s->best.chosen.plan;
  if (plan && !hr__effort_judges(s->space->effort)) HR_TRY(hr__plan_fingerprint(plan, plan->fingerprint, err));
  out->chosen = s->best.found;
  hr__search_frontier(out, s->planned);
  return HR_OK;
}

hr_status hr__search(const hr_space *space, hr_search *out, hr_recipe **recipe, hr_chosen *chosen, hr_error *err) {
  *out = (hr_search){0};
  hr__arena_init(&out->arena);
  searching s = {.space = space, .out = out};
  hr__arena_init(&s.scratch);
  hr_status status = search(&s, err);
  hr__pool_destroy(s.pool);
  hr__arena_fini(&s.scratch);
  if (status == HR_OK) {
    *recipe = s.best.recipe;
    *chosen = s.best.chosen;
    return HR_OK;
  }
  outcome_fini(&s.best);
  hr__search_fini(out);
  return status;
}

void hr__search_fini(hr_search *search) {
  hr__arena_fini(&search->arena);
  *search = (hr_search){0};
}
