/* ladder: see ladder.h. */
#include "fit/ladder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "fit/choose.h"

enum { NEIGHBOURS = 12 };

/* Nearer than this is the same rung: a layout's rounding, or noise of rates. */
static const double least_step = 0.01;

typedef struct neighbours {
  hr_change list[NEIGHBOURS];
  int count;
} neighbours;

__attribute__((format(printf, 2, 3))) static void override_add(hr_change *change, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(change->override[change->n_overrides++], sizeof change->override[0], format, list);
  va_end(list);
}

static void checkpoint_add(const hr_recipe *recipe, neighbours *n) {
  static const char *const words[] = {"none", "selective", "every-layer"};
  if (!hr__recipe_has(recipe, "memory.checkpoint")) return;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (!hr__recipe_word_is(recipe, "memory.checkpoint", words[i]))
      override_add(&n->list[n->count++], "memory.checkpoint=%s", words[i]);
}

static void batch_set(const hr_recipe *recipe, neighbours *n, int64_t batch, int64_t accumulation) {
  hr_change *change = &n->list[n->count++];
  override_add(change, "training.batch_size=%" PRId64, batch);
  if (!hr__recipe_given(recipe, "training.effective_batch"))
    override_add(change, "training.gradient_accumulation=%" PRId64, accumulation);
}

/* The next smaller and the next larger micro-batch of the same effective one. */
static hr_status batch_add(const hr_recipe *recipe, neighbours *n, hr_error *err) {
  hr_training_shape shape;
  HR_TRY(hr__training_shape(recipe, &shape, err));
  if (shape.n_schedule > 1) return HR_OK; /* one number cannot stand for a schedule */
  int64_t all = shape.batch * shape.accumulation;
  for (int64_t batch = shape.batch - 1; batch >= 1; batch--)
    if (all % batch == 0) {
      batch_set(recipe, n, batch, all / batch);
      break;
    }
  for (int64_t accumulation = shape.accumulation - 1; accumulation >= 1; accumulation--)
    if (all % accumulation == 0) {
      batch_set(recipe, n, all / accumulation, accumulation);
      break;
    }
  return HR_OK;
}

static void update_add(const hr_recipe *recipe, neighbours *n) {
  if (hr__recipe_word_is(recipe, "memory.update", "after-backward"))
    override_add(&n->list[n->count++], "memory.update=in-backward");
  else if (hr__recipe_word_is(recipe, "memory.update", "in-backward"))
    override_add(&n->list[n->count++], "memory.update=after-backward");
}

/* Each kind that is below the device comes up; the optimizer's goes down, where the host is another memory. */
static void offload_add(const hr_recipe *recipe, neighbours *n) {
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    char path[64];
    snprintf(path, sizeof path, "memory.offload.%s", hr__offload_name((hr_offload_kind)k));
    if (!hr__recipe_has(recipe, path)) continue;
    bool above = hr__recipe_word_is(recipe, path, "device");
    if (!above)
      override_add(&n->list[n->count++], "%s=device", path);
    else if (k == HR_OFFLOAD_OPTIMIZER && hr__recipe_word_is(recipe, "memory.device", "cuda"))
      override_add(&n->list[n->count++], "%s=auto", path);
  }
}

/* Plans all of them and drops those that the recipe refuses. Only lack of memory is an error. */
static hr_status neighbours_plan(neighbours *n, hr_plan_changed plan, void *user, hr_error *err) {
  int kept = 0;
  for (int i = 0; i < n->count; i++) {
    hr_change *change = &n->list[i];
    const char *overrides[HR_CHANGE_OVERRIDES];
    for (int o = 0; o < change->n_overrides; o++)
      overrides[o] = change->override[o];
    hr_error why = {0};
    hr_status status = plan(user, overrides, (size_t)change->n_overrides, &change->planned, &why);
    if (status == HR_NOMEM) return hr__nomem(err);
    if (status == HR_OK) n->list[kept++] = *change;
  }
  n->count = kept;
  return HR_OK;
}

static double device_bytes(const hr_planned *planned) {
  return (double)planned->peak_bytes[HR_TIER_DEVICE];
}

/* The fastest of the smaller ones, so that no other neighbour saves memory at a lower price. */
static const hr_change *cheaper_find(const neighbours *n, const hr_planned *here) {
  const double below = (1 - least_step) * device_bytes(here);
  const hr_change *best = NULL;
  for (int i = 0; i < n->count; i++) {
    const hr_planned *planned = &n->list[i].planned;
    if (!planned->fits || device_bytes(planned) > below) continue;
    if (!best || planned->step_seconds < best->planned.step_seconds ||
        (planned->step_seconds == best->planned.step_seconds && device_bytes(planned) < device_bytes(&best->planned)))
      best = &n->list[i];
  }
  return best;
}

/* The smallest of the faster ones that take more. */
static const hr_change *faster_find(const neighbours *n, const hr_planned *here) {
  const double less = (1 - least_step) * here->step_seconds;
  const hr_change *best = NULL;
  for (int i = 0; i < n->count; i++) {
    const hr_planned *planned = &n->list[i].planned;
    if (planned->step_seconds > less || device_bytes(planned) <= device_bytes(here)) continue;
    if (!best || device_bytes(planned) < device_bytes(&best->planned) ||
        (device_bytes(planned) == device_bytes(&best->planned) && planned->step_seconds < best->planned.step_seconds))
      best = &n->list[i];
  }
  return best;
}

static hr_status rung_set(const hr_change *change, hr_arena *arena, hr_rung *out, hr_error *err) {
  if (!change) return HR_OK;
  const char **overrides = hr__arena_array(arena, (size_t)change->n_overrides, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  for (int o = 0; o < change->n_overrides; o++) {
    overrides[o] = hr__arena_text(arena, change->override[o]);
    if (!overrides[o]) return hr__nomem(err);
  }
  *out = (hr_rung){overrides, (size_t)change->n_overrides, change->planned, change->changes_results};
  return HR_OK;
}

/* A setting of the frontier: what it has otherwise than the chosen one, and whether other weights come out than from
 * that, which may have changed the result itself. */
static hr_status rung_found(const hr_search *search, size_t at, hr_arena *arena, hr_rung *out, hr_error *err) {
  const hr_found *found = &search->frontier[at];
  const char **overrides = hr__arena_array(arena, found->n_overrides + 1, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  *out = (hr_rung){.overrides = overrides};
  for (size_t i = 0; i < found->n_overrides; i++) {
    if (strcmp(found->overrides[i], search->chosen.overrides[i]) == 0) continue;
    overrides[out->n_overrides++] = hr__arena_text(arena, found->overrides[i]);
    out->changes_results |= found->changes[i] || search->chosen.changes[i];
  }
  for (size_t i = 0; i < out->n_overrides; i++)
    if (!overrides[i]) return hr__nomem(err);
  out->planned = (hr_planned){.step_seconds = found->step_seconds, .fits = found->fits};
  memcpy(out->planned.peak_bytes, found->peak_bytes, sizeof out->planned.peak_bytes);
  return HR_OK;
}

static hr_status frontier_climb(const hr_search *search, hr_arena *arena, hr_ladder *out, hr_error *err) {
  if (search->n_frontier == 0) return HR_OK;
  const hr_found *frontier = search->frontier, *here = &frontier[search->at];
  for (size_t i = search->at; i-- > 0;)
    if (frontier[i].step_seconds <= (1 - least_step) * here->step_seconds) {
      HR_TRY(rung_found(search, i, arena, &out->faster, err));
      break;
    }
  const double below = (1 - least_step) * (double)here->peak_bytes[HR_TIER_DEVICE];
  for (size_t i = search->at + 1; i < search->n_frontier; i++)
    if (frontier[i].fits && (double)frontier[i].peak_bytes[HR_TIER_DEVICE] <= below)
      return rung_found(search, i, arena, &out->cheaper, err);
  return HR_OK;
}

hr_status hr__ladder(const hr_recipe *recipe, const hr_search *search, const hr_planned *here, hr_plan_changed plan,
                     void *user, hr_arena *arena, hr_ladder *out, hr_error *err) {
  *out = (hr_ladder){0};
  HR_TRY(frontier_climb(search, arena, out, err));
  if (out->cheaper.n_overrides > 0 && out->faster.n_overrides > 0) return HR_OK;
  neighbours n = {0};
  checkpoint_add(recipe, &n);
  if (!hr__choose_any(recipe)) { /* others would be chosen for anew, and have the best mix for the budget already */
    HR_TRY(batch_add(recipe, &n, err));
    update_add(recipe, &n);
    offload_add(recipe, &n);
  }
  HR_TRY(neighbours_plan(&n, plan, user, err));
  if (out->cheaper.n_overrides == 0) HR_TRY(rung_set(cheaper_find(&n, here), arena, &out->cheaper, err));
  return out->faster.n_overrides > 0 ? HR_OK : rung_set(faster_find(&n, here), arena, &out->faster, err);
}
