/* ladder: see ladder.h. */
#include "fit/ladder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "fit/choose.h"
#include "recipe/rules.h"

/* Of the batch, of techniques with few words each, and of what is recomputed of each part. */
enum { WORDS = 3, NEIGHBOURS = 2 + WORDS * HR_TECHNIQUE_KEYS + WORDS * HR_MODEL_PARTS };

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

/* Other words of a technique that leaves results as they are. Where fit/choose closes something, all but what is
 * recomputed would be chosen for anew, and has the best mix for the budget already; on the CPU nothing is gained by
 * moving values to the host. */
static void technique_add(const hr_recipe *recipe, const hr_technique_key *technique, bool chosen, neighbours *n) {
  bool tried = !(technique->flags & HR_TECHNIQUE_CHANGES_RESULTS) && hr__recipe_has(recipe, technique->path);
  if (!tried || (chosen && strcmp(technique->path, "memory.checkpoint") != 0)) return;
  bool host = hr__recipe_word_is(recipe, "memory.device", "cuda");
  char word[HR_TECHNIQUE_WORD];
  for (const char *at = technique->words; hr__technique_next(&at, word);) {
    bool down = technique->flags & HR_TECHNIQUE_OFFLOAD && strcmp(word, technique->plain) != 0;
    bool on_device = hr__recipe_word_is(recipe, technique->path, technique->plain);
    if (hr__recipe_word_is(recipe, technique->path, word) || (down && !(host && on_device))) continue;
    override_add(&n->list[n->count++], "%s=%s", technique->path, word);
  }
}

/* The same of single parts, where a setting may go by patterns. Offload moves what is there of all parts alike. */
static void parts_add(const hr_recipe *recipe, const hr_technique_key *technique, neighbours *n) {
  const hr_key *key = hr__recipe_key(recipe, technique->path);
  hr_model_parts parts;
  bool tried = !(technique->flags & (HR_TECHNIQUE_CHANGES_RESULTS | HR_TECHNIQUE_OFFLOAD)) && key && key->tree;
  hr__parts_read(recipe, &parts);
  for (size_t p = 1; tried && p < parts.count; p++) {
    const char *own = hr__rules_word(recipe, technique->path, parts.part[p].name, technique->plain);
    char word[HR_TECHNIQUE_WORD];
    for (const char *at = technique->words; hr__technique_next(&at, word);) {
      hr_change *change = &n->list[n->count];
      if (strcmp(word, own) == 0) continue;
      change->n_overrides = hr__rules_with(recipe, technique->path, parts.part[p].name, word, change->override[0],
                                           sizeof change->override[0]);
      n->count += change->n_overrides;
    }
  }
}

/* Then what is free of the device is filled, whatever else is set: no neighbour is smaller, and none that leaves the
 * result alone is faster, since all of them were open too. */
static bool offload_is_open(const hr_recipe *recipe) {
  bool open = false;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++)
    open |= hr_technique_keys[i].flags & HR_TECHNIQUE_OFFLOAD && hr__choose_closes(recipe, &hr_technique_keys[i]);
  return open;
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

/* The place of a setting's override in `found`; n_overrides: it has none. */
static size_t override_find(const hr_found *found, const char *override) {
  size_t key = strcspn(override, "=") + 1, i = 0;
  while (i < found->n_overrides && strncmp(found->overrides[i], override, key) != 0)
    i++;
  return i;
}

/* Whether a recipe that was closed as `chosen` says the same. */
static bool override_is_set(const hr_recipe *recipe, const hr_found *chosen, const char *override) {
  size_t at = override_find(chosen, override), key = strcspn(override, "=");
  if (at < chosen->n_overrides) return strcmp(chosen->overrides[at], override) == 0;
  char path[HR_CHANGE_TEXT];
  snprintf(path, sizeof path, "%.*s", (int)key, override);
  return hr__recipe_word_is(recipe, path, override + key + 1);
}

hr_status hr__rung_found(const hr_recipe *recipe, const hr_found *chosen, const hr_found *found, hr_arena *arena,
                         hr_rung *out, hr_error *err) {
  const char **overrides = hr__arena_array(arena, found->n_overrides + 1, sizeof *overrides);
  if (!overrides) return hr__nomem(err);
  *out = (hr_rung){.overrides = overrides};
  for (size_t i = 0; i < found->n_overrides; i++) {
    if (override_is_set(recipe, chosen, found->overrides[i])) continue;
    size_t at = override_find(chosen, found->overrides[i]);
    overrides[out->n_overrides] = hr__arena_text(arena, found->overrides[i]);
    if (!overrides[out->n_overrides++]) return hr__nomem(err);
    out->changes_results |= found->changes[i] || (at < chosen->n_overrides && chosen->changes[at]);
  }
  out->planned = (hr_planned){.step_seconds = found->step_seconds, .fits = found->fits};
  memcpy(out->planned.peak_bytes, found->peak_bytes, sizeof out->planned.peak_bytes);
  return HR_OK;
}

static hr_status frontier_climb(const hr_recipe *recipe, const hr_search *search, hr_arena *arena, hr_ladder *out,
                                hr_error *err) {
  if (search->n_frontier == 0) return HR_OK;
  const hr_found *frontier = search->frontier, *here = &frontier[search->at];
  for (size_t i = search->at; i-- > 0;)
    if (frontier[i].step_seconds <= (1 - least_step) * here->step_seconds) {
      HR_TRY(hr__rung_found(recipe, &search->chosen, &frontier[i], arena, &out->faster, err));
      break;
    }
  const double below = (1 - least_step) * (double)here->peak_bytes[HR_TIER_DEVICE];
  for (size_t i = search->at + 1; i < search->n_frontier; i++)
    if (frontier[i].fits && (double)frontier[i].peak_bytes[HR_TIER_DEVICE] <= below)
      return hr__rung_found(recipe, &search->chosen, &frontier[i], arena, &out->cheaper, err);
  return HR_OK;
}

hr_status hr__ladder(const hr_recipe *recipe, const hr_search *search, const hr_planned *here, hr_plan_changed plan,
                     void *user, hr_arena *arena, hr_ladder *out, hr_error *err) {
  *out = (hr_ladder){0};
  HR_TRY(frontier_climb(recipe, search, arena, out, err));
  if (out->cheaper.n_overrides > 0 && out->faster.n_overrides > 0) return HR_OK;
  neighbours n = {0};
  bool chosen = hr__choose_any(recipe);
  if (!chosen) HR_TRY(batch_add(recipe, &n, err));
  for (int i = 0; i < HR_TECHNIQUE_KEYS && !offload_is_open(recipe); i++)
    technique_add(recipe, &hr_technique_keys[i], chosen, &n);
  for (int i = 0; i < HR_TECHNIQUE_KEYS && !chosen; i++)
    parts_add(recipe, &hr_technique_keys[i], &n);
  HR_TRY(neighbours_plan(&n, plan, user, err));
  if (out->cheaper.n_overrides == 0) HR_TRY(rung_set(cheaper_find(&n, here), arena, &out->cheaper, err));
  return out->faster.n_overrides > 0 ? HR_OK : rung_set(faster_find(&n, here), arena, &out->faster, err);
}
