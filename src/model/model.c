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

static const hr_model *family_find(const char *name) {
  for (size_t i = 0; i < FAMILIES; i++) {
    if (strcmp(families[i]->family, name) == 0) return families[i];
  }
  return NULL;
}

/* The family's own defaults. A name that is unknown is found out later. */
static hr_status family_extend(hr_recipe *recipe, const char *name, hr_error *err) {
  const hr_model *model = family_find(name);
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

static void families_list(char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "families: ");
  for (size_t i = 0; i < FAMILIES && used < capacity; i++) {
    used += (size_t)snprintf(out + used, capacity - used, "%s%s", i ? ", " : "", families[i]->family);
  }
}

hr_status hr__model_find(const hr_recipe *recipe, const hr_model **out, hr_error *err) {
  char list[128];
  const char *name = hr__recipe_text(recipe, "model.family");
  *out = family_find(name);
  if (*out) return HR_OK;
  families_list(list, sizeof list);
  return hr__recipe_fail(recipe, "model.family", list, err, "there is no model family \"%.100s\"", name);
}

/* "LlamaForSequenceClassification": a checkpoint for another task has another head. */
static hr_status task_supported(const hr_doc_node *config, const hr_model *model, const char *name, hr_error *err) {
  const hr_doc_node *list = hr__doc_get(config, "architectures");
  const hr_doc_node *first = list && list->kind == HR_DOC_LIST ? list->child : NULL;
  const char *task = first && first->kind == HR_DOC_SCALAR ? strstr(first->text, "For") : NULL;
  if (!model->task || !task || strcmp(task, model->task) == 0) return HR_OK;
  char remedy[128];
  snprintf(remedy, sizeof remedy, "take a checkpoint of the family %s whose architecture ends with %s", model->family,
           model->task);
  return hr__fail(err, HR_BAD_INPUT, name, remedy, "architectures: %.100s is not supported", first->text);
}

/* Schemes that change what a checkpoint computes and that headroom does not have: better refused than ignored. */
static hr_status config_supported(const hr_doc_node *config, const hr_model *model, const char *name, hr_error *err) {
  HR_TRY(task_supported(config, model, name, err));
  const hr_doc_node *quantized = hr__doc_get(config, "quantization_config");
  if (quantized && !hr__doc_is_null(quantized)) {
    return hr__fail(err, HR_BAD_INPUT, name, "take the checkpoint with unquantized weights",
                    "quantization_config: weights that are stored quantized are not supported");
  }
  double part;
  const hr_doc_node *rotary = hr__doc_get(config, "partial_rotary_factor");
  if (rotary && hr__doc_float(rotary, &part) && part != 1.0) {
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "partial_rotary_factor %.20s is not supported", rotary->text);
  }
  return HR_OK;
}

/* Old files call rope_type just "type". */
static void rope_type_rename(hr_doc_node *section) {
  if (!section || hr__doc_get(section, "rope_type")) return;
  hr_doc_node *type = hr__doc_get(section, "type");
  if (type) type->key = "rope_type";
}

hr_status hr__model_config_merge(hr_recipe *recipe, const char *name, const char *text, size_t bytes, hr_error *err) {
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_doc_node *config;
  HR_TRY(hr__json_parse(name, text, bytes, arena, &config, err));
  const hr_doc_node *type = hr__doc_get(config, "model_type");
  char list[128];
  families_list(list, sizeof list);
  if (!type || type->kind != HR_DOC_SCALAR) {
    return hr__fail(err, HR_BAD_INPUT, name, list, "model_type is missing: it names the family of the model");
  }
  if (!family_find(type->text)) {
    return hr__fail(err, HR_BAD_INPUT, name, list, "model_type \"%.100s\" is not supported", type->text);
  }
  HR_TRY(config_supported(config, family_find(type->text), name, err));
  rope_type_rename(hr__doc_get(config, "rope_scaling"));
  rope_type_rename(hr__doc_get(config, "rope_parameters"));

  hr_doc_node *model = hr__arena_alloc(arena, sizeof *model), *family = hr__arena_alloc(arena, sizeof *family);
  if (!model || !family) return hr__nomem(err);
  *family = *type;
  family->key = "family";
  family->next = NULL;
  *model = (hr_doc_node){.kind = HR_DOC_MAP, .child = family};
  HR_TRY(hr__recipe_merge(recipe, "model", model, name, err));
  return hr__recipe_merge(recipe, "model.config", config, name, err);
}
