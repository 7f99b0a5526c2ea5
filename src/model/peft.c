/* See peft.h. */
#include "model/peft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/doc.h"
#include "format/file.h"

/* Keys that ask for more than two matrices beside a frozen weight. Null, false, 0, "" and empty ask for nothing. */
static const struct {
  const char *key, *what;
} refused[] = {
    {"use_dora", "DoRA (magnitudes beside the matrices)"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "block-diagonal LoRA"},
    {"lora_bias", "biases of the matrices"},
    {"modules_to_save", "modules that are trained whole beside the adapters"},
    {"rank_pattern", "ranks that differ between modules"},
    {"alpha_pattern", "an alpha that differs between modules"},
    {"layers_to_transform", "layers by number"},
    {"layer_replication", "layers that are repeated"},
    {"exclude_modules", "modules that are left out by pattern"},
    {"trainable_token_indices", "single tokens that are trained"},
    {"target_parameters", "parameters that are no module's weight"},
    {"fan_in_fan_out", "weights that are stored transposed"},
    {"megatron_config", "layers of Megatron"},
    {"alora_invocation_tokens", "adapters that begin at a token (aLoRA)"},
    {"arrow_config", "Arrow"},
    {"kasa_config", "KaSA"},
    {"monteclora_config", "MonteCLoRA"},
};

static bool asks_for_nothing(const hr_doc_node *node) {
  bool yes;
  double number;
  if (node->kind != HR_DOC_SCALAR) return node->child == NULL;
  return hr__doc_is_null(node) || (hr__doc_bool(node, &yes) && !yes) || (hr__doc_float(node, &number) && number == 0) ||
         (node->quoted && !*node->text);
}

static hr_status refuse(const char *name, const hr_doc_node *node, const char *what, hr_error *err) {
  char place[HR_DOC_PLACE];
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, node, true, place), "take an adapter of plain LoRA",
                  "%s: %s: adapters with that are not supported", node->key, what);
}

static hr_status kind_check(const hr_doc_node *root, const char *name, hr_error *err) {
  const hr_doc_node *type = hr__doc_get(root, "peft_type"), *bias = hr__doc_get(root, "bias");
  char place[HR_DOC_PLACE];
  if (!type || type->kind != HR_DOC_SCALAR || strcmp(type->text, "LORA") != 0)
    return hr__fail(err, HR_BAD_INPUT, type ? hr__doc_place(name, type, true, place) : name,
                    "take an adapter of plain LoRA", "peft_type %s%.60s%s: only LORA is supported", type ? "\"" : "",
                    type && type->kind == HR_DOC_SCALAR ? type->text : "is missing", type ? "\"" : "");
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const hr_doc_node *node = hr__doc_get(root, refused[i].key);
    if (node && !asks_for_nothing(node)) return refuse(name, node, refused[i].what, err);
  }
  if (bias && !asks_for_nothing(bias) && (bias->kind != HR_DOC_SCALAR || strcmp(bias->text, "none") != 0))
    return refuse(name, bias, "biases that are trained beside the adapters", err);
  return HR_OK;
}

static hr_status number_get(const hr_doc_node *root, const char *name, const char *key, double least, double *out,
                            hr_error *err) {
  char place[HR_DOC_PLACE];
  const hr_doc_node *node = hr__doc_get(root, key);
  if (!node || hr__doc_is_null(node)) return HR_OK; /* PEFT's own default, which is there already */
  if (node->kind == HR_DOC_SCALAR && !node->quoted && hr__doc_float(node, out) && *out >= least && *out <= 1e6)
    return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, node, true, place), NULL, "%s is not a number from %g on", key,
                  least);
}

static hr_status config_take(const hr_doc_node *root, const char *name, hr_arena *arena, hr_peft *out, hr_error *err) {
  double rank = 8;
  char place[HR_DOC_PLACE];
  const hr_doc_node *base = hr__doc_get(root, "base_model_name_or_path"), *stable = hr__doc_get(root, "use_rslora");
  if (root->kind != HR_DOC_MAP) return hr__fail(err, HR_BAD_INPUT, name, NULL, "this is not a config of adapters");
  HR_TRY(kind_check(root, name, err));
  *out = (hr_peft){.alpha = 8};
  HR_TRY(number_get(root, name, "r", 1, &rank, err));
  HR_TRY(number_get(root, name, "lora_alpha", 1e-6, &out->alpha, err));
  HR_TRY(number_get(root, name, "lora_dropout", 0, &out->dropout, err));
  out->rank = (int64_t)rank;
  if ((double)out->rank != rank) return hr__fail(err, HR_BAD_INPUT, name, NULL, "r is not a whole number");
  if (stable && !hr__doc_is_null(stable) && !hr__doc_bool(stable, &out->rank_stabilised))
    return hr__fail(err, HR_BAD_INPUT, hr__doc_place(name, stable, true, place), NULL,
                    "use_rslora is not true or false");
  if (base && base->kind == HR_DOC_SCALAR && base->quoted && *base->text) {
    out->base = hr__arena_text(arena, base->text);
    if (!out->base) return hr__nomem(err);
  }
  return HR_OK;
}

/* The module of a tensor that is an A or a B; NULL: it is neither. */
static const char *module_of(const char *tensor, const char *ending, hr_arena *arena, hr_status *status,
                             hr_error *err) {
  size_t length = strlen(tensor), prefix = sizeof HR_PEFT_PREFIX - 1, end = strlen(ending);
  if (length <= prefix + end || strncmp(tensor, HR_PEFT_PREFIX, prefix) != 0 ||
      strcmp(tensor + length - end, ending) != 0)
    return NULL;
  const char *module = hr__arena_format(arena, "%.*s", (int)(length - prefix - end), tensor + prefix);
  *status = module ? HR_OK : hr__nomem(err);
  return module;
}

/* Every tensor is one of two that belong together. */
static hr_status modules_list(const hr_stored *file, const char *path, hr_arena *arena, hr_peft *out, hr_error *err) {
  size_t count = hr__stored_count(file);
  out->modules = hr__arena_array(arena, count + 1, sizeof *out->modules);
  if (!out->modules) return hr__nomem(err);
  for (size_t i = 0; i < count; i++) {
    const hr_stored_tensor *t = hr__stored_at(file, i);
    hr_status status = HR_OK;
    const char *module = module_of(t->name, HR_PEFT_A, arena, &status, err);
    bool is_a = module != NULL;
    if (!module && status == HR_OK) module = module_of(t->name, HR_PEFT_B, arena, &status, err);
    HR_TRY(status);
    if (!module)
      return hr__fail(err, HR_BAD_INPUT, path, "take an adapter of plain LoRA",
                      "tensor %.120s is no matrix of an adapter of a linear module", t->name);
    const char *other = hr__arena_format(arena, HR_PEFT_PREFIX "%s%s", module, is_a ? HR_PEFT_B : HR_PEFT_A);
    if (!other) return hr__nomem(err);
    if (hr__stored_find(file, other) == SIZE_MAX)
      return hr__fail(err, HR_BAD_INPUT, path, NULL, "tensor %.120s is missing", other);
    if (t->rank != 2 || t->dim[is_a ? 0 : 1] != out->rank)
      return hr__fail(err, HR_BAD_INPUT, path, NULL,
                      "tensor %.120s is no matrix of rank %lld, which " HR_PEFT_CONFIG " says", t->name,
                      (long long)out->rank);
    if (is_a) out->modules[out->n_modules++] = module;
  }
  return out->n_modules > 0 ? HR_OK : hr__fail(err, HR_BAD_INPUT, path, NULL, "there are no adapters in this file");
}

bool hr__peft_is_there(const char *folder) {
  char path[4096];
  return snprintf(path, sizeof path, "%s/" HR_PEFT_CONFIG, folder) < (int)sizeof path && access(path, F_OK) == 0;
}

hr_status hr__peft_open(const char *folder, hr_stored **out, hr_error *err) {
  hr_arena arena = {0};
  *out = NULL;
  const char *path = hr__arena_format(&arena, "%s/" HR_PEFT_FILE, folder);
  hr_status status = path ? HR_OK : hr__nomem(err);
  if (status == HR_OK && access(path, F_OK) != 0)
    status = hr__fail(err, HR_BAD_INPUT, folder, "save the adapter with safe_serialization=True",
                      "there is no " HR_PEFT_FILE " in this folder");
  if (status == HR_OK) status = hr__stored_open(path, out, err);
  hr__arena_fini(&arena);
  return status;
}

hr_status hr__peft_read(const char *folder, hr_arena *arena, hr_peft *out, hr_error *err) {
  char *text;
  size_t bytes;
  hr_doc_node *root;
  hr_stored *file;
  const char *name = hr__arena_format(arena, "%s/" HR_PEFT_CONFIG, folder);
  if (!name) return hr__nomem(err);
  HR_TRY(hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, err));
  HR_TRY(hr__json_parse(name, text, bytes, arena, &root, err));
  HR_TRY(config_take(root, name, arena, out, err));
  HR_TRY(hr__peft_open(folder, &file, err));
  hr_status status = modules_list(file, folder, arena, out, err);
  hr__stored_close(file);
  return status;
}

double hr__peft_scale(const hr_peft *peft) {
  double rank = (double)peft->rank;
  return peft->alpha / (peft->rank_stabilised ? sqrt(rank) : rank);
}
