/* See config.h. */
#include "train/config.h"

#include <stdio.h>
#include <string.h>

#include "format/doc.h"
#include "format/json.h"

/* The checkpoint's config.json, in `arena`; *out NULL: there is none. It was read when the recipe was opened. */
static hr_status original_read(const hr_model_part *part, hr_arena *arena, const json_t **out, hr_error *err) {
  char *text;
  size_t bytes;
  json_t *root = NULL;
  json_error_t fault;
  *out = NULL;
  if (!hr__scope_has(&part->scope, "path")) return HR_OK;
  const char *path;
  HR_TRY(hr__config_text(hr__scope_text(&part->scope, "path"), arena, &path, &text, &bytes, err));
  if (!text) return HR_OK;
  hr_status status = hr__json_load(text, bytes, arena, &root, &fault, err);
  if (status == HR_BAD_INPUT)
    return hr__fail(err, HR_BAD_INPUT, path, "put the file back", "line %d: %s", fault.line, fault.text);
  *out = root;
  return status;
}

/* Whether ours is to be taken: what the recipe itself says, what the weights are, and what they are saved as. */
static bool ours_counts(const hr_model_part *part, const char *key, const json_t *ours, const json_t *original) {
  char setting[128];
  snprintf(setting, sizeof setting, "config.%s", key);
  bool task = strcmp(key, "architectures") == 0 && !json_equal(ours, json_object_get(original, key));
  return task || strcmp(key, "torch_dtype") == 0 || hr__scope_given(&part->scope, setting);
}

/* The checkpoint's keys in their order, then those that are new. NULL: out of memory. */
static json_t *overlay(const hr_model_part *part, const json_t *original, json_t *ours) {
  const char *key;
  json_t *value, *merged = json_object();
  bool newer = json_object_get(original, "dtype") != NULL; /* as newer files call it */
  int failed = merged == NULL;
  json_object_foreach((json_t *)original, key, value) failed |= json_object_set(merged, key, value);
  json_object_foreach(ours, key, value) {
    const char *name = newer && strcmp(key, "torch_dtype") == 0 ? "dtype" : key;
    if (ours_counts(part, key, value, original)) failed |= json_object_set(merged, name, value);
  }
  if (failed == 0) return merged;
  json_decref(merged);
  return NULL;
}

hr_status hr__part_config(const hr_model_part *part, hr_arena *arena, const char **text, size_t *bytes, hr_error *err) {
  const json_t *original = NULL;
  char *plain = NULL;
  *text = NULL;
  *bytes = 0;
  if (!part->model->config_json) return HR_OK;
  json_t *ours = part->model->config_json(part), *merged = NULL;
  hr_status status = ours ? original_read(part, arena, &original, err) : hr__nomem(err);
  if (status == HR_OK && original) merged = overlay(part, original, ours);
  if (status == HR_OK) status = hr__json_text(original ? merged : ours, JSON_INDENT(2), arena, &plain, bytes, err);
  json_decref(merged);
  json_decref(ours);
  HR_TRY(status);
  *text = hr__arena_format(arena, "%s\n", plain);
  *bytes += 1;
  return *text ? HR_OK : hr__nomem(err);
}
