/* techniques: see techniques.h. */
#include "fit/techniques.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipe/rules.h"

/* A technique that is on, and what takes it away. */
typedef struct active {
  char name[HR_TECHNIQUE_NAME];
  char override[HR_CHANGE_OVERRIDES][HR_CHANGE_TEXT];
  size_t n_overrides;
} active;

__attribute__((format(printf, 2, 3))) static void override_add(active *item, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(item->override[item->n_overrides++], sizeof item->override[0], format, list);
  va_end(list);
}

/* "adapters of text: lora". */
static void active_name(active *item, const hr_technique_key *technique, const char *of, const char *word) {
  snprintf(item->name, sizeof item->name, "%s%s%.*s%s%.*s", technique->label, *of ? " of " : "", HR_TECHNIQUE_WORD, of,
           word ? ": " : "", HR_TECHNIQUE_WORD / 2, word ? word : "");
}

/* Whether the recipe has the technique at a site, and as what; *word NULL: without one. What a part has of the whole is
 * the whole's. An `auto` that came to nothing is none. */
static bool technique_is_on(const hr_recipe *recipe, const hr_chosen *chosen, const hr_site *site, const char **word) {
  char path[HR_SITE_TEXT + 8];
  bool section = site->technique->flags & HR_TECHNIQUE_IS_SECTION;
  snprintf(path, sizeof path, "%s%s", site->path, section ? ".kind" : "");
  *word = hr__recipe_has(recipe, path) && !hr__recipe_tree(recipe, path) ? hr__recipe_text(recipe, path) : NULL;
  if (section) return hr__recipe_given(recipe, site->path);
  if (!*word) return hr__recipe_has(recipe, site->path); /* by block */
  const char *came_to = chosen && strcmp(*word, "auto") == 0 ? hr__chosen_word(chosen, path) : NULL;
  return strcmp(came_to ? came_to : *word, site->technique->plain) != 0;
}

static void active_make(const hr_recipe *recipe, const hr_site *site, const char *word, active *item) {
  const hr_technique_key *technique = site->technique;
  *item = (active){.n_overrides = 0};
  active_name(item, technique, site->part, word);
  override_add(item, "%s=%s", site->path, technique->plain);
  char dependent[HR_TECHNIQUE_WORD], path[HR_SITE_TEXT];
  for (const char *at = technique->dependents; hr__technique_next(&at, dependent);)
    if (hr__recipe_given(recipe, hr__site_path(recipe, site, dependent, path))) override_add(item, "%s=null", path);
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

/* *tells: there is something to say, if only that nothing can be had without it. */
static hr_status active_measure(const hr_recipe *recipe, const active *item, uint64_t peak_bytes, double step_seconds,
                                hr_plan_changed plan, void *user, hr_technique *out, bool *tells, hr_error *err) {
  const char *overrides[HR_CHANGE_OVERRIDES];
  for (size_t i = 0; i < item->n_overrides; i++)
    overrides[i] = item->override[i];
  *out = (hr_technique){0};
  memcpy(out->name, item->name, sizeof out->name);
  hr_planned without;
  hr_error why = {0};
  hr_status status = plan(user, overrides, item->n_overrides, &without, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  *tells = true;
  if (status != HR_OK) return HR_OK;
  bool anew = chosen_anew(recipe, item);
  out->bytes_known = !anew || (!without.fits && without.peak_bytes[HR_TIER_DEVICE] > peak_bytes);
  out->seconds_known = !anew || without.fits;
  out->saves_bytes = (int64_t)without.peak_bytes[HR_TIER_DEVICE] - (int64_t)peak_bytes;
  out->costs_seconds = step_seconds - without.step_seconds;
  *tells = out->bytes_known || out->seconds_known || !without.fits;
  return HR_OK;
}

/* What is listed, and how its plans are made. */
typedef struct listing {
  const hr_recipe *recipe;
  uint64_t peak_bytes;
  double step_seconds;
  hr_plan_changed plan;
  void *user;
  hr_technique *out;
  int count;
} listing;

static hr_status active_list(listing *l, const active *item, hr_error *err) {
  bool tells;
  HR_TRY(active_measure(l->recipe, item, l->peak_bytes, l->step_seconds, l->plan, l->user, &l->out[l->count], &tells,
                        err));
  l->count += tells;
  return HR_OK;
}

/* Of a setting that goes by patterns each by itself: the others stay. */
static hr_status rules_list(listing *l, const hr_site *site, const hr_doc_node *tree, hr_error *err) {
  const char *plain = site->technique->plain;
  int listed = 0;
  for (const hr_doc_node *rule = tree->child; rule && listed < HR_RULES_LISTED; rule = rule->next) {
    active item = {.n_overrides = 1};
    if (rule->kind != HR_DOC_SCALAR || strcmp(rule->text, plain) == 0) continue;
    active_name(&item, site->technique, rule->key, rule->text);
    if (!hr__rules_with(l->recipe, site->path, rule->key, plain, item.override[0], sizeof item.override[0])) continue;
    HR_TRY(active_list(l, &item, err));
    listed++;
  }
  return HR_OK;
}

hr_status hr__techniques(const hr_recipe *recipe, const hr_chosen *chosen, uint64_t peak_bytes, double step_seconds,
                         hr_plan_changed plan, void *user, hr_technique out[HR_TECHNIQUES], int *count, hr_error *err) {
  hr_site sites[HR_SITES];
  listing l = {recipe, peak_bytes, step_seconds, plan, user, out, 0};
  for (size_t i = 0, all = hr__sites(recipe, sites); i < all; i++) {
    const char *word;
    active item;
    if (!technique_is_on(recipe, chosen, &sites[i], &word)) continue;
    const hr_doc_node *tree = word || !sites[i].technique->words ? NULL : hr__recipe_tree(recipe, sites[i].path);
    if (tree && tree->kind == HR_DOC_MAP) {
      HR_TRY(rules_list(&l, &sites[i], tree, err));
      continue;
    }
    active_make(recipe, &sites[i], word, &item);
    HR_TRY(active_list(&l, &item, err));
  }
  *count = l.count;
  return HR_OK;
}
