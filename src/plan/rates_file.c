/* The cache file of a device's rates: JSON, written whole, believed only if every field makes sense. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/json.h"
#include "plan/rates.h"

enum { RATES_FILE_CAP = 4 << 20, RATES_SCHEMA = 2, RATES_PRODUCTS = 1 << 16 };

/* The device's name as part of a file name: letters and digits, everything else one dash. */
static void slug_make(const char *name, char out[96]) {
  size_t length = 0;
  for (const char *c = name; *c && length < 90; c++) {
    if (isalnum((unsigned char)*c)) {
      out[length++] = (char)tolower((unsigned char)*c);
    } else if (length > 0 && out[length - 1] != '-') {
      out[length++] = '-';
    }
  }
  while (length > 0 && out[length - 1] == '-')
    length--;
  out[length] = '\0';
}

/* hr__rates_path, with the reason where there is none. */
static hr_status path_make(const hr_facts *facts, hr_arena *arena, const char **path, hr_error *err) {
  char slug[96], file[160];
  slug_make(facts->name, slug);
  snprintf(file, sizeof file, "rates-%s-%s.json", hr_device_kind_name(facts->kind), slug);
  return hr__cache_path(arena, file, path, err);
}

const char *hr__rates_path(const hr_facts *facts, hr_arena *arena) {
  const char *path = NULL;
  return path_make(facts, arena, &path, NULL) == HR_OK ? path : NULL;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static bool positive_read(const hr_doc_node *map, const char *key, double *out) {
  const hr_doc_node *node = hr__doc_get(map, key);
  return node && hr__doc_float(node, out) && isfinite(*out) && *out > 0 && *out < 1e30;
}

static bool int_read(const hr_doc_node *map, const char *key, int64_t min, int64_t max, int64_t *out) {
  const hr_doc_node *node = hr__doc_get(map, key);
  return node && hr__doc_int(node, out) && *out >= min && *out <= max;
}

static bool bool_read(const hr_doc_node *map, const char *key, bool *out) {
  const hr_doc_node *node = hr__doc_get(map, key);
  return node && hr__doc_bool(node, out);
}

static bool rate_read(const hr_doc_node *map, hr_class_rate *out) {
  return map && positive_read(map, "flops_per_second", &out->flops_per_second) &&
         positive_read(map, "bytes_per_second", &out->bytes_per_second) &&
         positive_read(map, "overhead_seconds", &out->overhead_seconds);
}

static bool class_read(const hr_doc_node *classes, hr_op_class op_class, hr_class_rate out[2]) {
  const hr_doc_node *list = hr__doc_get(classes, hr_op_class_name(op_class));
  if (!list || list->kind != HR_DOC_LIST) return false;
  const hr_doc_node *entry = list->child;
  for (int i = 0; i < 2; i++, entry = entry->next) {
    if (!entry || !rate_read(entry, &out[i])) return false;
  }
  return entry == NULL;
}

static bool copies_read(const hr_doc_node *map, hr_copy_rates *out) {
  if (!positive_read(map, "host_bytes_per_second", &out->host_bytes_per_second)) return false;
  const char *alone = "host_alone_bytes_per_second"; /* older files have one rate for both */
  out->host_alone_bytes_per_second = out->host_bytes_per_second;
  return (!hr__doc_get(map, alone) || positive_read(map, alone, &out->host_alone_bytes_per_second)) &&
         positive_read(map, "disk_read_bytes_per_second", &out->disk_read_bytes_per_second) &&
         positive_read(map, "disk_write_bytes_per_second", &out->disk_write_bytes_per_second) &&
         positive_read(map, "overhead_seconds", &out->overhead_seconds);
}

/* With another driver or other libraries a GPU has other rates. */
static bool gpu_read(const hr_facts *facts, const hr_doc_node *map, hr_gpu_rates *out) {
  const hr_doc_node *version = map ? hr__doc_get(map, "version") : NULL;
  if (!version || version->kind != HR_DOC_SCALAR || strcmp(version->text, facts->version) != 0) return false;
  const hr_doc_node *products = hr__doc_get(map, "product_flops");
  return products && positive_read(products, "f32", &out->product_flops[HR_F32]) &&
         positive_read(products, "bf16", &out->product_flops[HR_BF16]) &&
         positive_read(products, "f16", &out->product_flops[HR_F16]) &&
         rate_read(hr__doc_get(map, "attention_16"), &out->attention_16) &&
         positive_read(map, "program_seconds", &out->program_seconds);
}

static bool dtype_read(const hr_doc_node *map, hr_dtype *out) {
  const hr_doc_node *node = hr__doc_get(map, "dtype");
  if (!node || node->kind != HR_DOC_SCALAR) return false;
  for (int d = 0; d < HR_DTYPE_COUNT; d++) {
    *out = (hr_dtype)d;
    if (strcmp(node->text, hr_dtype_name(*out)) == 0) return true;
  }
  return false;
}

static bool product_read(const hr_doc_node *map, int threads, hr_product_rate *out) {
  const int64_t most = (int64_t)1 << 40;
  int64_t on;
  hr_product *product = &out->product;
  bool good = int_read(map, "m", 1, most, &product->m) && int_read(map, "n", 1, most, &product->n) &&
              int_read(map, "k", 1, most, &product->k) && int_read(map, "threads", 0, threads, &on) &&
              bool_read(map, "transpose_a", &product->transpose_a) &&
              bool_read(map, "transpose_b", &product->transpose_b) &&
              bool_read(map, "accumulate", &product->accumulate) && dtype_read(map, &product->dtype) &&
              positive_read(map, "seconds", &out->seconds);
  if (!good) return false;
  product->times = 1;
  out->threads = (int)on;
  return true;
}

static bool op_read(const hr_doc_node *map, int threads, hr_op_rate *out) {
  const hr_doc_node *op = hr__doc_get(map, "op"), *key = hr__doc_get(map, "key");
  int64_t on;
  if (!op || op->kind != HR_DOC_SCALAR || !key || key->kind != HR_DOC_SCALAR) return false;
  if (strlen(key->text) != HR_XXH_HEX - 1 || strspn(key->text, "0123456789abcdef") != HR_XXH_HEX - 1) return false;
  out->op = hr__op_find(op->text);
  if (!out->op || !int_read(map, "threads", 1, threads, &on) || !positive_read(map, "seconds", &out->seconds))
    return false;
  memcpy(out->key, key->text, HR_XXH_HEX);
  out->threads = (int)on;
  return true;
}

static hr_status ops_read(const hr_doc_node *list, hr_rates *rates, hr_error *err) {
  if (!list || list->kind != HR_DOC_LIST) return HR_BAD_INPUT;
  size_t count = 0;
  for (const hr_doc_node *entry = list->child; entry; entry = entry->next) {
    hr_op_rate rate = {0};
    if (count++ == HR_RATES_OPS || !op_read(entry, rates->threads, &rate)) return HR_BAD_INPUT;
    HR_TRY(hr__rates_add_op(rates, &rate, err));
  }
  return HR_OK;
}

/* HR_BAD_INPUT stands for "do not believe this file". */
static hr_status rates_read(const hr_facts *facts, const hr_doc_node *root, hr_rates *rates, hr_error *err) {
  int64_t schema, threads;
  const hr_doc_node *device = hr__doc_get(root, "device");
  const hr_doc_node *products = hr__doc_get(root, "products");
  const hr_doc_node *classes = hr__doc_get(root, "classes");
  if (!int_read(root, "schema", RATES_SCHEMA, RATES_SCHEMA, &schema)) return HR_BAD_INPUT;
  if (!device || device->kind != HR_DOC_SCALAR || strcmp(device->text, facts->name) != 0) return HR_BAD_INPUT;
  if (!int_read(root, "threads", rates->threads, rates->threads, &threads)) return HR_BAD_INPUT;
  if (!classes || !products || products->kind != HR_DOC_LIST) return HR_BAD_INPUT;
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    if (!class_read(classes, (hr_op_class)c, rates->classes[c])) return HR_BAD_INPUT;
  const hr_doc_node *copies = hr__doc_get(root, "copies");
  if (copies && !copies_read(copies, &rates->copies)) return HR_BAD_INPUT; /* older files have none: defaults */
  if (facts->kind == HR_CUDA && !gpu_read(facts, hr__doc_get(root, "gpu"), &rates->gpu)) return HR_BAD_INPUT;
  size_t count = 0;
  for (const hr_doc_node *entry = products->child; entry; entry = entry->next) {
    hr_product_rate rate = {0};
    if (count++ == RATES_PRODUCTS || !product_read(entry, rates->threads, &rate)) return HR_BAD_INPUT;
    HR_TRY(hr__rates_add(rates, &rate, err));
  }
  HR_TRY(ops_read(hr__doc_get(root, "ops"), rates, err));
  rates->measured = true;
  return HR_OK;
}

static hr_status rates_load(const hr_facts *facts, hr_arena *scratch, hr_rates *rates, hr_error *err) {
  const char *path;
  HR_TRY(path_make(facts, scratch, &path, err));
  char *text;
  size_t bytes;
  hr_doc_node *root;
  HR_TRY(hr__file_read(path, RATES_FILE_CAP, scratch, &text, &bytes, err));
  HR_TRY(hr__json_parse(path, text, bytes, scratch, &root, err));
  return rates_read(facts, root, rates, err);
}

hr_status hr__rates_load(const hr_facts *facts, hr_rates *rates, hr_error *err) {
  hr_arena scratch;
  hr_error unread = {0};
  hr__arena_init(&scratch);
  hr__rates_default(facts, rates);
  hr_status status = rates_load(facts, &scratch, rates, &unread);
  hr__arena_fini(&scratch);
  if (status == HR_OK) return HR_OK;
  hr__rates_fini(rates);
  hr__rates_default(facts, rates);
  return status == HR_NOMEM ? hr__nomem(err) : HR_OK;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static json_t *rate_json(const hr_class_rate *rate) {
  return json_pack("{s:f,s:f,s:f}", "flops_per_second", rate->flops_per_second, "bytes_per_second",
                   rate->bytes_per_second, "overhead_seconds", rate->overhead_seconds);
}

static json_t *gpu_json(const hr_facts *facts, const hr_gpu_rates *rates) {
  return json_pack("{s:s,s:{s:f,s:f,s:f},s:o,s:f}", "version", facts->version, "product_flops", "f32",
                   rates->product_flops[HR_F32], "bf16", rates->product_flops[HR_BF16], "f16",
                   rates->product_flops[HR_F16], "attention_16", rate_json(&rates->attention_16), "program_seconds",
                   rates->program_seconds);
}

static json_t *product_json(const hr_product_rate *rate) {
  const hr_product *p = &rate->product;
  return json_pack("{s:s,s:b,s:b,s:b,s:I,s:I,s:I,s:i,s:f}", "dtype", hr_dtype_name(p->dtype), "transpose_a",
                   p->transpose_a, "transpose_b", p->transpose_b, "accumulate", p->accumulate, "m", (json_int_t)p->m,
                   "n", (json_int_t)p->n, "k", (json_int_t)p->k, "threads", rate->threads, "seconds", rate->seconds);
}

static json_t *op_json(const hr_op_rate *rate) {
  return json_pack("{s:s,s:s,s:i,s:f}", "op", rate->op->name, "key", rate->key, "threads", rate->threads, "seconds",
                   rate->seconds);
}

static json_t *copies_json(const hr_copy_rates *rates) {
  return json_pack("{s:f,s:f,s:f,s:f,s:f}", "host_bytes_per_second", rates->host_bytes_per_second,
                   "host_alone_bytes_per_second", rates->host_alone_bytes_per_second, "disk_read_bytes_per_second",
                   rates->disk_read_bytes_per_second, "disk_write_bytes_per_second", rates->disk_write_bytes_per_second,
                   "overhead_seconds", rates->overhead_seconds);
}

/* NULL: out of memory. */
static json_t *rates_json(const hr_facts *facts, const hr_rates *rates) {
  json_t *root = json_pack("{s:i,s:s,s:i,s:{},s:[],s:[]}", "schema", RATES_SCHEMA, "device", facts->name, "threads",
                           rates->threads, "classes", "products", "ops");
  if (!root) return NULL;
  int failed = json_object_set_new(root, "copies", copies_json(&rates->copies));
  if (facts->kind == HR_CUDA) failed |= json_object_set_new(root, "gpu", gpu_json(facts, &rates->gpu));
  json_t *classes = json_object_get(root, "classes"), *products = json_object_get(root, "products");
  json_t *ops = json_object_get(root, "ops");
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    failed |=
        json_object_set_new(classes, hr_op_class_name((hr_op_class)c),
                            json_pack("[o,o]", rate_json(&rates->classes[c][0]), rate_json(&rates->classes[c][1])));
  for (size_t i = 0; i < rates->n_products; i++)
    failed |= json_array_append_new(products, product_json(&rates->products[i]));
  for (size_t i = 0; i < rates->n_ops; i++)
    failed |= json_array_append_new(ops, op_json(&rates->ops[i]));
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

static hr_status rates_save(const hr_facts *facts, const hr_rates *rates, hr_arena *scratch, hr_error *err) {
  const char *path;
  HR_TRY(path_make(facts, scratch, &path, err));
  char *folder = hr__arena_text(scratch, path), *text;
  if (!folder) return hr__nomem(err);
  *strrchr(folder, '/') = '\0'; /* the path is a full one */
  HR_TRY(hr__file_make_folders(folder, err));
  hr__json_init();
  json_t *root = rates_json(facts, rates);
  size_t bytes;
  hr_status status = hr__json_text(root, JSON_INDENT(1) | JSON_SORT_KEYS, scratch, &text, &bytes, err);
  json_decref(root);
  return status == HR_OK ? hr__file_replace(path, text, bytes, err) : status;
}

hr_status hr__rates_save(const hr_facts *facts, const hr_rates *rates, hr_error *err) {
  hr_arena scratch;
  hr__arena_init(&scratch);
  hr_status status = rates_save(facts, rates, &scratch, err);
  hr__arena_fini(&scratch);
  return status;
}
