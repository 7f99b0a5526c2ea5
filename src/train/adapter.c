/* See adapter.h. */
#include "train/adapter.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json.h"
#include "model/model.h"
#include "model/peft.h"
#include "op/linear.h"
#include "pass/adapters.h"

/* The module of an adapter, by its A; NULL: the value is none. */
static const char *adapter_module(const hr_graph *g, const hr_model_parts *parts, size_t p, hr_id value,
                                  hr_arena *arena) {
  const hr_value *v = &g->values[value];
  size_t length = strlen(v->name), tail = sizeof HR_PEFT_A - 1;
  if (!v->keep_f32 || !hr__graph_is_tensor(g, value) || length <= tail ||
      strcmp(v->name + length - tail, HR_PEFT_A) != 0)
    return NULL;
  if (hr__parts_of(parts, v->name) != p) return NULL;
  return hr__arena_format(arena, "%.*s", (int)(length - tail), v->name);
}

static const char *last_name(const char *module) {
  const char *dot = strrchr(module, '.');
  return dot ? dot + 1 : module;
}

/* Whether every linear of that last name has an adapter, so that the name alone stands for all of them. */
static bool name_is_enough(const hr_graph *g, const hr_model_parts *parts, size_t p, const hr_lora *lora,
                           const char *name) {
  char module[HR_MODULE_PATH];
  for (size_t n = 0; n < g->n_nodes; n++) {
    if (hr__parts_of(parts, g->nodes[n].module) != p) continue;
    for (int i = 0; g->nodes[n].op == &hr_op_linear && hr__module_member(g->nodes[n].module, i, module); i++)
      if (strcmp(last_name(module), name) == 0 && !hr__targets_match(lora->targets, lora->n_targets, module))
        return false;
  }
  return true;
}

/* Readers take a target as the end of a module's path: last names where they are enough, else whole paths. */
static json_t *targets_json(const hr_graph *g, const hr_model_parts *parts, size_t p, const hr_lora *lora,
                            hr_arena *arena) {
  size_t drop = p > 0 ? strlen(parts->part[p].name) + 1 : 0;
  json_t *list = json_array();
  bool ok = list != NULL;
  for (hr_id v = 0; ok && v < g->n_values; v++) {
    const char *module = adapter_module(g, parts, p, v, arena);
    if (!module) continue;
    const char *target = name_is_enough(g, parts, p, lora, last_name(module)) ? last_name(module) : module + drop;
    bool known = false;
    for (size_t i = 0; i < json_array_size(list); i++)
      known |= strcmp(json_string_value(json_array_get(list, i)), target) == 0;
    ok = known || json_array_append_new(list, json_string(target)) == 0;
  }
  if (ok) return list;
  json_decref(list);
  return NULL;
}

static json_t *number_json(double number) {
  return number == floor(number) ? json_integer((json_int_t)number) : json_real(number);
}

/* The base from wherever the adapters are loaded; NULL: it was drawn. */
static const char *base_path(const hr_model_part *part, char whole[PATH_MAX]) {
  if (!hr__scope_has(&part->scope, "path")) return NULL;
  const char *path = hr__scope_text(&part->scope, "path");
  return realpath(path, whole) ? whole : path;
}

/* Without a task readers are told the class of the base, and the library that has it. */
static json_t *mapping_json(const hr_model_part *part) {
  json_t *config = part->model->config_json ? part->model->config_json(part) : NULL;
  const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
  const char *family = part->model->family;
  char library[128];
  snprintf(library, sizeof library, "transformers.models.%s.modeling_%s", family, family);
  json_t *mapping = class ? json_pack("{s:s, s:s}", "base_model_class", class, "parent_library", library) : json_null();
  json_decref(config);
  return mapping;
}

hr_status hr__adapter_config(const hr_model_parts *parts, size_t p, const hr_graph *graph, hr_arena *arena,
                             const char **text, size_t *bytes, hr_error *err) {
  const hr_model_part *part = &parts->part[p];
  *text = NULL;
  if (!hr__lora_given(part)) return HR_OK;
  hr_lora lora = hr__lora_read(part);
  const char *task = part->model->masked || p > 0 ? NULL : "CAUSAL_LM";
  char base[PATH_MAX];
  hr__json_init();
  json_t *root = json_pack(
      "{s:s, s:o, s:s?, s:s?, s:n, s:b, s:I, s:o, s:f, s:o, s:n, s:s, s:b, s:b, s:b, s:b, s:n, s:n, s:n, s:{}, s:{}}",
      "peft_type", "LORA", "auto_mapping", task ? json_null() : mapping_json(part), "task_type", task,
      "base_model_name_or_path", base_path(part, base), "revision", "inference_mode", 1, "r", (json_int_t)lora.rank,
      "lora_alpha", number_json(lora.alpha), "lora_dropout", lora.dropout, "target_modules",
      targets_json(graph, parts, p, &lora, arena), "exclude_modules", "bias", "none", "fan_in_fan_out", 0,
      "init_lora_weights", 1, "use_rslora", (int)lora.rank_stabilised, "use_dora", 0, "modules_to_save",
      "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern");
  char *plain;
  hr_status status = hr__json_text(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15), arena, &plain, bytes, err);
  json_decref(root);
  HR_TRY(status);
  *text = hr__arena_format(arena, "%s\n", plain);
  *bytes += 1;
  return *text ? HR_OK : hr__nomem(err);
}
