/* techniques: see techniques.h. */
#include "fit/techniques.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fit/choose.h"

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

/* A setting whose word is not the plain one. */
static void word_add(listing *l, const char *path, const char *label, const char *plain) {
  const char *word = word_of(l->recipe, path);
  if (!word || strcmp(word, plain) == 0) return;
  override_add(active_add(l, "%s: %s", label, word), "%s=%s", path, plain);
}

/* A section whose `kind` says what it is. */
static active *section_add(listing *l, const char *section, const char *label) {
  char path[64];
  snprintf(path, sizeof path, "%s.kind", section);
  if (!hr__recipe_given(l->recipe, section)) return NULL;
  const char *kind = word_of(l->recipe, path);
  active *item = active_add(l, "%s%s%s", label, kind ? ": " : "", kind ? kind : "");
  override_add(item, "%s=null", section);
  return item;
}

static void precision_add(listing *l) {
  int before = l->count;
  word_add(l, "model.precision", "precision", "32-true");
  if (l->count > before && hr__recipe_given(l->recipe, "model.precision_overrides"))
    override_add(&l->items[before], "model.precision_overrides=null");
}

static void adapters_add(listing *l) {
  active *adapters = section_add(l, "model.adapters", "adapters");
  if (adapters && hr__recipe_given(l->recipe, "model.quantize")) override_add(adapters, "model.quantize=null");
  section_add(l, "model.quantize", "quantize");
}

static void optimizer_add(listing *l) {
  int before = l->count;
  word_add(l, "training.optimizer.kind", "optimizer", "adamw");
  static const char *const only_sgd[] = {"training.optimizer.momentum", "training.optimizer.nesterov"};
  for (size_t i = 0; l->count > before && i < sizeof only_sgd / sizeof only_sgd[0]; i++)
    if (hr__recipe_given(l->recipe, only_sgd[i])) override_add(&l->items[before], "%s=null", only_sgd[i]);
  word_add(l, "training.optimizer.state", "optimizer state", "f32");
}

static void split_add(listing *l) {
  static const char path[] = "memory.split";
  if (!hr__recipe_has(l->recipe, path)) return;
  const char *word = word_of(l->recipe, path); /* NULL: a map of blocks */
  if (word && strcmp(word, "none") == 0) return;
  if (word && strcmp(word, "auto") == 0 && l->chosen && l->chosen->choices.slices < 2) return;
  override_add(active_add(l, "split%s%s", word ? ": " : "", word ? word : ""), "%s=none", path);
}

static void offload_add(listing *l) {
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++) {
    char path[64], label[48];
    snprintf(path, sizeof path, "memory.offload.%s", hr__offload_name((hr_offload_kind)k));
    snprintf(label, sizeof label, "offload %s", hr__offload_name((hr_offload_kind)k));
    if (l->chosen && l->chosen->open[k] && !hr__chosen_offloads(l->chosen, (hr_offload_kind)k)) continue;
    word_add(l, path, label, "device");
  }
}

/* Whether anything that fit/choose closes is open and stays so without the technique. */
static bool chosen_anew(const hr_recipe *recipe, const active *item) {
  static const char *const paths[] = {"memory.checkpoint",        "memory.split",
                                      "memory.offload.optimizer", "memory.offload.parameters",
                                      "memory.offload.gradients", "memory.offload.activations"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    bool without = false;
    for (size_t o = 0; o < item->n_overrides; o++)
      without |= strncmp(item->override[o], paths[i], strlen(paths[i])) == 0;
    if (!without && hr__recipe_word_is(recipe, paths[i], "auto")) return true;
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
  precision_add(&l);
  adapters_add(&l);
  optimizer_add(&l);
  if (!chosen || !chosen->choices.keep || hr__chosen_recomputes(chosen))
    word_add(&l, "memory.checkpoint", "checkpoint", "none");
  split_add(&l);
  word_add(&l, "memory.update", "update", "after-backward");
  offload_add(&l);
  *count = 0;
  for (int i = 0; i < l.count; i++) {
    hr_technique *own = &out[*count];
    bool planned;
    HR_TRY(active_measure(recipe, &l.items[i], peak_bytes, step_seconds, plan, user, own, &planned, err));
    *count += own->bytes_known || own->seconds_known || !planned; /* else there is nothing to tell */
  }
  return HR_OK;
}
