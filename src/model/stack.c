/* See stack.h. */
#include "model/stack.h"

#include <string.h>

#include "op/adamw8bit.h"

static bool states_agree(const int64_t *elements, int count) {
  bool all_small = true, all_whole = true;
  for (int i = 0; i < count; i++) {
    all_small = all_small && elements[i] < HR_ADAMW8BIT_LEAST;
    all_whole = all_whole && elements[i] >= HR_ADAMW8BIT_LEAST && elements[i] % HR_ADAMW8BIT_BLOCK == 0;
  }
  return all_small || all_whole;
}

/* Whether patterns say which weights are trained. */
static bool train_selects(const hr_scope *scope) {
  char path[HR_SCOPE_PATH];
  if (hr__recipe_has(scope->recipe, "model.train") && !hr__recipe_is_word(scope->recipe, "model.train")) return true;
  return hr__scope_has(scope, "train") && !hr__recipe_is_word(scope->recipe, hr__scope_path(scope, "train", path));
}

bool hr__stackable(const hr_scope *scope, const int64_t *elements, int count) {
  const hr_recipe *recipe = scope->recipe;
  static const char kind[] = "training.optimizer.kind";
  if (count == 1) return true;
  if (train_selects(scope) || hr__scope_given(scope, "quantize") || hr__scope_given(scope, "precision_overrides") ||
      hr__recipe_given(recipe, "training.optimizer.groups"))
    return false;
  bool blocks = hr__recipe_has(recipe, kind) && strstr(hr__recipe_text(recipe, kind), "8bit");
  return !blocks || states_agree(elements, count);
}
