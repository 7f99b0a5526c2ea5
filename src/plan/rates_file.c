/* The cache file of a device's rates: JSON, written whole, believed only if every field makes sense. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/doc.h"
#include "format/file.h"
#include "format/json.h"
#include "plan/rates.h"

enum { RATES_FILE_CAP = 4 << 20, RATES_SCHEMA = 1, RATES_PRODUCTS = 1 << 16 };

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

const char *hr__rates_path(const hr_facts *facts, hr_arena *arena) {
  char slug[96];
  slug_make(facts->name, slug);
  const char *kind = hr_device_kind_name(facts->kind);
  const char *cache = getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/') return hr__arena_format(arena, "%s/headroom/rates-%s-%s.json", cache, kind, slug);
  const char *home = getenv("HOME");
  if (!home || home[0] != '/') return NULL;
  return hr__arena_format(arena, "%s/.cache/headroom/rates-%s-%s.json", home, kind, slug);
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

static bool class_read(const hr_doc_node *classes, hr_op_class op_class, hr_class_rate out[2]) {
  const hr_doc_node *list = hr__doc_get(classes, hr_op_class_name(op_class));
  if (!list || list->kind != HR_DOC_LIST) return false;
  const hr_doc_node *entry = list->child;
  for (int i = 0; i < 2; i++, entry = entry->next) {
    if (!entry || !positive_read(entry, "flops_per_second", &out[i].flops_per_second) ||
        !positive_read(entry, "bytes_per_second", &out[i].bytes_per_second) ||
        !positive_read(entry, "overhead_seconds", &out[i].overhead_seconds))
      return false;
  }
  return entry == NULL;
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
  size_t count = 0;
  for (const hr_doc_node *entry = products->child; entry; entry = entry->next) {
    hr_product_rate rate = {0};
    if (count++ == RATES_PRODUCTS || !product_read(entry, rates->threads, &rate)) return HR_BAD_INPUT;
    HR_TRY(hr__rates_add(rates, &rate, err));
  }
  rates->measured = true;
  return HR_OK;
}

static hr_status rates_load(const hr_facts *facts, hr_arena *scratch, hr_rates *rates, hr_error *err) {
  const char *path = hr__rates_path(facts, scratch);
  if (!path) return HR_BAD_INPUT;
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

static json_t *class_json(const hr_class_rate rate[2]) {
  return json_pack("[{s:f,s:f,s:f},{s:f,s:f,s:f}]", "flops_per_second", rate[0].flops_per_second, "bytes_per_second",
                   rate[0].bytes_per_second, "overhead_seconds", rate[0].overhead_seconds, "flops_per_second",
                   rate[1].flops_per_second, "bytes_per_second", rate[1].bytes_per_second, "overhead_seconds",
                   rate[1].overhead_seconds);
}

static json_t *product_json(const hr_product_rate *rate) {
  const hr_product *p = &rate->product;
  return json_pack("{s:s,s:b,s:b,s:b,s:I,s:I,s:I,s:i,s:f}", "dtype", hr_dtype_name(p->dtype), "transpose_a",
                   p->transpose_a, "transpose_b", p->transpose_b, "accumulate", p->accumulate, "m", (json_int_t)p->m,
                   "n", (json_int_t)p->n, "k", (json_int_t)p->k, "threads", rate->threads, "seconds", rate->seconds);
}

/* NULL: out of memory. */
static json_t *rates_json(const hr_facts *facts, const hr_rates *rates) {
  json_t *root = json_pack("{s:i,s:s,s:i,s:{},s:[]}", "schema", RATES_SCHEMA, "device", facts->name, "threads",
                           rates->threads, "classes", "products");
  if (!root) return NULL;
  int failed = 0;
  json_t *classes = json_object_get(root, "classes"), *products = json_object_get(root, "products");
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    failed |= json_object_set_new(classes, hr_op_class_name((hr_op_class)c), class_json(rates->classes[c]));
  for (size_t i = 0; i < rates->n_products; i++)
    failed |= json_array_append_new(products, product_json(&rates->products[i]));
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

/* The folders above the file; those that exist are fine. */
static hr_status folders_create(const char *path, hr_arena *scratch, hr_error *err) {
  char *folder = hr__arena_text(scratch, path);
  if (!folder) return hr__nomem(err);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (hr__file_calls.mkdir(folder, 0755) != 0) {
      int why = errno;
      struct stat facts;
      if (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)) return hr__fail_errno(err, folder, "create", why);
    }
    *slash = '/';
  }
  return HR_OK;
}

static hr_status rates_save(const hr_facts *facts, const hr_rates *rates, hr_arena *scratch, hr_error *err) {
  const char *path = hr__rates_path(facts, scratch);
  if (!path)
    return hr__fail(err, HR_IO, "rates", "set HOME or XDG_CACHE_HOME to a full path",
                    "there is no cache folder to keep the rates in");
  HR_TRY(folders_create(path, scratch, err));
  hr__json_init();
  json_t *root = rates_json(facts, rates);
  char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
  hr_status status = text ? hr__file_replace(path, text, strlen(text), err) : hr__nomem(err);
  hr__free(text);
  json_decref(root);
  return status;
}

hr_status hr__rates_save(const hr_facts *facts, const hr_rates *rates, hr_error *err) {
  hr_arena scratch;
  hr__arena_init(&scratch);
  hr_status status = rates_save(facts, rates, &scratch, err);
  hr__arena_fini(&scratch);
  return status;
}
