/* What config.json says of rotary positions, in the forms of many years, brought into those that recipes have
 * (decoder.h). */
#include "model/decoder.h"

/* A factor other than 1 leaves a part of each head unturned. */
static hr_status partial_check(const hr_doc_node *section, const char *name, hr_error *err) {
  char place[HR_DOC_PLACE];
  double part;
  const hr_doc_node *rotary = hr__doc_get(section, "partial_rotary_factor");
  if (!rotary || !hr__doc_float(rotary, &part) || part == 1.0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, rotary, true, place), NULL,
                  "partial_rotary_factor %.20s is not supported", rotary->text);
}

/* rope_parameters may have sections by the types of layers. */
static hr_status alike_check(const hr_doc_node *section, const char *name, hr_error *err) {
  char place[HR_DOC_PLACE];
  bool map = section && section->kind == HR_DOC_MAP;
  for (const hr_doc_node *node = map ? section->child : NULL; node; node = node->next)
    if (node->kind == HR_DOC_MAP)
      return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, node, true, place), NULL,
                      "rope_parameters: rotary positions that differ between layers (%.60s) are not supported",
                      node->key);
  return HR_OK;
}

/* Old files call rope_type just "type". */
static void rope_type_rename(hr_doc_node *section) {
  if (!section || hr__doc_get(section, "rope_type")) return;
  hr_doc_node *type = hr__doc_get(section, "type");
  if (type) type->key = "rope_type";
}

/* Files that have both forms: what stretches is in the older one, and the base may be in the newer one alone. */
static void forms_join(hr_doc_node *config, hr_doc_node *scaling, hr_doc_node *parameters) {
  hr_doc_node **end = &scaling->child, **link = &parameters->child;
  while (*end)
    end = &(*end)->next;
  while (*link) {
    hr_doc_node *node = *link;
    *link = node->next;
    node->next = NULL;
    if (hr__doc_get(scaling, node->key)) continue;
    *end = node;
    end = &node->next;
  }
  for (link = &config->child; *link != parameters;)
    link = &(*link)->next;
  *link = parameters->next;
  scaling->key = "rope_parameters";
}

hr_status hr__rope_config(hr_doc_node *config, const char *name, hr_error *err) {
  hr_doc_node *scaling = hr__doc_get(config, "rope_scaling"), *parameters = hr__doc_get(config, "rope_parameters");
  HR_TRY(partial_check(config, name, err));
  HR_TRY(partial_check(scaling, name, err));
  HR_TRY(partial_check(parameters, name, err));
  HR_TRY(alike_check(parameters, name, err));
  rope_type_rename(scaling);
  rope_type_rename(parameters);
  bool older = scaling && scaling->kind == HR_DOC_MAP && scaling->child;
  if (older && parameters && parameters->kind == HR_DOC_MAP) forms_join(config, scaling, parameters);
  /* The newer form under the older one's name. */
  if (older && !parameters && hr__doc_get(scaling, "rope_theta")) scaling->key = "rope_parameters";
  return HR_OK;
}
