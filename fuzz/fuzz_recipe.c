/* Recipes: text, a checkpoint's config.json and overrides, against the program's real key tables.
 *
 * The input is cut at bytes 0x01: recipe, config.json (taken for the file of model.path), then one override per piece.
 * What is accepted must survive the way out and back: its settings as JSON, merged into an empty recipe, give the same
 * settings; a model that passes its check writes a config.json from which the same config.json follows.
 */
#include <stdio.h>
#include <string.h>

#include "demand.h"
#include "format/json.h"
#include "job/settings.h"
#include "model/model.h"

enum { PIECES = 8, KEYS = 16, TABLES = HR_SETTINGS_TABLES };

/* What extend_text hands over. */
static struct {
  const char *text;
  size_t bytes;
  bool whole; /* all settings, from hr__recipe_json; otherwise a config.json */
} extra;

static hr_status extend_text(hr_recipe *recipe, const char *path, hr_error *err) {
  (void)path;
  if (!extra.text) return HR_OK;
  if (!extra.whole) return hr__model_config_merge(recipe, "config.json", extra.text, extra.bytes, err);
  hr_doc_node *doc;
  HR_TRY(hr__json_parse("settings", extra.text, extra.bytes, hr__recipe_arena(recipe), &doc, err));
  return hr__recipe_merge(recipe, "", doc, "settings", err);
}

/* The real tables, with further settings from memory instead of files. */
static size_t tables_make(hr_key_table tables[TABLES]) {
  static hr_key keys[KEYS];
  const size_t count = HR_SETTINGS_TABLES;
  hr_key_table real[HR_SETTINGS_TABLES];
  hr__settings_tables(real);
  for (size_t t = 0; t < count; t++) {
    tables[t] = real[t];
    for (size_t k = 0; k < real[t].count; k++) {
      if (!real[t].keys[k].extend) continue;
      DEMAND(real[t].count <= KEYS);
      memcpy(keys, real[t].keys, real[t].count * sizeof *keys);
      keys[k].extend = extend_text;
      tables[t].keys = keys;
    }
  }
  return count;
}

static hr_status parse(const char *text, size_t bytes, const char *const *sets, size_t n_sets, hr_recipe **out) {
  hr_error err = {0};
  hr_key_table tables[TABLES];
  size_t count = tables_make(tables);
  hr_status status = hr__recipe_parse("recipe", "", text, bytes, sets, n_sets, tables, count, out, &err);
  DEMAND((status == HR_OK) == (*out != NULL));
  DEMAND(err.status == status);
  DEMAND(status == HR_OK || err.message[0]);
  return status;
}

/* Settings must come back from their JSON; model.path itself is what leads to them. */
static void settings_again(const hr_recipe *recipe) {
  static const char leads[] = "model: { path: x }";
  json_t *settings = hr__recipe_json(recipe), *again;
  DEMAND(settings);
  char *text = json_dumps(settings, JSON_COMPACT);
  DEMAND(text);
  extra.text = text;
  extra.bytes = strlen(text);
  extra.whole = true;
  hr_recipe *second = NULL;
  DEMAND(parse(leads, sizeof leads - 1, NULL, 0, &second) == HR_OK);
  again = hr__recipe_json(second);
  DEMAND(again);
  json_object_del(json_object_get(settings, "model"), "path");
  json_object_del(json_object_get(again, "model"), "path");
  DEMAND(json_equal(settings, again));
  json_decref(settings);
  json_decref(again);
  hr__recipe_destroy(second);
  hr__free(text);
}

static void config_again(const hr_model *model, const hr_recipe *recipe) {
  static const char leads[] = "model: { path: x }\ndata: { sequence_length: 1 }";
  const char *precision = hr__recipe_text(recipe, "model.precision");
  char set[64];
  snprintf(set, sizeof set, "model.precision=%s", precision);
  const char *sets[] = {set};
  json_t *config = model->config_json(recipe), *again;
  DEMAND(config);
  char *text = json_dumps(config, JSON_COMPACT);
  DEMAND(text);
  extra.text = text;
  extra.bytes = strlen(text);
  extra.whole = false;
  hr_recipe *second = NULL;
  hr_error err = {0};
  DEMAND(parse(leads, sizeof leads - 1, sets, 1, &second) == HR_OK);
  DEMAND(model->check(second, &err) == HR_OK);
  again = model->config_json(second);
  DEMAND(again && json_equal(config, again));
  json_decref(config);
  json_decref(again);
  hr__recipe_destroy(second);
  hr__free(text);
}

static void accepted(const hr_recipe *recipe) {
  const hr_model *model;
  hr_error err = {0};
  settings_again(recipe);
  if (hr__model_find(recipe, &model, &err) != HR_OK) return;
  if (model->check(recipe, &err) == HR_OK) config_again(model, recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  char *piece[PIECES] = {text};
  size_t pieces = 1;
  for (size_t i = 0; i < size && pieces < PIECES; i++) {
    if (text[i] != 1) continue;
    text[i] = '\0';
    piece[pieces++] = text + i + 1;
  }
  size_t recipe_bytes = pieces > 1 ? (size_t)(piece[1] - 1 - text) : size;
  extra.text = pieces > 1 ? piece[1] : NULL;
  extra.bytes = extra.text ? strlen(extra.text) : 0;
  extra.whole = false;
  hr_recipe *recipe = NULL;
  const char *const *sets = (const char *const *)(piece + 2);
  if (parse(text, recipe_bytes, sets, pieces > 2 ? pieces - 2 : 0, &recipe) == HR_OK) accepted(recipe);
  hr__recipe_destroy(recipe);
  free(text);
  return 0;
}
