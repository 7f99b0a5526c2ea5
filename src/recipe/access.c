/* Reading the settings of a checked recipe. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipe/internal.h"

/* The way down the tree as far as it goes: the last node that is there, and the document it came from. */
typedef struct way_end {
  const hr_doc_node *node;
  const char *origin;
} way_end;

static const hr_doc_node *tree_walk(const hr_recipe *recipe, const char *path, way_end *deepest) {
  const hr_doc_node *node = recipe->root;
  while (*path) {
    char key[HR_KEY_PATH_TEXT];
    size_t length = strcspn(path, ".");
    if (length >= sizeof key) return NULL;
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    node = hr__doc_get(node, key);
    if (!node || hr__doc_is_null(node)) return NULL;
    if (deepest) *deepest = (way_end){node, hr__origin_of(recipe, node, deepest->origin)};
    path += length + (path[length] == '.');
  }
  return node;
}

const hr_doc_node *hr__tree_find(const hr_recipe *recipe, const char *path, const char **origin) {
  way_end end = {NULL, recipe->name};
  const hr_doc_node *node = tree_walk(recipe, path, &end);
  if (origin) *origin = end.origin;
  return node;
}

static const hr_setting *setting_get(const hr_recipe *recipe, const char *path) {
  const hr_setting *setting = hr__setting_find(recipe, path);
  assert(setting && setting->has);
  return setting;
}

static const hr_setting *setting_typed(const hr_recipe *recipe, const char *path, hr_key_type type) {
  const hr_setting *setting = setting_get(recipe, path);
  assert(setting->key->type == type && !setting->word);
  (void)type;
  return setting;
}

const hr_key *hr__recipe_key(const hr_recipe *recipe, const char *path) {
  const hr_setting *setting = hr__setting_find(recipe, path);
  return setting ? setting->key : NULL;
}

bool hr__recipe_has(const hr_recipe *recipe, const char *path) {
  const hr_setting *setting = hr__setting_find(recipe, path);
  return setting && setting->has;
}

bool hr__recipe_given(const hr_recipe *recipe, const char *path) {
  return tree_walk(recipe, path, NULL) != NULL;
}

bool hr__recipe_is_word(const hr_recipe *recipe, const char *path) {
  return setting_get(recipe, path)->word;
}

bool hr__recipe_word_is(const hr_recipe *recipe, const char *path, const char *word) {
  const hr_setting *setting = hr__setting_find(recipe, path);
  return setting && setting->has && setting->text && strcmp(setting->text, word) == 0;
}

int64_t hr__recipe_int(const hr_recipe *recipe, const char *path) {
  return setting_typed(recipe, path, HR_KEY_INT)->integer;
}

double hr__recipe_float(const hr_recipe *recipe, const char *path) {
  return setting_typed(recipe, path, HR_KEY_FLOAT)->number;
}

bool hr__recipe_bool(const hr_recipe *recipe, const char *path) {
  return setting_typed(recipe, path, HR_KEY_BOOL)->flag;
}

const char *hr__recipe_text(const hr_recipe *recipe, const char *path) {
  const hr_setting *setting = setting_get(recipe, path);
  assert(setting->text);
  return setting->text;
}

uint64_t hr__recipe_size(const hr_recipe *recipe, const char *path) {
  return setting_typed(recipe, path, HR_KEY_SIZE)->size;
}

const double *hr__recipe_floats(const hr_recipe *recipe, const char *path) {
  return setting_typed(recipe, path, HR_KEY_FLOATS)->numbers;
}

const char *const *hr__recipe_texts(const hr_recipe *recipe, const char *path, size_t *count) {
  const hr_setting *setting = setting_get(recipe, path);
  assert(setting->texts && !setting->word);
  *count = setting->n_texts;
  return setting->texts;
}

const hr_doc_node *hr__recipe_tree(const hr_recipe *recipe, const char *path) {
  const hr_setting *setting = hr__setting_find(recipe, path);
  assert(setting);
  return setting->tree;
}

static hr_status fail_at(const hr_recipe *recipe, const char *path, const hr_doc_node *inner, const char *remedy,
                         hr_error *err, const char *format, va_list list) {
  char message[sizeof err->message], place[HR_DOC_PLACE];
  vsnprintf(message, sizeof message, format, list);
  const hr_setting *setting = hr__setting_find(recipe, path);
  way_end end = {NULL, recipe->name};
  if (setting && setting->node) {
    hr__doc_place(setting->origin, inner ? inner : setting->node, inner != NULL, place);
  } else { /* not placed, or the section it would be in */
    const hr_doc_node *found = tree_walk(recipe, path, &end);
    hr__doc_place(end.origin, end.node ? end.node : &(hr_doc_node){0}, !found || found->kind != HR_DOC_SCALAR, place);
  }
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s", message);
}

hr_status hr__recipe_fail(const hr_recipe *recipe, const char *path, const char *remedy, hr_error *err,
                          const char *format, ...) {
  va_list list;
  va_start(list, format);
  hr_status status = fail_at(recipe, path, NULL, remedy, err, format, list);
  va_end(list);
  return status;
}

hr_status hr__recipe_fail_at(const hr_recipe *recipe, const char *path, const hr_doc_node *node, const char *remedy,
                             hr_error *err, const char *format, ...) {
  va_list list;
  va_start(list, format);
  hr_status status = fail_at(recipe, path, node, remedy, err, format, list);
  va_end(list);
  return status;
}

const char *hr__recipe_name(const hr_recipe *recipe) {
  return recipe->name;
}

hr_arena *hr__recipe_arena(hr_recipe *recipe) {
  return &recipe->arena;
}
