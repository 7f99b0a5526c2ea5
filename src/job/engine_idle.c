/* Settings of the engine that change nothing, because another one trains. See engine.h. */
#include <stdio.h>
#include <string.h>

#include "job/engine.h"

enum { NAMES = 160 };

static const char KIND[] = "engine.kind", TRAINER[] = "engine.trainer", DTYPE[] = "engine.dtype";

/* The first of the keys that are given, and the names of all of them; NULL: none is. */
static const char *given(const hr_recipe *recipe, char names[NAMES]) {
  const char *first = NULL;
  size_t used = 0;
  for (size_t i = 0; i < hr_engine_keys.count; i++) {
    const char *path = hr_engine_keys.keys[i].path;
    if (strcmp(path, KIND) == 0 || !hr__recipe_given(recipe, path)) continue;
    size_t length = strlen(path);
    if (used + length + sizeof ", ..." > NAMES) {
      strcpy(names + used, ", ...");
      break;
    }
    if (first) used += (size_t)snprintf(names + used, NAMES - used, ", ");
    used += (size_t)snprintf(names + used, NAMES - used, "%s", path);
    if (!first) first = path;
  }
  return first;
}

bool hr__engine_idle(const hr_recipe *recipe, hr_error *remark) {
  char names[NAMES];
  if (!hr__engine_is_torch(recipe)) {
    const char *first = given(recipe, names);
    if (!first) return false;
    (void)hr__recipe_fail(recipe, first, "add --engine pytorch to plan for PyTorch, or leave them out", remark,
                          "headroom itself is planned, of which settings of PyTorch's change nothing: %s", names);
    return true;
  }
  bool cast = hr__recipe_word_is(recipe, TRAINER, "deepspeed") && hr__recipe_given(recipe, DTYPE) &&
              !hr__recipe_word_is(recipe, DTYPE, "auto");
  if (!cast) return false;
  (void)hr__recipe_fail(recipe, DTYPE, "leave it out, or set model.precision", remark,
                        "%s changes nothing: DeepSpeed casts the model to the type of model.precision", DTYPE);
  return true;
}
