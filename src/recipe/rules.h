/* Settings that take a word, or a word by pattern: "memory.checkpoint: {text: every-layer, head: none}". The first
 * pattern that fits a name counts. */
#ifndef HR_RECIPE_RULES_H
#define HR_RECIPE_RULES_H

#include "recipe/recipe.h"

/* The word that a setting has for a name; `plain` where it has none, or no pattern fits. */
const char *hr__rules_word(const hr_recipe *recipe, const char *path, const char *name, const char *plain);

/* The setting as an override, "memory.checkpoint={text: none, head: selective}", in which `name` has this word and all
 * others have what they have now; false: it does not fit in `capacity`. */
bool hr__rules_with(const hr_recipe *recipe, const char *path, const char *name, const char *word, char *out,
                    size_t capacity);

/* For a setting by pattern: whether its words are among `words` ("none|selective") and each pattern fits one of the
 * names that `next` gives, one a call from i = 0 on, NULL at the end. `what` is what they are names of, for messages.
 */
hr_status hr__rules_check(const hr_recipe *recipe, const char *path, const char *words, const char *what,
                          const char *(*next)(const void *user, size_t i), const void *user, hr_error *err);

#endif
