/* The search for PyTorch: of what a recipe leaves open, the settings with the least estimated seconds whose run the
 * driver's bytes fit. See engine_plan.h.
 *
 * What is open is found as for headroom (fit/knobs.h), less what PyTorch has not; checkpointing, which headroom mixes
 * by block, is a setting as any other: none or every layer. Every setting is simulated; the order of preference is that
 * of fit/search.h: the highest quality, then the least seconds per token; settings with other results that nobody's
 * hand has opened count only where nothing else fits.
 */
#include <string.h>

#include "fit/numbering.h"
#include "job/engine_plan.h"

#define CHECKPOINT "memory.checkpoint"

enum { SETTINGS_MOST = 4096 };

typedef struct searching {
  const hr_space *space;
  hr_search *out;
  hr_found *planned; /* out->n_planned of them */
  size_t capacity;
  size_t best;        /* among them */
  hr_engine_run *run; /* of the best */
  hr_status first_status;
  hr_error first_error;
} searching;

/* --- what is open ------------------------------------------------------------------------------------------------- */

static hr_status knobs_read(searching *s, hr_error *err) {
  static const char *const layers[] = {"none", "every-layer"};
  static const bool same[2] = {false, false};
  const hr_recipe *recipe = s->space->recipe;
  hr_search *out = s->out;
  const hr_knob *all;
  size_t count;
  HR_TRY(hr__knobs_find(recipe, s->space->all, &out->arena, &all, &count, err));
  hr_knob *knobs = hr__arena_array(&out->arena, count + 1, sizeof *knobs);
  if (!knobs) return hr__nomem(err);
  bool open = hr__recipe_word_is(recipe, CHECKPOINT, "auto"), by_hand = open;
  for (size_t i = 0; i < count; i++) {
    if (hr__engine_lacks(all[i].path)) continue;
    bool checkpoint = strcmp(all[i].path, CHECKPOINT) == 0;
    open |= checkpoint;
    if (checkpoint && !all[i].by_hand) continue; /* below, with words of its own */
    if (checkpoint) open = false;
    knobs[out->n_knobs++] = all[i];
  }
  if (open)
    knobs[out->n_knobs++] =
        (hr_knob){.path = CHECKPOINT, .choices = layers, .changes = same, .n_choices = 2, .by_hand = by_hand};
  out->knobs = knobs;
  return HR_OK;
}

/* --- one setting -------------------------------------------------------------------------------------------------- */

/* Which of the rounds a setting belongs to: with other results that nobody's hand has opened it is of the last one. */
static bool unasked(const searching *s, size_t number) {
  for (size_t k = 0; k < s->out->n_knobs; k++) {
    const hr_knob *knob = &s->out->knobs[k];
    if (!s->space->any_result && !knob->by_hand && knob->changes[hr__number_choice(s->out, number, k)]) return true;
  }
  return false;
}

static hr_status found_judge(const hr_recipe *recipe, const hr_open *open, const hr_engine_run *run, hr_found *found,
                             hr_error *err) {
  hr_training_shape shape;
  hr_budget budget;
  HR_TRY(hr__training_shape(recipe, &shape, err));
  HR_TRY(hr__engine_budget(recipe, open->facts, &budget, err));
  found->step_seconds = hr__engine_seconds(run, open->rates, shape.accumulation);
  found->token_seconds = found->step_seconds / (double)(shape.batch * shape.accumulation * shape.length);
  found->peak_bytes[HR_TIER_DEVICE] = run->driver_bytes;
  found->peak_bytes[HR_TIER_HOST] = run->host.parameters + run->host.gradients + run->host.optimizer;
  found->fits = run->driver_bytes + budget.margin_bytes <= budget.budget_bytes &&
                found->peak_bytes[HR_TIER_HOST] <= budget.host_bytes;
  return HR_OK;
}

/* What a setting comes to, with its run. */
static hr_status setting_try(searching *s, size_t number, hr_found *found, hr_engine_run *run, hr_error *err) {
  hr_recipe *recipe = NULL;
  hr_open open = {0};
  HR_TRY(hr__number_describe(s->out, number, &s->out->arena, found, err));
  hr_status status = s->space->load(s->space->user, found->overrides, found->n_overrides, &recipe, &open, err);
  if (status == HR_OK) status = hr__engine_simulate(recipe, open.facts, run, err);
  if (status == HR_OK) status = found_judge(recipe, &open, run, found, err);
  hr__recipe_destroy(recipe);
  return status;
}

static bool found_better(const hr_found *a, const hr_found *b) {
  if (a->fits != b->fits) return a->fits;
  uint64_t a_peak = a->peak_bytes[HR_TIER_DEVICE], b_peak = b->peak_bytes[HR_TIER_DEVICE];
  if (!a->fits) return a_peak < b_peak;
  if (a->token_seconds != b->token_seconds) return a->token_seconds < b->token_seconds;
  return a_peak < b_peak;
}

static hr_status found_keep(searching *s, const hr_found *found, hr_engine_run *run, hr_error *err) {
  if (hr__arena_grow(&s->out->arena, (void **)&s->planned, &s->capacity, s->out->n_planned, sizeof *s->planned) != 0)
    return hr__nomem(err);
  s->planned[s->out->n_planned] = *found;
  bool first = s->out->n_planned++ == 0;
  if (!first && !found_better(found, &s->planned[s->best])) return HR_OK;
  s->best = s->out->n_planned - 1;
  hr_engine_run before = *s->run;
  *s->run = *run;
  *run = before; /* for whoever ends it */
  s->run->result.events = &s->run->events;
  return HR_OK;
}

static hr_status setting_take(searching *s, size_t number, hr_error *err) {
  hr_found found;
  hr_error why = {0};
  hr_engine_run run = {0};
  s->out->n_settings++;
  hr_status status = setting_try(s, number, &found, &run, &why);
  if (status == HR_OK) {
    status = found_keep(s, &found, &run, err);
  } else if (status == HR_NOMEM) {
    hr__nomem(err);
  } else {
    s->out->n_refused++;
    if (s->first_status == HR_OK) {
      s->first_status = status;
      s->first_error = why;
    }
    status = HR_OK;
  }
  hr__engine_fini(&run);
  return status;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static bool anything_fits(const searching *s) {
  return s->out->n_planned > 0 && s->planned[s->best].fits;
}

static hr_status settings_try(searching *s, hr_error *err) {
  HR_TRY(knobs_read(s, err));
  size_t total = hr__numbers_count(s->out, SETTINGS_MOST);
  if (total > SETTINGS_MOST)
    return hr__fail(err, HR_BAD_INPUT, hr__recipe_name(s->space->recipe), "open fewer settings, or with fewer choices",
                    "more than %d settings are left open at once", SETTINGS_MOST);
  for (int last = 0; last < 2; last++)
    for (size_t level = 0; level < hr__levels_count(s->out) && !anything_fits(s); level++)
      for (size_t number = 0; number < total; number++)
        if (hr__number_level(s->out, number) == level && unasked(s, number) == (last == 1))
          HR_TRY(setting_take(s, number, err));
  if (s->out->n_planned > 0) {
    s->out->chosen = s->planned[s->best];
    hr__search_frontier(s->out, s->planned);
    return HR_OK;
  }
  if (err) *err = s->first_error;
  return s->first_status;
}

hr_status hr__engine_search(const hr_space *space, hr_search *out, hr_recipe **recipe, hr_chosen *chosen,
                            hr_engine_run *run, hr_error *err) {
  *out = (hr_search){0};
  hr__arena_init(&out->arena);
  searching s = {.space = space, .out = out, .run = run};
  hr_open open = {0};
  HR_TRY(settings_try(&s, err));
  *recipe = NULL;
  hr_status status = space->load(space->user, out->chosen.overrides, out->chosen.n_overrides, recipe, &open, err);
  if (status == HR_OK && !hr__effort_judges(space->effort))
    status = hr__engine_plan(*recipe, open.facts, open.rates, run, chosen, err);
  if (status == HR_OK) return HR_OK;
  hr__recipe_destroy(*recipe);
  *recipe = NULL;
  return status;
}
