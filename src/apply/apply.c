/* See apply.h. */
#include "apply/apply.h"

#include <string.h>

#include "format/diff.h"
#include "format/file.h"
#include "job/settings.h"

hr_status hr__apply_map(const char *name, hr_arena *arena, const hr_map **out, hr_error *err) {
  *out = hr__map_named(name);
  if (*out) return HR_OK;
  char *text;
  size_t bytes;
  hr_error why = {0};
  hr_status status = hr__file_read(name, HR_DOC_MAX_BYTES, arena, &text, &bytes, &why);
  if (status == HR_BAD_INPUT) {
    const char *remedy = hr__arena_format(arena, "%sor a file", hr_map_names);
    if (!remedy) return hr__nomem(err);
    return hr__fail(err, HR_USAGE, "map", remedy, "'%s' is neither a built-in map nor a file: %s", name, why.message);
  }
  if (status != HR_OK) {
    if (err) *err = why;
    return status;
  }
  hr_map *own;
  hr_key_table all;
  HR_TRY(hr__settings_keys(arena, &all, err));
  HR_TRY(hr__map_parse(name, text, bytes, &all, 1, arena, &own, err));
  *out = own;
  return HR_OK;
}

/* A backup that stands in the way is no error of a dry run, but part of its answer. */
static hr_status refusal_find(hr_applied *a, hr_error *err) {
  hr_error why = {0};
  hr_status status = hr__transaction_check(a->transaction, &why);
  if (status == HR_BAD_INPUT) {
    a->refusal = hr__arena_format(a->arena, "%s: %s; %s", why.place, why.message, why.remedy);
    return a->refusal ? HR_OK : hr__nomem(err);
  }
  if (status != HR_OK && err) *err = why;
  return status;
}

static hr_status texts_make(hr_applied *a, const hr_map *map, const bool *files, hr_error *err) {
  json_t *settings = hr__recipe_json(a->job->recipe);
  if (!settings) return hr__nomem(err);
  a->settings = settings;
  hr_status status = hr__applied_edits(a, map, files, err);
  a->settings = NULL;
  json_decref(settings);
  HR_TRY(status);
  for (size_t f = 0; f < a->n_files; f++) {
    if (!a->files[f].changed) continue;
    a->transaction->files[a->files[f].number].now = a->files[f].text;
    a->transaction->files[a->files[f].number].now_bytes = a->files[f].bytes;
  }
  return a->dry_run ? refusal_find(a, err) : HR_OK;
}

hr_status hr__apply(const hr_job *job, hr_transaction *transaction, const hr_apply_options *options, hr_arena *arena,
                    hr_applied **out, hr_error *err) {
  if (!job->verdict.fits) return hr__job_check(job, err);
  hr_applied *a = hr__arena_alloc(arena, sizeof *a);
  if (!a) return hr__nomem(err);
  a->job = job;
  a->transaction = transaction;
  a->arena = arena;
  a->insert = options->insert;
  a->dry_run = options->dry_run;
  a->keep_open = options->keep_open;
  a->beside = options->beside;
  HR_TRY(texts_make(a, options->map, options->files, err));
  if (a->n_files > 0) HR_TRY(hr__applied_agree(a, err));
  if (job->torch && a->n_files > 0) HR_TRY(hr__applied_read_back(a, err));
  *out = a;
  return HR_OK;
}

size_t hr__apply_changed(const hr_applied *a) {
  size_t changed = 0;
  for (size_t f = 0; f < a->n_files; f++)
    changed += a->files[f].changed;
  return changed;
}

/* Puts what differs between two texts of a file behind the first *length bytes of `*all`. */
static hr_status diff_append(const char *path, const char *old, size_t old_bytes, const char *now, size_t now_bytes,
                             hr_arena *arena, const char **all, size_t *length, hr_error *err) {
  const char *text;
  size_t bytes;
  HR_TRY(hr__diff(path, old, old_bytes, path, now, now_bytes, arena, &text, &bytes, err));
  char *joined = hr__arena_alloc(arena, *length + bytes + 1);
  if (!joined) return hr__nomem(err);
  memcpy(joined, *all, *length);
  memcpy(joined + *length, text, bytes);
  *length += bytes;
  joined[*length] = '\0';
  *all = joined;
  return HR_OK;
}

hr_status hr__apply_diff(const hr_applied *a, const char **out, hr_error *err) {
  size_t length = 0;
  *out = "";
  for (size_t f = 0; f < a->n_files; f++) {
    const hr_applied_file *file = &a->files[f];
    HR_TRY(diff_append(file->config.name, file->config.text, file->config.bytes, file->text, file->bytes, a->arena, out,
                       &length, err));
  }
  return HR_OK;
}

hr_status hr__apply_revert_look(hr_transaction *transaction, hr_arena *arena, const char **diff, size_t *bytes,
                                bool *edited, hr_error *err) {
  *bytes = 0;
  *edited = false;
  if (diff) *diff = "";
  for (size_t f = 0; f < transaction->count; f++) {
    const hr_transaction_file *file = &transaction->files[f];
    const char *backup;
    size_t backup_bytes;
    bool since = false;
    HR_TRY(hr__transaction_backup(transaction, f, &backup, &backup_bytes, &since, err));
    if (file->bare) continue;
    *edited |= since;
    if (diff) HR_TRY(diff_append(file->path, file->text, file->bytes, backup, backup_bytes, arena, diff, bytes, err));
  }
  return hr__transaction_bare(transaction, err);
}
