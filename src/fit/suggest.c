/* suggest: see suggest.h. */
#include "fit/suggest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

typedef struct search {
  const hr_recipe *recipe;
  uint64_t budget_bytes;
  hr_plan_changed plan;
  void *user;
  hr_training_shape shape;
} search;

__attribute__((format(printf, 2, 3))) static void change_add(hr_change *change, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(change->override[change->n_overrides++], sizeof change->override[0], format, list);
  va_end(list);
}

/* The same effective batch in micro-batches of `batch`. */
static void change_batch(hr_change *change, const search *s, int64_t batch) {
  change_add(change, "training.batch_size=%" PRId64, batch);
  change_add(change, "training.effective_batch=null");
  change_add(change, "training.gradient_accumulation=%" PRId64, s->shape.batch * s->shape.accumulation / batch);
}

/* Member `strength` (from 0) of a family; false when the family has no such member. */
typedef bool (*family_member)(const search *s, int strength, hr_change *change);

static bool smaller_batch(const search *s, int strength, hr_change *change) {
  int64_t batch = s->shape.batch;
  if (s->shape.n_schedule > 1) return false; /* one number cannot stand for a schedule */
  for (int i = 0; i <= strength; i++) {
    if (batch == 1) return false;
    int64_t next = batch / 2;
    while (s->shape.batch % next != 0)
      next--;
    batch = next;
  }
  change_batch(change, s, batch);
  return true;
}

static bool word_is(const hr_recipe *recipe, const char *path, const char *word) {
  return hr__recipe_has(recipe, path) && strcmp(hr__recipe_text(recipe, path), word) == 0;
}

/* The fastest mix that fits, so there are no milder or stronger ones. */
static bool recompute(const search *s, int strength, hr_change *change) {
  bool open = hr__recipe_has(s->recipe, "memory.checkpoint") && !word_is(s->recipe, "memory.checkpoint", "auto");
  if (!open || strength > 0) return false;
  change_add(change, "memory.checkpoint=auto");
  return true;
}

static bool small_moments(const search *s, int strength, hr_change *change) {
  if (!word_is(s->recipe, "training.optimizer.kind", "adamw")) return false;
  change->changes_results = true;
  change_add(change, "training.optimizer.kind=adamw8bit");
  return strength == 0 || recompute(s, strength - 1, change);
}

static bool half_precision(const search *s, int strength, hr_change *change) {
  change->changes_results = true;
  change_add(change, "model.precision=bf16-true");
  if (strength == 0) return true;
  return smaller_batch(s, strength - 1, change);
}

static bool shorter_sequence(const search *s, int strength, hr_change *change) {
  if (strength >= 62) return false;
  int64_t length = s->shape.length >> (strength + 1);
  if (length < 16) return false;
  change->changes_results = true;
  change_add(change, "data.sequence_length=%" PRId64, length);
  return true;
}

typedef enum trial { TRIAL_TOO_LARGE, TRIAL_FITS, TRIAL_REFUSED } trial;

/* Plans one member. Only lack of memory is an error: any other means that the recipe refuses the change. */
static hr_status member_try(const search *s, family_member member, int strength, hr_change *change, trial *out,
                            hr_error *err) {
  *change = (hr_change){0};
  if (!member(s, strength, change)) {
    *out = TRIAL_REFUSED;
    return HR_OK;
  }
  const char *overrides[HR_CHANGE_OVERRIDES];
  for (int i = 0; i < change->n_overrides; i++)
    overrides[i] = change->override[i];
  hr_error why = {0};
  hr_status status =
      s->plan(s->user, overrides, (size_t)change->n_overrides, &change->peak_bytes, &change->step_seconds, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  *out = status != HR_OK ? TRIAL_REFUSED : change->peak_bytes <= s->budget_bytes ? TRIAL_FITS : TRIAL_TOO_LARGE;
  return HR_OK;
}

static int family_size(const search *s, family_member member) {
  int size = 0;
  for (hr_change change = {0}; member(s, size, &change); change = (hr_change){0})
    size++;
  return size;
}

/* Finds the mildest member that fits. The mildest of all is tried first: it alone may do without accumulated gradients,
 * so it can be smaller than the next. From there on peaks fall with strength, and halving the range takes few plans. A
 * member that the recipe refuses ends the family before it. */
static hr_status family_search(const search *s, family_member member, hr_change *found, bool *fits, hr_error *err) {
  hr_change change;
  trial result;
  *fits = false;
  HR_TRY(member_try(s, member, 0, &change, &result, err));
  if (result == TRIAL_FITS) {
    *found = change;
    *fits = true;
  }
  if (result != TRIAL_TOO_LARGE) return HR_OK;
  for (int below = 1, end = family_size(s, member); below < end;) {
    int strength = below + (end - below) / 2;
    HR_TRY(member_try(s, member, strength, &change, &result, err));
    if (result == TRIAL_TOO_LARGE) {
      below = strength + 1;
      continue;
    }
    end = strength;
    if (result == TRIAL_REFUSED) continue;
    *found = change;
    *fits = true;
  }
  return HR_OK;
}

hr_status hr__suggest(const hr_recipe *recipe, uint64_t budget_bytes, hr_plan_changed plan, void *user,
                      hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err) {
  search s = {.recipe = recipe, .budget_bytes = budget_bytes, .plan = plan, .user = user};
  HR_TRY(hr__training_shape(recipe, &s.shape, err));
  bool full = strcmp(hr__recipe_text(recipe, "model.precision"), "32-true") == 0;
  const family_member families[] = {recompute, smaller_batch, small_moments, full ? half_precision : NULL,
                                    shorter_sequence};
  *count = 0;
  for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
    bool fits = false;
    hr_change found;
    if (families[f]) HR_TRY(family_search(&s, families[f], &found, &fits, err));
    if (!fits) continue;
    int at = (*count)++;
    for (; at > 0 && changes[at - 1].step_seconds > found.step_seconds; at--)
      changes[at] = changes[at - 1];
    changes[at] = found;
  }
  return HR_OK;
}
