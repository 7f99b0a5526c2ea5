/* The families, and the settings that all of them share. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/file.h"

static const hr_model *const families[] = {&hr_model_llama, &hr_model_mistral, &hr_model_qwen2, &hr_model_qwen3,
                                           &hr_model_bert};
enum { FAMILIES = sizeof families / sizeof *families };

/* model.path: a checkpoint's folder. Its config.json may be absent when the recipe gives the model's settings itself.
 */
static hr_status path_extend(hr_recipe *recipe, const char *path, hr_error *err) {
  hr_arena *arena = hr__recipe_arena(recipe);
  char *name = hr__arena_format(arena, "%s/config.json", path);
  if (!name) return hr__nomem(err);
  if (access(path, F_OK) != 0) {
    return hr__recipe_fail(recipe, "model.path", "give the folder of a checkpoint, with config.json in it", err,
                           "there is no folder \"%.200s\"", path);
  }
  if (access(name, F_OK) != 0) {
    if (hr__recipe_given(recipe, "model.config") && hr__recipe_given(recipe, "model.family")) return HR_OK;
    return hr__recipe_fail(recipe, "model.path", "give the folder of a checkpoint, or model.family and model.config",
                           err, "there is no config.json in \"%.200s\"", path);
  }
  char *text;
  size_t bytes;
  HR_TRY(hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, err));
  return hr__model_config_merge(recipe, name, text, bytes, err);
}

const hr_model *hr__model_named(const char *name) {
  for (size_t i = 0; i < FAMILIES; i++) {
    if (strcmp(families[i]->family, name) == 0) return families[i];
  }
  return NULL;
}

/* The family's own defaults. A name that is unknown is found out later. */
static hr_status family_extend(hr_recipe *recipe, const char *name, hr_error *err) {
  const hr_model *model = hr__model_named(name);
  if (!model || !model->defaults) return HR_OK;
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_doc_node *defaults;
  const char *place = hr__arena_format(arena, "defaults of %s", model->family);
  if (!place) return hr__nomem(err);
  HR_TRY(hr__yaml_parse(place, model->defaults, strlen(model->defaults), arena, &defaults, err));
  return hr__recipe_merge(recipe, "model.config", defaults, place, err);
}

static const hr_key keys[] = {
    {.path = "model.family",
     .type = HR_KEY_TEXT,
     .required = true,
     .meaning = "kind of model: llama, mistral, qwen2, qwen3, bert; with model.path it comes from config.json",
     .extend = family_extend},
    {.path = "model.path",
     .type = HR_KEY_PATH,
     .meaning = "folder of a checkpoint: config.json and *.safetensors",
     .extend = path_extend},
    {.path = "model.precision",
     .type = HR_KEY_CHOICE,
     .fallback = "32-true",
     .choices = "32-true|bf16-mixed|16-mixed|bf16-true|auto",
     .meaning = "types of weights, gradients and activations; mixed: trained weights and their gradients stay f32"},
    {.path = "model.precision_overrides",
     .type = HR_KEY_TREE,
     .example = "{ lm_head: 32-true }",
     .meaning = "precision of modules by name pattern: { pattern: precision }, the first that fits"},
};
const hr_key_table hr_model_keys = {keys, sizeof keys / sizeof *keys};

void hr__model_families(char *out, size_t capacity) {
  size_t used = 0;
  for (size_t i = 0; i < FAMILIES && used < capacity; i++)
    used += (size_t)snprintf(out + used, capacity - used, "%s%s", i ? ", " : "", families[i]->family);
}

hr_status hr__model_find(const hr_recipe *recipe, const hr_model **out, hr_error *err) {
  char list[128], remedy[160];
  const char *name = hr__recipe_text(recipe, "model.family");
  *out = hr__model_named(name);
  if (*out) return HR_OK;
  hr__model_families(list, sizeof list);
  snprintf(remedy, sizeof remedy, "families: %s", list);
  return hr__recipe_fail(recipe, "model.family", remedy, err, "there is no model family \"%.100s\"", name);
}
