/* Loading a recipe: drives the stages named in internal.h. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format/file.h"
#include "recipe/internal.h"

static hr_status recipe_create(const char *name, const char *folder, const hr_key_table *tables, size_t n_tables,
                               size_t n_overrides, hr_recipe **out, hr_error *err) {
  hr_recipe *recipe = hr__alloc_zero(1, sizeof *recipe);
  if (!recipe) return hr__nomem(err);
  hr__arena_init(&recipe->arena);
  *out = recipe;
  recipe->name = hr__arena_text(&recipe->arena, name);
  recipe->folder = hr__arena_text(&recipe->arena, folder);
  recipe->origins = hr__arena_array(&recipe->arena, n_overrides, sizeof *recipe->origins);
  if (!recipe->name || !recipe->folder || !recipe->origins) return hr__nomem(err);
  recipe->tables = tables;
  recipe->n_tables = n_tables;
  return hr__keys_index(recipe, err);
}

static hr_status setting_missing(const hr_recipe *recipe, const hr_setting *setting, hr_error *err) {
  char example[128], remedy[HR_REMEDY_TEXT];
  const char *meaning = setting->key->meaning;
  hr__example_text(setting->key, example, sizeof example);
  snprintf(remedy, sizeof remedy, "add it to the recipe, or give --set %s=%s%s%s%s", setting->key->path, example,
           meaning ? " (" : "", meaning ? meaning : "", meaning ? ")" : "");
  return hr__recipe_fail(recipe, setting->key->path, remedy, err, "%s is missing", setting->key->path);
}

static hr_status settings_finish(hr_recipe *recipe, hr_error *err) {
  for (size_t i = 0; i < recipe->count; i++) {
    hr_setting *setting = &recipe->settings[i];
    if (setting->has) continue;
    if (setting->node) {
      HR_TRY(hr__setting_read(recipe, setting, err));
    } else if (setting->key->fallback) {
      HR_TRY(hr__setting_default(recipe, setting, err));
    } else if (setting->key->required) {
      return setting_missing(recipe, setting, err);
    }
  }
  return HR_OK;
}

/* From the tree on. */
static hr_status recipe_finish(hr_recipe *recipe, const char *const *overrides, size_t n_overrides, hr_error *err) {
  if (recipe->root->kind != HR_DOC_MAP) {
    char place[HR_DOC_PLACE];
    return hr__section_wrong(recipe, hr__doc_place(recipe->name, recipe->root, false, place), "", recipe->root, err);
  }
  HR_TRY(hr__stage_apply(recipe, overrides, n_overrides, err));
  for (size_t i = 0; i < n_overrides; i++)
    HR_TRY(hr__override_apply(recipe, overrides[i], err));
  HR_TRY(hr__sections_open(recipe, err));
  for (size_t i = 0; i < n_overrides; i++)
    HR_TRY(hr__override_check(recipe, overrides[i], err));
  HR_TRY(hr__keys_place(recipe, err));
  for (size_t i = 0; i < recipe->n_later; i++)
    HR_TRY(hr__keys_merge(recipe, recipe->later[i].section, recipe->later[i].map, recipe->later[i].name, err));
  return settings_finish(recipe, err);
}

static hr_status recipe_read(hr_recipe *recipe, const char *text, size_t bytes, const char *const *overrides,
                             size_t n_overrides, hr_error *err) {
  HR_TRY(hr__yaml_parse(recipe->name, text, bytes, &recipe->arena, &recipe->root, err));
  return recipe_finish(recipe, overrides, n_overrides, err);
}

/* The recipe that a folder stands for: the key that takes settings from a folder, and nothing else. */
static hr_status recipe_from_folder(hr_recipe *recipe, const char *path, const char *const *overrides,
                                    size_t n_overrides, hr_error *err) {
  const char *key = NULL;
  for (size_t t = 0; t < recipe->n_tables; t++)
    for (size_t k = 0; k < recipe->tables[t].count && !key; k++)
      key = recipe->tables[t].keys[k].folder;
  if (!key) return hr__fail(err, HR_BAD_INPUT, path, "give a recipe file", "this is a folder, not a recipe");
  recipe->root = hr__arena_alloc(&recipe->arena, sizeof *recipe->root);
  char *names = hr__arena_text(&recipe->arena, key);
  hr_doc_node *value = hr__arena_alloc(&recipe->arena, sizeof *value);
  if (!recipe->root || !names || !value) return hr__nomem(err);
  hr_doc_node *map = recipe->root;
  map->kind = HR_DOC_MAP;
  for (char *dot = strchr(names, '.'); dot; names = dot + 1, dot = strchr(names, '.')) {
    *dot = '\0';
    hr_doc_node *inner = hr__arena_alloc(&recipe->arena, sizeof *inner);
    if (!inner) return hr__nomem(err);
    *inner = (hr_doc_node){.kind = HR_DOC_MAP, .key = names};
    map->child = inner;
    map = inner;
  }
  *value = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = names, .text = recipe->name, .quoted = true};
  map->child = value;
  return recipe_finish(recipe, overrides, n_overrides, err);
}

static hr_status recipe_from_path(const char *path, const char *const *overrides, size_t n_overrides,
                                  const hr_key_table *tables, size_t n_tables, hr_recipe **out, hr_error *err) {
  struct stat facts;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    HR_TRY(recipe_create(path, "", tables, n_tables, n_overrides, out, err));
    return recipe_from_folder(*out, path, overrides, n_overrides, err);
  }
  HR_TRY(recipe_create(path, "", tables, n_tables, n_overrides, out, err));
  hr_recipe *recipe = *out;
  const char *slash = strrchr(path, '/');
  if (slash) {
    recipe->folder = hr__arena_format(&recipe->arena, "%.*s", (int)(slash - path + 1), path);
    if (!recipe->folder) return hr__nomem(err);
  }
  char *text;
  size_t bytes;
  HR_TRY(hr__file_read(path, HR_DOC_MAX_BYTES, &recipe->arena, &text, &bytes, err));
  return recipe_read(recipe, text, bytes, overrides, n_overrides, err);
}

/* On failure nothing is left behind. */
static hr_status recipe_give(hr_status status, hr_recipe *recipe, hr_recipe **out) {
  if (status != HR_OK) {
    hr__recipe_destroy(recipe);
    recipe = NULL;
  }
  *out = recipe;
  return status;
}

hr_status hr__recipe_load(const char *path, const char *const *overrides, size_t n_overrides,
                          const hr_key_table *tables, size_t n_tables, hr_recipe **out, hr_error *err) {
  hr_recipe *recipe = NULL;
  hr_status status = recipe_from_path(path, overrides, n_overrides, tables, n_tables, &recipe, err);
  return recipe_give(status, recipe, out);
}

hr_status hr__recipe_parse(const char *name, const char *folder, const char *text, size_t bytes,
                           const char *const *overrides, size_t n_overrides, const hr_key_table *tables,
                           size_t n_tables, hr_recipe **out, hr_error *err) {
  hr_recipe *recipe = NULL;
  hr_status status = recipe_create(name, folder, tables, n_tables, n_overrides, &recipe, err);
  if (status == HR_OK) status = recipe_read(recipe, text, bytes, overrides, n_overrides, err);
  return recipe_give(status, recipe, out);
}

void hr__recipe_destroy(hr_recipe *recipe) {
  if (!recipe) return;
  hr__arena_fini(&recipe->arena);
  hr__free(recipe);
}
