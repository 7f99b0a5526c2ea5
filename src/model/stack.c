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

bool hr__stackable(const hr_recipe *recipe, const int64_t *elements, int count) {
  static const char kind[] = "training.optimizer.kind";
  if (count == 1) return true;
  if (hr__recipe_given(recipe, "model.quantize") || hr__recipe_given(recipe, "model.precision_overrides") ||
      hr__recipe_given(recipe, "training.optimizer.groups"))
    return false;
  bool blocks = hr__recipe_has(recipe, kind) && strstr(hr__recipe_text(recipe, kind), "8bit");
  return !blocks || states_agree(elements, count);
}
