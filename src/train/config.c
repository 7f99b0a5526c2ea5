/* See config.h. */
#include "train/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/doc.h"
#include "format/file.h"
#include "format/json.h"

/* The checkpoint's config.json; *out NULL: there is none. It was read when the recipe was opened. */
static hr_status original_read(const hr_model_part *part, hr_arena *arena, json_t **out, hr_error *err) {
  char *text;
  size_t bytes;
  *out = NULL;
  if (!hr__scope_has(&part->scope, "path")) return HR_OK;
  const char *path = hr__arena_format(arena, "%s/config.json", hr__scope_text(&part->scope, "path"));
  if (!path) return hr__nomem(err);
  if (access(path, F_OK) != 0) return HR_OK;
  HR_TRY(hr__file_read(path, HR_DOC_MAX_BYTES, arena, &text, &bytes, err));
  *out = json_loadb(text, bytes, 0, NULL);
  return *out || bytes == 0 ? HR_OK : hr__nomem(err);
}

/* Takes over what the recipe itself says, what the weights are, and what they are saved as. */
static int overlay(const hr_model_part *part, json_t *original, json_t *ours) {
  const char *key;
  json_t *value;
  int failed = 0;
  json_object_foreach(ours, key, value) {
    char setting[128];
    snprintf(setting, sizeof setting, "config.%s", key);
    bool dtype = strcmp(key, "torch_dtype") == 0;
    bool task = strcmp(key, "architectures") == 0 && !json_equal(value, json_object_get(original, key));
    const char *name = dtype && json_object_get(original, "dtype") ? "dtype" : key; /* as newer files call it */
    if (dtype || task || hr__scope_given(&part->scope, setting)) failed |= json_object_set(original, name, value);
  }
  return failed;
}

hr_status hr__part_config(const hr_model_part *part, hr_arena *arena, const char **text, size_t *bytes, hr_error *err) {
  json_t *original = NULL;
  char *plain = NULL;
  *text = NULL;
  *bytes = 0;
  if (!part->model->config_json) return HR_OK;
  json_t *ours = part->model->config_json(part);
  hr_status status = ours ? original_read(part, arena, &original, err) : hr__nomem(err);
  if (status == HR_OK && original && overlay(part, original, ours) != 0) status = hr__nomem(err);
  if (status == HR_OK) status = hr__json_text(original ? original : ours, JSON_INDENT(2), arena, &plain, bytes, err);
  json_decref(original);
  json_decref(ours);
  HR_TRY(status);
  *text = hr__arena_format(arena, "%s\n", plain);
  *bytes += 1;
  return *text ? HR_OK : hr__nomem(err);
}
