/* config.json of the public checkpoints: what a recipe takes over from it, and what is refused because it changes what
 * the model computes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/model.h"

/* Keys that name schemes headroom does not have. Null, false, 0 and empty sections ask for nothing. */
static const struct {
  const char *key, *what, *remedy;
} schemes[] = {
    {"quantization_config", "weights that are stored quantized are not supported",
     "take the checkpoint with unquantized weights"},
    {"per_layer_config", "layers that differ from each other in size are not supported", NULL},
    {"pruned_heads", "layers that lack some of their heads are not supported", NULL},
    {"rope_interleaved", "rotary positions that rotate neighbouring elements are not supported", NULL},
    {"alibi_starting_size", "positions as a slope of the attention's scores are not supported",
     "take a checkpoint with absolute positions"},
    {"attn_logit_softcapping", "scores of the attention that are held below a cap are not supported", NULL},
    {"final_logit_softcapping", "logits that are held below a cap are not supported", NULL},
    {"use_bidirectional_attention", "decoders that look to both sides are not supported", NULL},
};

static bool asks_for_nothing(const hr_doc_node *node) {
  bool yes;
  double number;
  if (node->kind != HR_DOC_SCALAR) return node->child == NULL;
  return hr__doc_is_null(node) || (hr__doc_bool(node, &yes) && !yes) || (hr__doc_float(node, &number) && number == 0);
}

/* Whether an architecture is this family's, with the head that headroom gives it or without any ("LlamaModel"). */
static bool architecture_fits(const char *name, const hr_model *model) {
  size_t length = strlen(model->family);
  if (strncasecmp(name, model->family, length) != 0) return false;
  const char *const tasks[] = {model->task, model->other_task, "Model", "LMHeadModel"};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
    if (tasks[i] && strcmp(name + length, tasks[i]) == 0) return true;
  return false;
}

/* "LlamaForSequenceClassification": a checkpoint for another task has another head. "JinaBertForMaskedLM": a model of
 * somebody's own. */
static hr_status architecture_check(const hr_doc_node *config, const hr_model *model, const char *name, hr_error *err) {
  char place[HR_DOC_PLACE], remedy[128];
  const hr_doc_node *list = hr__doc_get(config, "architectures");
  const hr_doc_node *first = list && list->kind == HR_DOC_LIST ? list->child : NULL;
  if (!first || first->kind != HR_DOC_SCALAR || architecture_fits(first->text, model)) return HR_OK;
  bool of_family = strncasecmp(first->text, model->family, strlen(model->family)) == 0;
  snprintf(remedy, sizeof remedy, "take a checkpoint of the family %s whose architecture ends with %s", model->family,
           model->task);
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, first, false, place), remedy, "architectures: %.100s is %s",
                  first->text, of_family ? "not supported" : "another model than model_type says");
}

static hr_status schemes_check(const hr_doc_node *config, const char *name, hr_error *err) {
  char place[HR_DOC_PLACE];
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    const hr_doc_node *node = hr__doc_get(config, schemes[i].key);
    if (node && !asks_for_nothing(node))
      return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, node, true, place), schemes[i].remedy, "%s: %s",
                      schemes[i].key, schemes[i].what);
  }
  return HR_OK;
}

static const hr_model *model_typed(const char *type) {
  const hr_model *model;
  for (size_t i = 0; (model = hr__model_at(i)); i++)
    if (model->model_type && strcmp(model->model_type, type) == 0) return model;
  return hr__model_named(type);
}

/* What the file says it is: timm calls it "architecture". */
static const hr_doc_node *type_of(const hr_doc_node *config) {
  const hr_doc_node *type = hr__doc_get(config, "model_type");
  return type ? type : hr__doc_get(config, "architecture");
}

/* The file's model_type; files of before 2020 do not say what they are, then the recipe must. */
static hr_status family_find(hr_recipe *recipe, const char *section, const hr_doc_node *config, const char *name,
                             const hr_model **out, hr_error *err) {
  char list[256], remedy[512], place[HR_DOC_PLACE], path[HR_SCOPE_PATH];
  const hr_doc_node *type = type_of(config);
  bool said = type && type->kind == HR_DOC_SCALAR;
  hr__model_families(list, sizeof list);
  snprintf(path, sizeof path, "%s.family", section);
  if (!said && config->kind == HR_DOC_MAP && hr__recipe_given(recipe, path)) return HR_OK;
  if (!said) {
    snprintf(remedy, sizeof remedy, "say which it is, for example with --set %s=bert (families: %s)", path, list);
    return hr__fail(err, HR_BAD_INPUT, name, remedy, "model_type is missing: it names the family of the model");
  }
  *out = model_typed(type->text);
  if (*out) return architecture_check(config, *out, name, err);
  snprintf(remedy, sizeof remedy, "families: %s", list);
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, type, false, place), remedy,
                  "model_type \"%.100s\" is not supported", type->text);
}

/* What the file's model_type says as the family of the section. */
static hr_status family_merge(hr_recipe *recipe, const char *section, const hr_doc_node *config, const hr_model *model,
                              const char *name, hr_error *err) {
  hr_arena *arena = hr__recipe_arena(recipe);
  hr_doc_node *map = hr__arena_alloc(arena, sizeof *map), *family = hr__arena_alloc(arena, sizeof *family);
  if (!map || !family) return hr__nomem(err);
  *family = *type_of(config);
  family->key = "family";
  family->text = model->family;
  family->next = NULL;
  *map = (hr_doc_node){.kind = HR_DOC_MAP, .child = family};
  return hr__recipe_later(recipe, section, map, name, err);
}

hr_status hr__model_config_merge(hr_recipe *recipe, const char *section, const char *name, const char *text,
                                 size_t bytes, const hr_model **family, hr_error *err) {
  hr_doc_node *config;
  *family = NULL;
  HR_TRY(hr__json_parse(name, text, bytes, hr__recipe_arena(recipe), &config, err));
  HR_TRY(family_find(recipe, section, config, name, family, err));
  if (*family) HR_TRY(family_merge(recipe, section, config, *family, name, err));
  if (*family && (*family)->config_read) HR_TRY((*family)->config_read(config, name, err));
  HR_TRY(schemes_check(config, name, err));
  const char *inner = hr__arena_format(hr__recipe_arena(recipe), "%s.config", section);
  return inner ? hr__recipe_later(recipe, inner, config, name, err) : hr__nomem(err);
}
