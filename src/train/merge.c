/* The folder of a merged model; see merge.h. */
#include "train/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/work.h"
#include "format/file.h"
#include "format/json.h"
#include "train/merging.h"

/* --- config.json -------------------------------------------------------------------------------------------------- */

static hr_status config_load(hr_merging *m, json_t **root, hr_error *err) {
  char *text;
  size_t bytes;
  json_error_t fault;
  const char *from = m->adapters ? m->base : m->folder;
  const char *path;
  HR_TRY(hr__config_text(from, &m->arena, &path, &text, &bytes, err));
  if (!text) return hr__fail(err, HR_BAD_INPUT, path, "put it back", "there is no such file");
  hr_status status = hr__json_load(text, bytes, &m->arena, root, &fault, err);
  if (status == HR_BAD_INPUT || (status == HR_OK && !json_is_object(*root)))
    return hr__fail(err, HR_BAD_INPUT, path, "put the file back", "line %d: %s", fault.line, fault.text);
  return status;
}

/* The model's own, with the type of its weights where that was asked for. */
static hr_status config_make(hr_merging *m, char **text, size_t *bytes, hr_error *err) {
  static const char *const names[] = {[HR_F32] = "float32", [HR_BF16] = "bfloat16", [HR_F16] = "float16"};
  json_t *root, *value;
  const char *name;
  HR_TRY(config_load(m, &root, err));
  json_t *changed = json_object();
  bool ok = changed != NULL;
  json_object_foreach(root, name, value) ok = ok && json_object_set(changed, name, value) == 0; /* json_copy may drop */
  if (ok && m->options->dtype != HR_DTYPE_COUNT) {
    const char *key = json_object_get(root, "dtype") ? "dtype" : "torch_dtype"; /* as newer files call it, or older */
    ok = json_object_set_new(changed, key, json_string(names[m->options->dtype])) == 0;
  }
  hr_status status = ok ? hr__json_text(changed, JSON_INDENT(2), &m->arena, text, bytes, err) : hr__nomem(err);
  json_decref(changed);
  return status;
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

static hr_status place_check(const char *out, hr_error *err) {
  struct stat facts;
  if (!*out || strlen(out) + 64 > HR_STORE_PATH)
    return hr__fail(err, HR_USAGE, NULL, "give a shorter --out", "the name of the folder is empty or too long");
  if (lstat(out, &facts) != 0) return errno == ENOENT ? HR_OK : hr__fail_errno(err, out, "examine", errno);
  return hr__fail(err, HR_USAGE, out, "give another --out, or move it away", "there is something of this name already");
}

/* Where it is written until it is whole. */
static const char *partial_path(const char *out, const char *name, char path[HR_STORE_PATH]) {
  snprintf(path, HR_STORE_PATH, "%s.partial%s%s", out, name ? "/" : "", name ? name : "");
  return path;
}

static hr_status room_check(hr_merging *m, const hr_companions *beside, hr_error *err) {
  uint64_t needed, left;
  char path[HR_STORE_PATH], needed_text[HR_SIZE_TEXT], left_text[HR_SIZE_TEXT];
  HR_TRY(hr__merging_bytes(m, &needed, err));
  for (size_t i = 0; i < beside->count; i++)
    needed += beside->list[i].bytes;
  if (hr__file_calls.free_bytes(partial_path(m->options->out, NULL, path), &left) != 0 || left >= needed) return HR_OK;
  return hr__fail(err, HR_NO_SPACE, m->options->out, "make room there, or name a folder on another file system",
                  "the model needs %s (%" PRIu64 " bytes), %s (%" PRIu64 " bytes) are free",
                  hr__size_text(needed, needed_text), needed, hr__size_text(left, left_text), left);
}

static hr_status beside_write(hr_merging *m, const hr_companions *beside, hr_error *err) {
  char path[HR_STORE_PATH], hex[HR_SHA256_HEX];
  bool unread;
  unsigned char *window = hr__alloc(HR_WINDOW_BYTES);
  hr_status status = window ? HR_OK : hr__nomem(err);
  for (size_t i = 0; i < beside->count && status == HR_OK; i++)
    status = hr__companion_copy(&beside->list[i], partial_path(m->options->out, beside->list[i].name, path), window,
                                hex, &unread, err);
  hr__free(window);
  return status;
}

static hr_status folder_fill(hr_merging *m, const hr_companions *beside, hr_merge_result *result, hr_error *err) {
  char path[HR_STORE_PATH], *config;
  size_t bytes;
  HR_TRY(config_make(m, &config, &bytes, err));
  HR_TRY(room_check(m, beside, err));
  uint64_t all;
  hr_work writing;
  HR_TRY(hr__merging_bytes(m, &all, err));
  hr__work_begin(&writing, m->options->progress, "merging", all);
  hr_status written = hr__merging_write(m, partial_path(m->options->out, HR_FILE_MODEL, path), result, err);
  hr__work_end(&writing);
  HR_TRY(written);
  HR_TRY(beside_write(m, beside, err));
  HR_TRY(hr__file_replace(partial_path(m->options->out, "config.json", path), config, bytes, err));
  return hr__file_sync_folder(partial_path(m->options->out, NULL, path), err);
}

/* What was written, or what a merge that was cut off has left. Errors are those of whatever comes next. */
static void partial_remove(const char *out, const hr_companions *beside) {
  char path[HR_STORE_PATH];
  hr__file_calls.unlink(partial_path(out, "config.json", path));
  hr__file_calls.unlink(partial_path(out, "config.json.tmp", path));
  hr__file_calls.unlink(partial_path(out, HR_FILE_MODEL, path));
  for (size_t i = 0; hr__companion_name(i); i++)
    hr__file_calls.unlink(partial_path(out, hr__companion_name(i), path));
  for (size_t i = 0; i < beside->count; i++)
    hr__file_calls.unlink(partial_path(out, beside->list[i].name, path));
  hr__file_calls.rmdir(partial_path(out, NULL, path));
}

static hr_status folder_make(hr_merging *m, const hr_companions *beside, hr_merge_result *result, hr_error *err) {
  char path[HR_STORE_PATH], around[HR_STORE_PATH];
  const char *out = m->options->out, *slash = strrchr(out, '/');
  snprintf(around, sizeof around, "%.*s", slash ? (int)(slash - out) : 1, slash ? out : ".");
  partial_remove(out, beside);
  HR_TRY(hr__file_make_folders(partial_path(out, NULL, path), err));
  hr_status status = folder_fill(m, beside, result, err);
  if (status == HR_OK && hr__file_calls.rename(partial_path(out, NULL, path), out) != 0)
    status = hr__fail_errno(err, out, "rename", errno);
  if (status != HR_OK) {
    partial_remove(out, beside);
    return status;
  }
  return hr__file_sync_folder(*around ? around : "/", err);
}

static hr_status merge(hr_merging *m, hr_merge_result *result, hr_error *err) {
  hr_companions *beside = hr__arena_alloc(&m->arena, sizeof *beside);
  if (!beside) return hr__nomem(err);
  beside->count = 0;
  hr_status status = hr__companions_add(m->folder, &m->arena, beside, err);
  if (status == HR_OK && m->base) status = hr__companions_add(m->base, &m->arena, beside, err);
  if (status == HR_OK) status = folder_make(m, beside, result, err);
  hr__companions_close(beside);
  return status;
}

hr_status hr__merge_run(const hr_merge_options *options, hr_merge_result *result, hr_error *err) {
  hr_merging m;
  *result = (hr_merge_result){0};
  HR_TRY(place_check(options->out, err));
  hr_status status = hr__merging_open(options, &m, result, err);
  if (status == HR_OK) status = merge(&m, result, err);
  hr__merging_close(&m);
  return status;
}
