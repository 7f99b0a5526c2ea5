/* techniques: see techniques.h. */
#include "fit/techniques.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A technique that is on, and what takes it away. */
typedef struct active {
  char name[HR_TECHNIQUE_NAME];
  char override[HR_CHANGE_OVERRIDES][64];
  size_t n_overrides;
} active;

typedef struct listing {
  const hr_recipe *recipe;
  const hr_chosen *chosen;
  active items[HR_TECHNIQUES];
  int count;
} listing;

__attribute__((format(printf, 2, 3))) static active *active_add(listing *l, const char *format, ...) {
  active *item = &l->items[l->count++];
  va_list list;
  va_start(list, format);
  vsnprintf(item->name, sizeof item->name, format, list);
  va_end(list);
  return item;
}

__attribute__((format(printf, 2, 3))) static void override_add(active *item, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(item->override[item->n_overrides++], sizeof item->override[0], format, list);
  va_end(list);
}

/* The word of a setting; NULL: there is no such setting, or it has no value of that kind. */
static const char *word_of(const hr_recipe *recipe, const char *path) {
  if (!hr__recipe_has(recipe, path) || hr__recipe_tree(recipe, path)) return NULL;
  return hr__recipe_text(recipe, path);
}

/* Whether the recipe has the technique, and as what; *word NULL: without one. An `auto` that came to nothing is none.
 */
static bool technique_is_on(const listing *l, const hr_technique_key *technique, const char **word) {
  char path[64];
  bool section = technique->flags & HR_TECHNIQUE_IS_SECTION;
  snprintf(path, sizeof path, "%s%s", technique->path, section ? ".kind" : "");
  *word = word_of(l->recipe, path);
  if (section) return hr__recipe_given(l->recipe, technique->path);
  if (!*word) return hr__recipe_has(l->recipe, technique->path); /* by block */
  const char *came_to = l->chosen && strcmp(*word, "auto") == 0 ? hr__chosen_word(l->chosen, path) : NULL;
  return strcmp(came_to ? came_to : *word, technique->plain) != 0;
}

static void technique_add(listing *l, const hr_technique_key *technique) {
  const char *word;
  if (!technique_is_on(l, technique, &word)) return;
  active *item = active_add(l, "%s%s%s", technique->label, word ? ": " : "", word ? word : "");
  override_add(item, "%s=%s", technique->path, technique->plain);
  char dependent[HR_TECHNIQUE_WORD];
  for (const char *at = technique->dependents; hr__technique_next(&at, dependent);)
    if (hr__recipe_given(l->recipe, dependent)) override_add(item, "%s=null", dependent);
}

/* Whether anything that fit/choose closes is open and stays so without the technique. */
static bool chosen_anew(const hr_recipe *recipe, const active *item) {
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const char *path = hr_technique_keys[i].path;
    bool without = false;
    for (size_t o = 0; o < item->n_overrides; o++)
      without |= strncmp(item->override[o], path, strlen(path)) == 0;
    if (!without && hr__choose_closes(recipe, &hr_technique_keys[i])) return true;
  }
  return false;
}

static hr_status active_measure(const hr_recipe *recipe, const active *item, uint64_t peak_bytes, double step_seconds,
                                hr_plan_changed plan, void *user, hr_technique *out, bool *planned, hr_error *err) {
  const char *overrides[HR_CHANGE_OVERRIDES];
  for (size_t i = 0; i < item->n_overrides; i++)
    overrides[i] = item->override[i];
  *out = (hr_technique){0};
  memcpy(out->name, item->name, sizeof out->name);
  hr_planned without;
  hr_error why = {0};
  hr_status status = plan(user, overrides, item->n_overrides, &without, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  *planned = status == HR_OK;
  if (!*planned) return HR_OK;
  bool anew = chosen_anew(recipe, item);
  out->bytes_known = !anew || (!without.fits && without.peak_bytes[HR_TIER_DEVICE] > peak_bytes);
  out->seconds_known = !anew || without.fits;
  out->saves_bytes = (int64_t)without.peak_bytes[HR_TIER_DEVICE] - (int64_t)peak_bytes;
  out->costs_seconds = step_seconds - without.step_seconds;
  return HR_OK;
}

hr_status hr__techniques(const hr_recipe *recipe, const hr_chosen *chosen, uint64_t peak_bytes, double step_seconds,
                         hr_plan_changed plan, void *user, hr_technique out[HR_TECHNIQUES], int *count, hr_error *err) {
  listing l = {.recipe = recipe, .chosen = chosen};
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++)
    technique_add(&l, &hr_technique_keys[i]);
  *count = 0;
  for (int i = 0; i < l.count; i++) {
    hr_technique *own = &out[*count];
    bool planned;
    HR_TRY(active_measure(recipe, &l.items[i], peak_bytes, step_seconds, plan, user, own, &planned, err));
    *count += own->bytes_known || own->seconds_known || !planned; /* else there is nothing to tell */
  }
  return HR_OK;
}
