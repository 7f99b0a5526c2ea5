/* Public checkpoints of gemma: see decoder.h. */
#include <stdio.h>
#include <string.h>

#include "model/decoder.h"

/* ---- config.json ---- */

static void child_remove(hr_doc_node *map, const hr_doc_node *child) {
  hr_doc_node **link = &map->child;
  while (*link && *link != child)
    link = &(*link)->next;
  if (*link) *link = child->next;
}

static void child_add(hr_doc_node *map, hr_doc_node *child, const char *key) {
  child->key = key;
  child->next = map->child;
  map->child = child;
}

static hr_doc_node *section_of(hr_doc_node *map, const char *key) {
  hr_doc_node *node = map ? hr__doc_get(map, key) : NULL;
  return node && node->kind == HR_DOC_MAP ? node : NULL;
}

/* Of a model that also sees: what text_config says goes before what stands around it. */
static void text_config_lift(hr_doc_node *config) {
  hr_doc_node *text = section_of(config, "text_config");
  if (!text) return;
  child_remove(config, text);
  while (text->child) {
    hr_doc_node *node = text->child, *outer = hr__doc_get(config, node->key);
    text->child = node->next;
    if (outer) child_remove(config, outer);
    child_add(config, node, node->key);
  }
}

/* rope_parameters by the types of layers, as newer files have them: those of full_attention become rope_parameters, of
 * sliding_attention the base alone is taken. */
static hr_status rope_sections_lift(hr_doc_node *config, const char *name, hr_error *err) {
  char place[HR_DOC_PLACE];
  hr_doc_node *parameters = section_of(config, "rope_parameters"), *full = section_of(parameters, "full_attention");
  hr_doc_node *sliding = section_of(parameters, "sliding_attention");
  if (!full && !sliding) return HR_OK;
  child_remove(config, parameters);
  if (full) child_add(config, full, "rope_parameters");
  if (!sliding) return HR_OK;
  hr_doc_node *type = hr__doc_get(sliding, "rope_type"), *theta = hr__doc_get(sliding, "rope_theta");
  if (type && type->kind == HR_DOC_SCALAR && strcmp(type->text, "default") != 0)
    return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, type, false, place), NULL,
                    "rope_parameters.sliding_attention: rope_type \"%.60s\" is not supported in layers with a window",
                    type->text);
  if (theta) child_add(config, theta, "rope_local_base_freq");
  return HR_OK;
}

/* The family's name for the gate; files may have the other one too, which is not read then. */
static void activation_rename(hr_doc_node *config) {
  hr_doc_node *own = hr__doc_get(config, "hidden_activation"), *other = hr__doc_get(config, "hidden_act");
  if (!own || hr__doc_is_null(own)) return;
  if (other) child_remove(config, other);
  own->key = "hidden_act";
}

hr_status hr__gemma_config(hr_doc_node *config, const char *name, hr_error *err) {
  text_config_lift(config);
  activation_rename(config);
  hr_doc_node *pattern = hr__doc_get(config, "_sliding_window_pattern"); /* as some files have it */
  if (pattern && !hr__doc_get(config, "sliding_window_pattern")) pattern->key = "sliding_window_pattern";
  HR_TRY(rope_sections_lift(config, name, err));
  return hr__rope_config(config, name, err);
}

/* ---- names of tensors ---- */

static const char BODY[] = "model.", TEXT[] = "language_model.";
enum { BODY_LENGTH = sizeof BODY - 1, TEXT_LENGTH = sizeof TEXT - 1 };

/* "model.norm.weight" is "language_model.model.norm.weight" in older files of models that also see, and
 * "model.language_model.norm.weight" in newer ones. */
const char *hr__gemma_other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]) {
  bool body = strncmp(parameter, BODY, BODY_LENGTH) == 0;
  if (i > (body ? 1 : 0)) return NULL;
  int length = i == 0 ? snprintf(out, HR_TENSOR_NAME, "%s%s", TEXT, parameter)
                      : snprintf(out, HR_TENSOR_NAME, "%s%s%s", BODY, TEXT, parameter + BODY_LENGTH);
  return length < HR_TENSOR_NAME ? out : NULL;
}

const char *hr__gemma_text_name(const char *tensor) {
  static const char *const seeing[] = {"vision_tower.", "multi_modal_projector."};
  const char *inner = strncmp(tensor, BODY, BODY_LENGTH) == 0 ? tensor + BODY_LENGTH : tensor;
  for (size_t i = 0; i < sizeof seeing / sizeof *seeing; i++)
    if (strncmp(inner, seeing[i], strlen(seeing[i])) == 0) return NULL;
  return strncmp(tensor, TEXT, TEXT_LENGTH) == 0 ? tensor + TEXT_LENGTH : tensor;
}
