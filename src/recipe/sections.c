/* Which keys a recipe has: those with whole paths, and those of a scope once for each section that is opened. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "recipe/internal.h"

static const char SCOPE[] = "*.";

static bool key_is_scoped(const hr_key *key) {
  return strncmp(key->path, SCOPE, sizeof SCOPE - 1) == 0;
}

static int setting_order(const void *a, const void *b) {
  return strcmp(((const hr_setting *)a)->key->path, ((const hr_setting *)b)->key->path);
}

static void settings_sort(hr_recipe *recipe) {
  qsort(recipe->settings, recipe->count, sizeof *recipe->settings, setting_order);
  for (size_t i = 0; i + 1 < recipe->count; i++)
    assert(setting_order(&recipe->settings[i], &recipe->settings[i + 1]) != 0);
}

static hr_status setting_add(hr_recipe *recipe, const hr_key *key, hr_error *err) {
  if (hr__arena_grow(&recipe->arena, (void **)&recipe->settings, &recipe->capacity, recipe->count,
                     sizeof *recipe->settings) != 0)
    return hr__nomem(err);
  recipe->settings[recipe->count++] = (hr_setting){.key = key};
  return HR_OK;
}

hr_status hr__keys_index(hr_recipe *recipe, hr_error *err) {
  for (size_t t = 0; t < recipe->n_tables; t++)
    for (size_t k = 0; k < recipe->tables[t].count; k++)
      if (!key_is_scoped(&recipe->tables[t].keys[k])) HR_TRY(setting_add(recipe, &recipe->tables[t].keys[k], err));
  settings_sort(recipe);
  return HR_OK;
}

static hr_status table_open(hr_recipe *recipe, const char *section, bool inner, const hr_key_table *table,
                            hr_error *err) {
  for (size_t k = 0; k < table->count; k++) {
    if (!key_is_scoped(&table->keys[k])) continue;
    hr_key *key = hr__arena_alloc(&recipe->arena, sizeof *key);
    if (!key) return hr__nomem(err);
    *key = table->keys[k];
    key->path = hr__arena_format(&recipe->arena, "%s.%s", section, key->path + sizeof SCOPE - 1);
    if (!key->path) return hr__nomem(err);
    if (inner && key->inherited) key->fallback = NULL;
    HR_TRY(setting_add(recipe, key, err));
  }
  return HR_OK;
}

hr_status hr__recipe_section(hr_recipe *recipe, const char *section, bool inner, hr_error *err) {
  for (size_t t = 0; t < recipe->n_tables; t++)
    HR_TRY(table_open(recipe, section, inner, &recipe->tables[t], err));
  settings_sort(recipe);
  return HR_OK;
}

hr_status hr__recipe_section_more(hr_recipe *recipe, const char *section, const hr_key_table *const *tables,
                                  hr_error *err) {
  for (; *tables; tables++)
    HR_TRY(table_open(recipe, section, false, *tables, err));
  settings_sort(recipe);
  return HR_OK;
}

hr_status hr__recipe_early(hr_recipe *recipe, const char *path, const char **text, hr_error *err) {
  *text = NULL;
  const char *origin = recipe->name;
  const hr_setting *setting = hr__setting_find(recipe, path);
  const hr_doc_node *node = hr__tree_find(recipe, path, &origin);
  assert(setting);
  if (!node) return HR_OK;
  hr_setting early = {.key = setting->key, .node = node, .origin = origin};
  HR_TRY(hr__setting_read(recipe, &early, err));
  *text = early.text;
  return HR_OK;
}

const hr_doc_node *hr__recipe_written(const hr_recipe *recipe, const char *path) {
  return hr__tree_find(recipe, path, NULL);
}

hr_status hr__recipe_later(hr_recipe *recipe, const char *section, const hr_doc_node *map, const char *name,
                           hr_error *err) {
  if (hr__arena_grow(&recipe->arena, (void **)&recipe->later, &recipe->cap_later, recipe->n_later,
                     sizeof *recipe->later) != 0)
    return hr__nomem(err);
  recipe->later[recipe->n_later++] = (hr_later){section, name, map};
  return HR_OK;
}

hr_status hr__sections_open(hr_recipe *recipe, hr_error *err) {
  for (size_t t = 0; t < recipe->n_tables; t++)
    for (size_t k = 0; k < recipe->tables[t].count; k++)
      if (recipe->tables[t].keys[k].open) HR_TRY(recipe->tables[t].keys[k].open(recipe, err));
  return HR_OK;
}

hr_status hr__keys_list(const hr_key_table *const *tables, size_t n_tables, const char *section, hr_arena *arena,
                        hr_key_table *out, hr_error *err) {
  size_t count = 0;
  for (size_t t = 0; t < n_tables; t++)
    count += tables[t]->count;
  hr_key *keys = hr__arena_array(arena, count + 1, sizeof *keys);
  if (!keys) return hr__nomem(err);
  *out = (hr_key_table){keys, 0};
  for (size_t t = 0; t < n_tables; t++)
    for (size_t k = 0; k < tables[t]->count; k++) {
      hr_key *key = &keys[out->count++];
      *key = tables[t]->keys[k];
      if (!key_is_scoped(key)) continue;
      key->path = hr__arena_format(arena, "%s.%s", section, key->path + sizeof SCOPE - 1);
      if (!key->path) return hr__nomem(err);
    }
  return HR_OK;
}
