/* See scope.h. */
#include "recipe/scope.h"

#include <stdarg.h>
#include <stdio.h>

hr_scope hr__scope(const hr_recipe *recipe, const char *section) {
  hr_scope scope = {.recipe = recipe};
  snprintf(scope.section, sizeof scope.section, "%s", section);
  return scope;
}

const char *hr__scope_path(const hr_scope *scope, const char *key, char out[HR_SCOPE_PATH]) {
  snprintf(out, HR_SCOPE_PATH, "%s.%s", scope->section, key);
  return out;
}

const char *hr__scope_remedy(const hr_scope *scope, const char *assignment, char out[HR_SCOPE_PATH]) {
  snprintf(out, HR_SCOPE_PATH, "give --set %s.%s", scope->section, assignment);
  return out;
}

bool hr__scope_has(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_has(scope->recipe, hr__scope_path(scope, key, path));
}

bool hr__scope_given(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_given(scope->recipe, hr__scope_path(scope, key, path));
}

int64_t hr__scope_int(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_int(scope->recipe, hr__scope_path(scope, key, path));
}

double hr__scope_float(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_float(scope->recipe, hr__scope_path(scope, key, path));
}

bool hr__scope_bool(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_bool(scope->recipe, hr__scope_path(scope, key, path));
}

const char *hr__scope_text(const hr_scope *scope, const char *key) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_text(scope->recipe, hr__scope_path(scope, key, path));
}

const char *const *hr__scope_texts(const hr_scope *scope, const char *key, size_t *count) {
  char path[HR_SCOPE_PATH];
  return hr__recipe_texts(scope->recipe, hr__scope_path(scope, key, path), count);
}

hr_status hr__scope_fail(const hr_scope *scope, const char *key, const char *remedy, hr_error *err, const char *format,
                         ...) {
  char path[HR_SCOPE_PATH], message[sizeof err->message];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return hr__recipe_fail(scope->recipe, hr__scope_path(scope, key, path), remedy, err, "%s", message);
}
