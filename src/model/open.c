/* The section of a recipe that describes a model: which keys it has depends on the family that it, or the config.json
 * of its checkpoint, names. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf.h"
#include "model/parts.h"
#include "model/stored.h"

/* PATH: a checkpoint's folder, or a GGUF file. Its config.json may be absent when the recipe gives the model's settings
 * itself. */
static hr_status path_open(hr_recipe *recipe, const hr_scope *scope, const hr_model **family, hr_error *err) {
  char key[HR_SCOPE_PATH];
  const char *path;
  HR_TRY(hr__recipe_early(recipe, hr__scope_path(scope, "path", key), &path, err));
  if (!path) return HR_OK;
  hr_arena *arena = hr__recipe_arena(recipe);
  const char *name, *section = hr__arena_text(arena, scope->section);
  char *text;
  size_t bytes;
  if (!section) return hr__nomem(err);
  if (access(path, F_OK) != 0)
    return hr__scope_fail(scope, "path", "give the folder of a checkpoint, with config.json in it, or a GGUF file", err,
                          "there is no %s \"%.200s\"", hr__gguf_is_name(path) ? "file" : "folder", path);
  HR_TRY(hr__config_text(path, arena, &name, &text, &bytes, err));
  if (!text) {
    char remedy[2 * HR_SECTION_TEXT + 80];
    if (hr__scope_given(scope, "config") && hr__scope_given(scope, "family")) return HR_OK;
    snprintf(remedy, sizeof remedy, "give the folder of a checkpoint, or %s.family and %s.config", scope->section,
             scope->section);
    return hr__scope_fail(scope, "path", remedy, err, "there is no config.json in \"%.200s\"", path);
  }
  return hr__model_config_merge(recipe, section, name, text, bytes, family, err);
}

/* The family that a part has unless the recipe or a checkpoint names one. */
static hr_status family_default(hr_recipe *recipe, const hr_scope *scope, const hr_part_declared *part,
                                const hr_model **family, hr_error *err) {
  hr_arena *arena = hr__recipe_arena(recipe);
  const char *section = hr__arena_text(arena, scope->section);
  hr_doc_node *map = hr__arena_alloc(arena, sizeof *map), *value = hr__arena_alloc(arena, sizeof *value);
  if (!section || !map || !value) return hr__nomem(err);
  *value = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = "family", .text = part->family};
  *map = (hr_doc_node){.kind = HR_DOC_MAP, .child = value};
  *family = hr__model_named(part->family);
  return hr__recipe_later(recipe, section, map, "defaults of the model", err);
}

static hr_status family_open(hr_recipe *recipe, const hr_scope *scope, const hr_part_declared *part,
                             const hr_model **family, hr_error *err) {
  char list[256], remedy[512], key[HR_SCOPE_PATH];
  const char *name;
  HR_TRY(path_open(recipe, scope, family, err));
  HR_TRY(hr__recipe_early(recipe, hr__scope_path(scope, "family", key), &name, err));
  if (name) *family = hr__model_named(name);
  if (*family) return HR_OK;
  if (!name && part && part->family) return family_default(recipe, scope, part, family, err);
  hr__model_families(list, sizeof list);
  if (name) {
    snprintf(remedy, sizeof remedy, "families: %s", list);
    return hr__scope_fail(scope, "family", remedy, err, "there is no model family \"%.100s\"", name);
  }
  snprintf(remedy, sizeof remedy, "add it to the recipe, or give --set %.120s=NAME (kind of model: %s)", key, list);
  return hr__scope_fail(scope, "family", remedy, err, "%s is missing", key);
}

/* Whether a family has a key, or a section, of this name under config. */
static bool family_has(const hr_model *model, const char *name) {
  static const char config[] = "*.config.";
  size_t length = strlen(name);
  for (const hr_key_table *const *table = model->keys; *table; table++)
    for (size_t k = 0; k < (*table)->count; k++) {
      const char *path = (*table)->keys[k].path + sizeof config - 1;
      if (strncmp(path, name, length) == 0 && (path[length] == '.' || !path[length])) return true;
    }
  return false;
}

static bool other_family_has(const char *name) {
  const hr_model *model;
  for (size_t i = 0; (model = hr__model_at(i)); i++)
    if (family_has(model, name)) return true;
  return false;
}

/* A key of another family that is written as null says that there is none, as is so. */
static hr_status absent_open(hr_recipe *recipe, const hr_scope *scope, const char *name, hr_error *err) {
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_key *key = hr__arena_alloc(arena, sizeof *key);
  hr_key_table *table = hr__arena_alloc(arena, sizeof *table);
  const char *path = hr__arena_format(arena, "*.config.%s", name);
  if (!key || !table || !path) return hr__nomem(err);
  *key = (hr_key){.path = path, .type = HR_KEY_TREE};
  *table = (hr_key_table){key, 1};
  const hr_key_table *const list[] = {table, NULL};
  return hr__recipe_section_more(recipe, scope->section, list, err);
}

/* Settings of other families may stand in a file, where other programs pass over them too, but whoever writes them into
 * a recipe means them. */
static hr_status foreign_check(hr_recipe *recipe, const hr_scope *scope, const hr_model *own, hr_error *err) {
  char path[HR_SCOPE_PATH];
  const hr_doc_node *config = hr__recipe_written(recipe, hr__scope_path(scope, "config", path));
  for (const hr_doc_node *node = config ? config->child : NULL; node && config->kind == HR_DOC_MAP; node = node->next) {
    if (family_has(own, node->key) || !other_family_has(node->key)) continue;
    if (hr__doc_is_null(node)) {
      HR_TRY(absent_open(recipe, scope, node->key, err));
      continue;
    }
    snprintf(path, sizeof path, "config.%.100s", node->key);
    return hr__scope_fail(scope, path, "remove it, or name another family", err,
                          "models of the family %s have no %s.%s", own->family, scope->section, path);
  }
  return HR_OK;
}

/* The family's own defaults. */
static hr_status defaults_merge(hr_recipe *recipe, const hr_scope *scope, const hr_model *model, hr_error *err) {
  if (!model->defaults) return HR_OK;
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_doc_node *defaults;
  const char *place = hr__arena_format(arena, "defaults of %s", model->family);
  const char *section = hr__arena_format(arena, "%s.config", scope->section);
  if (!place || !section) return hr__nomem(err);
  HR_TRY(hr__yaml_parse(place, model->defaults, strlen(model->defaults), arena, &defaults, err));
  return hr__recipe_later(recipe, section, defaults, place, err);
}

/* What only a part can have stands in its section. */
static hr_status whole_check(const hr_scope *scope, const hr_model *model, hr_error *err) {
  static const char *const of_parts[] = {"path", "adapters", "quantize"};
  char remedy[HR_SCOPE_PATH];
  if (model->n_parts == 0 && hr__scope_given(scope, "parts"))
    return hr__scope_fail(scope, "parts", "remove it, or name a family that consists of parts", err,
                          "models of the family %s have no parts", model->family);
  if (!model->forward)
    return hr__scope_fail(scope, "family", "name a family that can be trained by itself", err,
                          "%s is a family of parts, not of whole models", model->family);
  for (size_t i = 0; model->n_parts > 0 && i < sizeof of_parts / sizeof *of_parts; i++) {
    if (!hr__scope_given(scope, of_parts[i])) continue;
    snprintf(remedy, sizeof remedy, "give it to one of the parts, as %s.parts.%s.%s", scope->section,
             model->parts[0].name, of_parts[i]);
    return hr__scope_fail(scope, of_parts[i], remedy, err, "%s.%s: models of the family %s consist of parts",
                          scope->section, of_parts[i], model->family);
  }
  return HR_OK;
}

static hr_status section_open(hr_recipe *recipe, const hr_scope *scope, const hr_part_declared *part,
                              const hr_model **out, hr_error *err) {
  const hr_model *model = NULL;
  const hr_doc_node *written = hr__recipe_written(recipe, scope->section);
  *out = NULL;
  HR_TRY(hr__recipe_section(recipe, scope->section, part != NULL, err));
  if (written && written->kind != HR_DOC_MAP) return HR_OK; /* reported when keys are placed */
  HR_TRY(family_open(recipe, scope, part, &model, err));
  if (part && !model->body)
    return hr__scope_fail(scope, "family", "name another family", err, "models of the family %s cannot be parts",
                          model->family);
  HR_TRY(foreign_check(recipe, scope, model, err));
  HR_TRY(hr__recipe_section_more(recipe, scope->section, model->keys, err));
  HR_TRY(hr__adapters_open(recipe, scope, err));
  *out = model;
  return defaults_merge(recipe, scope, model, err);
}

/* Without tokens a sample has no length; fields of a length have this one unless the recipe gives another. */
static hr_status length_default(hr_recipe *recipe, const hr_model *model, hr_error *err) {
  static const char one[] = "{ sequence_length: 1 }";
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_doc_node *defaults;
  const char *place = hr__arena_format(arena, "defaults of %s", model->family);
  if (!place) return hr__nomem(err);
  HR_TRY(hr__yaml_parse(place, one, sizeof one - 1, arena, &defaults, err));
  return hr__recipe_later(recipe, "data", defaults, place, err);
}

static hr_status part_name_check(const hr_scope *whole, const hr_model *model, const hr_doc_node *node,
                                 const hr_part_declared *before, size_t count, hr_error *err) {
  enum { LONGEST = 32 };
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const char *name = node->kind == HR_DOC_SCALAR ? node->text : "";
  if (!*name || name[strspn(name, plain)] || strlen(name) > LONGEST)
    return hr__scope_fail(whole, model->part_names, "use letters, digits and _, 32 at most", err,
                          "\"%.100s\" is not a name that a part can have", name);
  for (size_t i = 0; i < count; i++)
    if (strcmp(before[i].name, name) == 0)
      return hr__scope_fail(whole, model->part_names, "name each once", err, "there are two parts \"%s\"", name);
  if (count == model->most_parts)
    return hr__scope_fail(whole, model->part_names, "use fewer", err, "there are more than %zu parts",
                          model->most_parts);
  return HR_OK;
}

/* The parts that a model has: its own, or, where the recipe names others, those. */
static hr_status parts_list(const hr_recipe *recipe, const hr_scope *whole, const hr_model *model,
                            hr_part_declared out[HR_MODEL_PARTS], size_t *count, hr_error *err) {
  char path[HR_SCOPE_PATH];
  const hr_doc_node *named =
      model->part_names ? hr__recipe_written(recipe, hr__scope_path(whole, model->part_names, path)) : NULL;
  *count = 0;
  if (!named || hr__doc_is_null(named) || named->kind == HR_DOC_MAP) { /* a map is reported when keys are placed */
    for (; *count < model->n_parts; ++*count)
      out[*count] = model->parts[*count];
    return HR_OK;
  }
  const hr_doc_node *node = named->kind == HR_DOC_LIST ? named->child : named; /* one alone stands for a list of one */
  for (; node; node = named->kind == HR_DOC_LIST ? node->next : NULL) {
    HR_TRY(part_name_check(whole, model, node, out, *count, err));
    out[(*count)++] = (hr_part_declared){node->text, model->parts[0].family};
  }
  if (*count > 0) return HR_OK;
  return hr__scope_fail(whole, model->part_names, "name at least one", err, "the list is empty");
}

static hr_status model_open(hr_recipe *recipe, hr_error *err) {
  hr_scope whole = hr__scope(recipe, "model");
  const hr_model *model, *inner;
  HR_TRY(section_open(recipe, &whole, NULL, &model, err));
  if (!model) return HR_OK;
  HR_TRY(whole_check(&whole, model, err));
  if (!model->vocabulary) HR_TRY(length_default(recipe, model, err));
  hr_part_declared parts[HR_MODEL_PARTS];
  size_t count;
  HR_TRY(parts_list(recipe, &whole, model, parts, &count, err));
  for (size_t i = 0; i < count; i++) {
    char section[HR_SECTION_TEXT];
    snprintf(section, sizeof section, "model.parts.%s", parts[i].name);
    hr_scope scope = hr__scope(recipe, section);
    HR_TRY(section_open(recipe, &scope, &parts[i], &inner, err));
  }
  return HR_OK;
}

static const hr_key keys[] = {
    {.path = "*.family",
     .type = HR_KEY_TEXT,
     .required = true,
     .meaning = "kind of model: llama, mistral, qwen2, qwen3, gemma3, mamba2, bert, embedder, sensors, gesture, "
                "resnet18, resnet50, efficientnet_b0, convnext_tiny, video_caption, multistream; with a path "
                "it comes from config.json",
     .open = model_open},
    {.path = "*.path",
     .type = HR_KEY_PATH,
     .meaning = "folder of a checkpoint: config.json and *.safetensors; or a GGUF file",
     .folder = "model.path"},
    {.path = "*.precision",
     .type = HR_KEY_CHOICE,
     .fallback = "32-true",
     .inherited = true,
     .choices = "32-true|bf16-mixed|16-mixed|bf16-true|auto",
     .meaning = "types of weights, gradients and activations; mixed: trained weights and their gradients stay f32"},
    {.path = "*.precision_overrides",
     .type = HR_KEY_TREE,
     .example = "{ lm_head: 32-true }",
     .meaning = "precision of modules by name pattern: { pattern: precision }, the first that fits"},
};
const hr_key_table hr_model_keys = {keys, sizeof keys / sizeof *keys};

/* --- graphs built by hand ---------------------------------------------------------------------------------------- */

static hr_status by_hand_open(hr_recipe *recipe, hr_error *err) {
  return hr__recipe_section(recipe, "model", false, err);
}

const hr_model hr_model_by_hand = {.family = "by hand"};
static const hr_key by_hand[] = {
    {.path = "*.family", .type = HR_KEY_CHOICE, .fallback = "by hand", .choices = "by hand", .open = by_hand_open},
};
const hr_key_table hr_by_hand_keys[HR_BY_HAND_TABLES] = {
    {by_hand, 1}, {keys + 1, sizeof keys / sizeof *keys - 1} /* all but the family */
};
