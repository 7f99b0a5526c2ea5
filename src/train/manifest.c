/* Writing and reading of manifests; see manifest.h. */
#include "train/manifest.h"

#include <float.h>
#include <jansson.h>
#include <string.h>

#include "format/doc.h"
#include "format/json.h"

enum { SCHEMA = 1 };

hr_status hr__settings_hash(const hr_run_setting *settings, size_t count, char out[HR_XXH_HEX], hr_error *err) {
  hr_hash *hash;
  char hex[HR_SHA256_HEX];
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &hash, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    status = hr__hash_update(hash, settings[i].path, strlen(settings[i].path) + 1, err);
    if (status == HR_OK) status = hr__hash_update(hash, settings[i].value, strlen(settings[i].value) + 1, err);
  }
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  if (status == HR_OK) snprintf(out, HR_XXH_HEX, "%.32s", hex);
  hr__hash_destroy(hash);
  return status;
}

/* Adds a member, false when out of memory; takes over `value` in any case. */
static bool member_add(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

const hr_manifest_file *hr__manifest_file(const hr_manifest *m, const char *name) {
  for (size_t f = 0; f < m->n_files; f++)
    if (strcmp(m->files[f].name, name) == 0) return &m->files[f];
  return NULL;
}

static json_t *manifest_json(const hr_manifest *m, const char *hash) {
  hr__json_init();
  json_t *root = json_object(), *settings = json_object(), *files = json_object();
  bool ok = root && settings && files;
  ok = ok && member_add(root, "schema", json_integer(SCHEMA)) && member_add(root, "step", json_integer(m->step)) &&
       member_add(root, "seed", json_integer(m->seed)) &&
       member_add(root, "fingerprint", json_string(m->fingerprint)) &&
       member_add(root, "recipe_hash", json_string(m->recipe_hash));
  const hr_scaler *scaler = &m->state.scaler;
  if (m->state.known)
    ok = ok && member_add(root, "sample", json_integer((json_int_t)m->state.sample)) &&
         member_add(root, "loss_scale", json_real((double)scaler->scale)) &&
         member_add(root, "good_steps", json_integer(scaler->good_steps)) &&
         member_add(root, "applied_steps", json_integer(scaler->applied_steps)) &&
         member_add(root, "skipped_in_a_row", json_integer(scaler->skipped_in_a_row));
  const hr_best *best = &m->state.best;
  if (m->state.known && best->step + best->waited > 0)
    ok = ok && member_add(root, "best_step", json_integer(best->step)) &&
         member_add(root, "best_value", json_real(best->value)) &&
         member_add(root, "evaluations_since_best", json_integer(best->waited));
  if (m->state.known && m->state.base[0]) ok = ok && member_add(root, "base", json_string(m->state.base));
  for (size_t i = 0; i < m->n_settings && ok; i++)
    ok = member_add(settings, m->settings[i].path, json_string(m->settings[i].value));
  for (size_t f = 0; f < m->n_files && ok; f++) {
    json_t *file = json_object();
    ok = file && member_add(file, "bytes", json_integer((json_int_t)m->files[f].bytes)) &&
         member_add(file, "xxh3_128", json_string(m->files[f].hash)) &&
         json_object_set(files, m->files[f].name, file) == 0;
    json_decref(file);
  }
  ok = ok && json_object_set(root, "settings", settings) == 0 && json_object_set(root, "files", files) == 0 &&
       member_add(root, "hash", json_string(hash));
  json_decref(settings);
  json_decref(files);
  if (ok) return root;
  json_decref(root);
  return NULL;
}

static hr_status manifest_dump(const hr_manifest *m, const char *hash, hr_arena *arena, char **text, size_t *bytes,
                               hr_error *err) {
  json_t *root = manifest_json(m, hash);
  hr_status status = hr__json_text(root, JSON_INDENT(1) | JSON_ENSURE_ASCII, arena, text, bytes, err);
  json_decref(root);
  if (status != HR_OK) return status;
  *text = hr__arena_format(arena, "%s\n", *text);
  *bytes += 1;
  return *text ? HR_OK : hr__nomem(err);
}

hr_status hr__manifest_hash(const hr_manifest *m, hr_arena *arena, char out[HR_XXH_HEX], hr_error *err) {
  char *text;
  size_t bytes;
  HR_TRY(manifest_dump(m, "", arena, &text, &bytes, err)); /* the hash covers the text with an empty hash */
  hr__xxh128_hex(text, bytes, out);
  return HR_OK;
}

hr_status hr__manifest_text(const hr_manifest *m, hr_arena *arena, char **text, size_t *bytes, hr_error *err) {
  char hash[HR_XXH_HEX];
  HR_TRY(hr__manifest_hash(m, arena, hash, err));
  return manifest_dump(m, hash, arena, text, bytes, err);
}

static hr_status manifest_bad(const char *name, hr_error *err, const char *what) {
  return hr__fail(err, HR_BAD_INPUT, name, NULL, "damaged manifest: %s", what);
}

static bool member_int(const hr_doc_node *map, const char *key, int64_t *out) {
  const hr_doc_node *node = hr__doc_get(map, key);
  return node && node->kind == HR_DOC_SCALAR && hr__doc_int(node, out) && *out >= 0;
}

static bool member_hex(const hr_doc_node *map, const char *key, char out[HR_XXH_HEX]) {
  const hr_doc_node *node = hr__doc_get(map, key);
  if (!node || node->kind != HR_DOC_SCALAR || !node->quoted || strlen(node->text) != HR_XXH_HEX - 1) return false;
  if (strspn(node->text, "0123456789abcdef") != HR_XXH_HEX - 1) return false;
  memcpy(out, node->text, HR_XXH_HEX);
  return true;
}

static hr_status settings_parse(const char *name, const hr_doc_node *map, hr_arena *arena, hr_manifest *out,
                                hr_error *err) {
  if (!map || map->kind != HR_DOC_MAP) return manifest_bad(name, err, "no settings");
  size_t count = 0;
  for (const hr_doc_node *node = map->child; node; node = node->next, count++)
    if (node->kind != HR_DOC_SCALAR || count == HR_MANIFEST_MAX_SETTINGS)
      return manifest_bad(name, err, "its settings are not a list of texts");
  out->settings = hr__arena_array(arena, count + 1, sizeof *out->settings);
  if (!out->settings) return hr__nomem(err);
  for (const hr_doc_node *node = map->child; node; node = node->next)
    out->settings[out->n_settings++] = (hr_run_setting){.path = node->key, .value = node->text};
  return HR_OK;
}

/* Runs without evaluations do not have it. */
static bool best_parse(const hr_doc_node *root, hr_best *out) {
  const hr_doc_node *value = hr__doc_get(root, "best_value");
  if (!value) return true;
  return value->kind == HR_DOC_SCALAR && hr__doc_float(value, &out->value) &&
         member_int(root, "best_step", &out->step) && member_int(root, "evaluations_since_best", &out->waited);
}

/* Manifests of older runs do not have it. */
static hr_status state_parse(const char *name, const hr_doc_node *root, hr_run_state *out, hr_error *err) {
  out->known = hr__doc_get(root, "sample") != NULL;
  if (!out->known) return HR_OK;
  const hr_doc_node *scale = hr__doc_get(root, "loss_scale");
  int64_t sample;
  double number;
  bool ok = member_int(root, "sample", &sample) && scale && scale->kind == HR_DOC_SCALAR &&
            hr__doc_float(scale, &number) && number >= 0 && number <= (double)FLT_MAX &&
            member_int(root, "good_steps", &out->scaler.good_steps) &&
            member_int(root, "applied_steps", &out->scaler.applied_steps) &&
            member_int(root, "skipped_in_a_row", &out->scaler.skipped_in_a_row) && best_parse(root, &out->best) &&
            (!hr__doc_get(root, "base") || member_hex(root, "base", out->base));
  if (!ok) return manifest_bad(name, err, "the position of the run is missing or malformed");
  out->sample = (uint64_t)sample;
  out->scaler.scale = (float)number;
  return HR_OK;
}

bool hr__manifest_name_is_safe(const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  for (const char *at = name;; at++) {
    size_t length = strspn(at, plain);
    if (length == 0 || *at == '.' || strstr(at, "..")) return false;
    at += length;
    if (*at == '\0') return true;
    if (*at != '/') return false;
  }
}

static hr_status files_parse(const char *name, const hr_doc_node *files, hr_manifest *out, hr_error *err) {
  static const char bad[] = "a file is missing or malformed";
  int64_t length;
  bool tensors = false, optimizer = false;
  for (const hr_doc_node *file = files && files->kind == HR_DOC_MAP ? files->child : NULL; file; file = file->next) {
    if (out->n_files == HR_MANIFEST_FILES || !hr__manifest_name_is_safe(file->key)) return manifest_bad(name, err, bad);
    hr_manifest_file *to = &out->files[out->n_files++];
    to->name = file->key;
    if (!member_int(file, "bytes", &length) || !member_hex(file, "xxh3_128", to->hash))
      return manifest_bad(name, err, bad);
    to->bytes = (uint64_t)length;
    const char *slash = strrchr(file->key, '/'), *base = slash ? slash + 1 : file->key;
    tensors |= strstr(base, "model.safetensors") != NULL;
    optimizer |= strcmp(base, "optimizer.safetensors") == 0; /* in training/, or beside the model in older ones */
  }
  return tensors && optimizer ? HR_OK : manifest_bad(name, err, bad);
}

hr_status hr__manifest_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_manifest *out,
                             hr_error *err) {
  *out = (hr_manifest){0};
  if (bytes > HR_MANIFEST_MAX_BYTES) return manifest_bad(name, err, "too large");
  hr_doc_node *root;
  HR_TRY(hr__json_parse(name, text, bytes, arena, &root, err));
  int64_t schema;
  if (!member_int(root, "schema", &schema)) return manifest_bad(name, err, "no schema");
  if (schema != SCHEMA)
    return hr__fail(err, HR_BAD_INPUT, name, "use the version of headroom that wrote it",
                    "this checkpoint has schema %lld, this program knows %d", (long long)schema, SCHEMA);
  if (!member_int(root, "step", &out->step) || !member_int(root, "seed", &out->seed) ||
      !member_hex(root, "fingerprint", out->fingerprint) || !member_hex(root, "recipe_hash", out->recipe_hash))
    return manifest_bad(name, err, "step, seed, fingerprint or recipe_hash is missing or malformed");
  HR_TRY(state_parse(name, root, &out->state, err));
  HR_TRY(settings_parse(name, hr__doc_get(root, "settings"), arena, out, err));
  HR_TRY(files_parse(name, hr__doc_get(root, "files"), out, err));
  char *again;
  size_t again_bytes;
  HR_TRY(hr__manifest_text(out, arena, &again, &again_bytes, err));
  if (again_bytes != bytes || memcmp(again, text, bytes) != 0)
    return manifest_bad(name, err, "its bytes differ from what was written");
  return HR_OK;
}
