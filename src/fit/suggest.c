/* suggest: see suggest.h. */
#include "fit/suggest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

typedef struct search {
  const hr_recipe *recipe;
  hr_plan_changed plan;
  void *user;
  hr_training_shape shape;
  hr_site sites[HR_SITES];
  size_t n_sites;
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

/* Member `strength` (from 0) of a family; false when the family has no such member. `site`: the technique that it is
 * of, and where. */
typedef bool (*family_member)(const search *s, const hr_site *site, int strength, hr_change *change);
typedef struct family {
  family_member member;
  const hr_site *site;
} family;

static bool smaller_batch(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
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

/* The fastest mix that fits, so there are no milder or stronger ones. */
static bool recompute(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
  bool open =
      hr__recipe_has(s->recipe, "memory.checkpoint") && !hr__recipe_word_is(s->recipe, "memory.checkpoint", "auto");
  if (!open || strength > 0) return false;
  change_add(change, "memory.checkpoint=auto");
  return true;
}

/* The words of a technique that is at its plain value, from mild to strong; then the strongest with smaller batches
 * where it makes activations smaller already, else with recomputing. Paged moments are offloaded ones (`offload`). */
static bool technique_on(const search *s, const hr_site *site, int strength, hr_change *change) {
  const hr_technique_key *technique = site->technique;
  const char *now = hr__site_word(s->recipe, site);
  if (!now || strcmp(now, technique->plain) != 0) return false;
  char word[HR_TECHNIQUE_WORD], last[HR_TECHNIQUE_WORD] = "";
  int left = strength + 1;
  for (const char *at = technique->words; left > 0 && hr__technique_next(&at, word);) {
    if (strcmp(word, technique->plain) == 0 || strncmp(word, "paged_", 6) == 0) continue;
    memcpy(last, word, sizeof last);
    left--;
  }
  change->changes_results |= technique->flags & HR_TECHNIQUE_CHANGES_RESULTS;
  change_add(change, "%s=%s", site->path, last);
  if (technique->excludes && hr__recipe_has(s->recipe, technique->excludes)) {
    change->changes_results = true;
    change_add(change, "%s=null", technique->excludes);
  }
  if (left == 0) return true;
  family_member then = strcmp(technique->path, "model.precision") == 0 ? smaller_batch : recompute;
  return then(s, NULL, left - 1, change);
}

/* Values that are on the device now. On the CPU the host is the same memory, so only the disk helps. */
static void offload_add(const search *s, const char *path, hr_change *change) {
  bool cuda = hr__recipe_word_is(s->recipe, "memory.device", "cuda");
  if (hr__recipe_word_is(s->recipe, path, "device")) change_add(change, "%s=%s", path, cuda ? "auto" : "disk");
}

/* The state of the optimizer, then with recomputing, then with the rest of the state. */
static bool offload(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
  if (strength > 2) return false;
  offload_add(s, "memory.offload.optimizer", change);
  if (strength > 0) recompute(s, NULL, 0, change);
  if (strength > 1) {
    offload_add(s, "memory.offload.gradients", change);
    offload_add(s, "memory.offload.parameters", change);
  }
  return change->n_overrides > 0;
}

/* Fine-tuning: adapters, then with recomputing, then on a base of 4 bits. Fresh weights are no base for them. */
static bool adapters(const search *s, const hr_site *site, int strength, hr_change *change) {
  char quantize[HR_SITE_TEXT], path[HR_SITE_TEXT];
  bool given = hr__recipe_given(s->recipe, site->path);
  hr__site_path(s->recipe, site, site->technique->dependents, quantize);
  if (strength > 2 || hr__recipe_given(s->recipe, quantize)) return false;
  if (!given && !hr__recipe_given(s->recipe, hr__site_path(s->recipe, site, "model.path", path))) return false;
  change->changes_results = true;
  if (!given) {
    change_add(change, "%s.kind=lora", site->path);
    change_add(change, "%s.targets=all-linear", site->path);
  }
  if (strength > 0) recompute(s, NULL, 0, change);
  if (strength > 1 || given) change_add(change, "%s.kind=nf4", quantize);
  return true;
}

static bool shorter_sequence(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
  if (strength >= 62) return false;
  int64_t length = s->shape.length >> (strength + 1);
  if (length < 16) return false;
  change->changes_results = true;
  change_add(change, "data.sequence_length=%" PRId64, length);
  return true;
}

/* Of what is offloaded and stays so: as much as there is room for comes back up. */
static bool offload_less(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const char *path = hr_technique_keys[i].path;
    if (!(hr_technique_keys[i].flags & HR_TECHNIQUE_OFFLOAD)) continue;
    if (hr__recipe_word_is(s->recipe, path, "host") || hr__recipe_word_is(s->recipe, path, "disk"))
      change_add(change, "%s=auto", path);
  }
  if (strength > 0) recompute(s, NULL, 0, change);
  return strength <= 1 && change->n_overrides > 0;
}

static bool host_to_disk(const search *s, const hr_site *site, int strength, hr_change *change) {
  (void)site;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const char *path = hr_technique_keys[i].path;
    if (hr_technique_keys[i].flags & HR_TECHNIQUE_OFFLOAD && hr__recipe_word_is(s->recipe, path, "host"))
      change_add(change, "%s=disk", path);
  }
  return strength == 0 && change->n_overrides > 0;
}

typedef enum trial { TRIAL_TOO_LARGE, TRIAL_FITS, TRIAL_REFUSED } trial;

static bool same_change(const hr_change *a, const hr_change *b) {
  bool same = a->n_overrides == b->n_overrides;
  for (int i = 0; same && i < a->n_overrides; i++)
    same = strcmp(a->override[i], b->override[i]) == 0;
  return same;
}

/* Plans one member; `large` (NULL: none) is known to be too large. Only lack of memory is an error: any other means
 * that the recipe refuses the change. */
static hr_status member_try(const search *s, const family *of, int strength, const hr_change *large, hr_change *change,
                            trial *out, hr_error *err) {
  *change = (hr_change){0};
  if (!of->member(s, of->site, strength, change)) {
    *out = TRIAL_REFUSED;
    return HR_OK;
  }
  if (large && same_change(change, large)) {
    *out = TRIAL_TOO_LARGE;
    return HR_OK;
  }
  const char *overrides[HR_CHANGE_OVERRIDES];
  for (int i = 0; i < change->n_overrides; i++)
    overrides[i] = change->override[i];
  hr_error why = {0};
  hr_status status = s->plan(s->user, overrides, (size_t)change->n_overrides, &change->planned, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  *out = status != HR_OK ? TRIAL_REFUSED : change->planned.fits ? TRIAL_FITS : TRIAL_TOO_LARGE;
  return HR_OK;
}

static int family_size(const search *s, const family *of) {
  int size = 0;
  for (hr_change change = {0}; of->member(s, of->site, size, &change); change = (hr_change){0})
    size++;
  return size;
}

/* Finds the mildest member that fits. The mildest of all is tried first: it alone may do without accumulated gradients,
 * so it can be smaller than the next. From there on peaks fall with strength, and halving the range takes few plans. A
 * member that the recipe refuses ends the family before it. */
static hr_status family_search(const search *s, const family *of, hr_change *found, bool *fits, hr_error *err) {
  hr_change first, change;
  trial result;
  *fits = false;
  HR_TRY(member_try(s, of, 0, NULL, &first, &result, err));
  if (result == TRIAL_FITS) {
    *found = first;
    *fits = true;
  }
  if (result != TRIAL_TOO_LARGE) return HR_OK;
  for (int below = 1, end = family_size(s, of); below < end;) {
    int strength = below + (end - below) / 2;
    HR_TRY(member_try(s, of, strength, &first, &change, &result, err));
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

/* What there is to try for a tier that is too small. */
static int families_of(const search *s, hr_tier tier, family out[HR_SUGGESTIONS]) {
  int count = 0;
  if (tier == HR_TIER_DEVICE) {
    out[count++] = (family){recompute, NULL};
    out[count++] = (family){smaller_batch, NULL};
    for (size_t i = s->n_sites; i-- > 0;) /* what keeps results stands behind what changes them */
      if (s->sites[i].technique->flags & HR_TECHNIQUE_SUGGESTED) out[count++] = (family){technique_on, &s->sites[i]};
    out[count++] = (family){offload, NULL};
    for (size_t i = 0; i < s->n_sites; i++)
      if (s->sites[i].technique == hr__technique_find("model.adapters"))
        out[count++] = (family){adapters, &s->sites[i]};
    out[count++] = (family){shorter_sequence, NULL};
    return count;
  }
  out[count++] = (family){offload_less, NULL};
  if (tier == HR_TIER_HOST) out[count++] = (family){host_to_disk, NULL};
  return count;
}

hr_status hr__suggest(const hr_recipe *recipe, hr_tier tier, hr_plan_changed plan, void *user,
                      hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err) {
  family families[HR_SUGGESTIONS];
  search s = {.recipe = recipe, .plan = plan, .user = user};
  HR_TRY(hr__training_shape(recipe, &s.shape, err));
  s.n_sites = hr__sites(recipe, s.sites);
  *count = 0;
  for (int f = 0, all = families_of(&s, tier, families); f < all; f++) {
    bool fits = false;
    hr_change found;
    HR_TRY(family_search(&s, &families[f], &found, &fits, err));
    if (!fits) continue;
    int at = (*count)++;
    for (; at > 0 && changes[at - 1].planned.step_seconds > found.planned.step_seconds; at--)
      changes[at] = changes[at - 1];
    changes[at] = found;
  }
  return HR_OK;
}
