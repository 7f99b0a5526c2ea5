/* Recipes: text, a checkpoint's config.json and overrides, against the program's real key tables.
 *
 * The input is cut at bytes 0x01: recipe, config.json (taken for the file of model.path), then one override per piece.
 * What is accepted must survive the way out and back: its settings as JSON, merged into an empty recipe, give the same
 * settings; a model that passes its check writes a config.json from which the same config.json follows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "demand.h"
#include "format/json.h"
#include "job/settings.h"
#include "model/model.h"

enum { PIECES = 8 };

/* A folder of its own to work in, whose folder "x" holds the config.json of the input: recipes may give it as path. */
static void config_put(const char *text) {
  static char folder[] = "/tmp/headroom_fuzz_XXXXXX";
  static bool there;
  if (!there) {
    DEMAND(mkdtemp(folder) && chdir(folder) == 0 && mkdir("x", 0700) == 0);
    there = true;
  }
  if (!text) {
    (void)unlink("x/config.json");
    return;
  }
  FILE *file = fopen("x/config.json", "w");
  DEMAND(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static hr_status parse(const char *text, size_t bytes, const char *const *sets, size_t n_sets, hr_recipe **out) {
  hr_error err = {0};
  hr_status status = hr__settings_parse("recipe", "", text, bytes, sets, n_sets, out, &err);
  DEMAND((status == HR_OK) == (*out != NULL));
  DEMAND(err.status == status);
  DEMAND(status == HR_OK || err.message[0]);
  return status;
}

/* Settings must come back from their JSON, which is a recipe as well; model.path would lead to others. */
static void settings_again(const hr_recipe *recipe) {
  json_t *settings = hr__recipe_json(recipe), *again;
  DEMAND(settings);
  json_object_del(json_object_get(settings, "model"), "path");
  char *text = json_dumps(settings, JSON_COMPACT);
  DEMAND(text);
  hr_recipe *second = NULL;
  DEMAND(parse(text, strlen(text), NULL, 0, &second) == HR_OK);
  again = hr__recipe_json(second);
  DEMAND(again);
  DEMAND(json_equal(settings, again));
  json_decref(settings);
  json_decref(again);
  hr__recipe_destroy(second);
  hr__free(text);
}

static void config_again(const hr_recipe *recipe) {
  static const char leads[] = "model: { path: x }\ndata: { sequence_length: 1 }";
  const char *precision = hr__recipe_text(recipe, "model.precision");
  char set[64];
  snprintf(set, sizeof set, "model.precision=%s", precision);
  const char *sets[] = {set};
  hr_model_part part = hr__model_whole(recipe);
  json_t *config = part.model->config_json(&part), *again;
  DEMAND(config);
  char *text = json_dumps(config, JSON_COMPACT);
  DEMAND(text);
  config_put(text);
  hr_recipe *second = NULL;
  hr_error err = {0};
  DEMAND(parse(leads, sizeof leads - 1, sets, 1, &second) == HR_OK);
  DEMAND(hr__model_check(second, &err) == HR_OK);
  part = hr__model_whole(second);
  again = part.model->config_json(&part);
  DEMAND(again && json_equal(config, again));
  json_decref(config);
  json_decref(again);
  hr__recipe_destroy(second);
  hr__free(text);
}

static void accepted(const hr_recipe *recipe) {
  hr_error err = {0};
  settings_again(recipe);
  if (hr__model_check(recipe, &err) == HR_OK) config_again(recipe);
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
  config_put(pieces > 1 ? piece[1] : NULL);
  hr_recipe *recipe = NULL;
  const char *const *sets = (const char *const *)(piece + 2);
  if (parse(text, recipe_bytes, sets, pieces > 2 ? pieces - 2 : 0, &recipe) == HR_OK) accepted(recipe);
  hr__recipe_destroy(recipe);
  free(text);
  return 0;
}
