/* A section that was opened for keys of a scope (hr__recipe_section), and access to its settings by paths that begin
 * there: "config.hidden_size" of the scope "model" is model.config.hidden_size. */
#ifndef HR_RECIPE_SCOPE_H
#define HR_RECIPE_SCOPE_H

#include "recipe/recipe.h"

enum { HR_SECTION_TEXT = 96, HR_SCOPE_PATH = 256 };
typedef struct hr_scope {
  const hr_recipe *recipe;
  char section[HR_SECTION_TEXT];
} hr_scope;

hr_scope hr__scope(const hr_recipe *recipe, const char *section);
/* The whole path of a key. */
const char *hr__scope_path(const hr_scope *scope, const char *key, char out[HR_SCOPE_PATH]);

/* "give --set SECTION.ASSIGNMENT", a remedy. */
const char *hr__scope_remedy(const hr_scope *scope, const char *assignment, char out[HR_SCOPE_PATH]);

bool hr__scope_has(const hr_scope *scope, const char *key);
bool hr__scope_given(const hr_scope *scope, const char *key);
int64_t hr__scope_int(const hr_scope *scope, const char *key);
double hr__scope_float(const hr_scope *scope, const char *key);
bool hr__scope_bool(const hr_scope *scope, const char *key);
const char *hr__scope_text(const hr_scope *scope, const char *key);
const char *const *hr__scope_texts(const hr_scope *scope, const char *key, size_t *count);
__attribute__((format(printf, 5, 6))) hr_status
hr__scope_fail(const hr_scope *scope, const char *key, const char *remedy, hr_error *err, const char *format, ...);

#endif
