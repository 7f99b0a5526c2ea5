/* Saving: every file goes to a temporary name, is synced, renamed and the folder synced; the manifest comes last and
 * makes the generation valid. Nothing older is touched before that, but for what stands in the way on a full disk: then
 * the newest good generation stays, and those before it go.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "format/file.h"
#include "train/room.h"

/* Removes a file of a generation and what a save that was cut off left of it. */
static hr_status file_remove(const hr_store *store, int64_t step, const char *name, hr_error *err) {
  char path[HR_STORE_PATH], temporary[128];
  snprintf(temporary, sizeof temporary, "%s.tmp", name);
  for (int i = 0; i < 2; i++) {
    hr__store_path(store, step, i ? temporary : name, path);
    if (hr__file_calls.unlink(path) != 0 && errno != ENOENT) return hr__fail_errno(err, path, "remove", errno);
  }
  return HR_OK;
}

/* Removes a generation's folder, or that of a part in it, where nothing is left inside. */
static hr_status folder_remove(const hr_store *store, int64_t step, const char *name, hr_error *err) {
  char path[HR_STORE_PATH];
  hr__store_path(store, step, name, path);
  if (hr__file_calls.rmdir(path) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
    return hr__fail_errno(err, path, "remove", errno);
  return HR_OK;
}

/* Removes a generation; the manifest first, so that what is left of it is never taken for valid. Files that are not
 * ours stay, and the folder with them. */
static hr_status generation_remove(const hr_store *store, int64_t step, hr_error *err) {
  HR_TRY(file_remove(store, step, HR_MANIFEST_NAME, err));
  for (size_t f = 0; f < store->names.count; f++)
    HR_TRY(file_remove(store, step, store->names.list[f], err));
  for (size_t f = store->names.n_folders; f-- > 0;) /* the innermost first */
    HR_TRY(folder_remove(store, step, store->names.folders[f], err));
  return folder_remove(store, step, NULL, err);
}

/* Keeps `keep` generations: the one just written, the one known to be good before it, and the newest of those before
 * that. The best one stays whatever the number. */
static hr_status generations_prune(const hr_store *store, int64_t written, int64_t keep, hr_arena *arena,
                                   hr_error *err) {
  int64_t *steps;
  bool *committed;
  size_t count;
  HR_TRY(hr__store_list(store, arena, &steps, &committed, &count, err));
  int64_t older = keep - 1 - (store->good > 0 && store->good != written);
  for (size_t i = 0; i < count; i++) { /* newest first */
    bool stays = steps[i] == written || (steps[i] == store->good && keep > 1);
    if (!stays && committed[i] && steps[i] < store->good && older > 0) {
      stays = true;
      older--;
    }
    if (!stays && steps[i] != store->best) HR_TRY(generation_remove(store, steps[i], err));
  }
  return HR_OK;
}

/* What follows once a generation is committed. Nothing of it is worth ending a run for, but for lack of memory. */
static hr_status generation_settle(hr_store *store, const hr_manifest *manifest, hr_arena *arena, hr_error *err) {
  hr_error why = {0};
  int64_t step = manifest->step;
  if (store->save_best && manifest->state.best.step == step && hr__store_best_set(store, step, &why) != HR_OK)
    hr__store_tell(store, HR_MESSAGE_WARNING,
                   "the checkpoint of step %" PRId64
                   " is the best so far and stays, but no link could be made to it: %s",
                   step, why.message);
  hr_status pruned = generations_prune(store, step, store->keep, arena, &why);
  store->good = step;
  if (pruned == HR_NOMEM) return hr__nomem(err);
  if (pruned != HR_OK)
    hr__store_tell(store, HR_MESSAGE_WARNING,
                   "step %" PRId64 " is saved, but an old checkpoint could not be removed: %s", step, why.message);
  return HR_OK;
}

/* Makes a folder and what is in the one around it safe. */
static hr_status folder_make(const hr_store *store, int64_t step, const char *name, hr_error *err) {
  char path[HR_STORE_PATH], around[HR_STORE_PATH];
  hr__store_path(store, step, name, path);
  if (hr__file_calls.mkdir(path, 0755) != 0 && errno != EEXIST) return hr__fail_errno(err, path, "create", errno);
  return hr__file_sync_folder(name ? hr__store_path(store, step, NULL, around) : store->out, err);
}

static bool folder_is_needed(const hr_store *store, const char *folder) {
  size_t length = strlen(folder);
  for (size_t f = 0; f < store->files.count; f++) {
    const char *name = store->files.list[f].name;
    if (strncmp(name, folder, length) == 0 && name[length] == '/') return true;
  }
  return false;
}

/* Tensors, with what is kept of the original: where that can no longer be read it is told, and what was trained is
 * saved without. */
static hr_status tensors_write(hr_store *store, hr_tensors *tensors, const hr_run_file *file, const char *path,
                               char hex[HR_SHA256_HEX], uint64_t *bytes, hr_error *err) {
  bool unread;
  hr_error why = {0};
  hr_tensor_file trained = file->tensors;
  hr_status status = hr__tensors_write(tensors, &trained, path, hex, bytes, &unread, &why);
  if (!unread) {
    if (status != HR_OK && err) *err = why;
    return status;
  }
  hr__store_tell(store, HR_MESSAGE_WARNING, "%s is saved without %s and others that were not trained: %s: %s",
                 file->name, trained.kept->list[0].name, why.place, why.message);
  trained.kept = NULL;
  return hr__tensors_write(tensors, &trained, path, hex, bytes, &unread, err);
}

/* Writes a file that is not small; false in *written: it is a copy of one that can no longer be read, which is told,
 * and no reason to lose what was trained. */
static hr_status file_write(hr_store *store, hr_tensors *tensors, const hr_run_file *file, const char *path,
                            hr_manifest_file *entry, bool *written, hr_error *err) {
  char hex[HR_SHA256_HEX] = "";
  bool unread = false;
  hr_error why = {0};
  hr_status status;
  if (!file->copied) {
    status = tensors_write(store, tensors, file, path, hex, &entry->bytes, err);
  } else {
    status = hr__companion_copy(file->copied, path, tensors->window, hex, &unread, &why);
    entry->bytes = file->copied->bytes;
    if (status != HR_OK && err) *err = why;
  }
  *written = !unread;
  snprintf(entry->hash, HR_XXH_HEX, "%.32s", hex);
  if (!unread) return status;
  hr__store_tell(store, HR_MESSAGE_WARNING, "%s is not in this checkpoint: %s: %s", file->name, why.place, why.message);
  if (hr__file_calls.unlink(path) != 0) return hr__fail_errno(err, path, "remove", errno);
  return HR_OK;
}

static hr_status large_commit(hr_store *store, hr_tensors *tensors, const hr_run_file *file, hr_manifest *manifest,
                              hr_manifest_file *entry, hr_error *err) {
  char path[HR_STORE_PATH], temporary[HR_STORE_PATH + 8], folder[HR_STORE_PATH];
  bool written;
  hr__store_path(store, manifest->step, file->name, path);
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  HR_TRY(file_write(store, tensors, file, temporary, entry, &written, err));
  if (!written) {
    manifest->n_files--;
    return HR_OK;
  }
  if (hr__file_calls.rename(temporary, path) != 0) return hr__fail_errno(err, path, "rename", errno);
  return hr__file_sync_folder(folder, err);
}

static hr_status file_commit(hr_store *store, hr_tensors *tensors, const hr_run_file *file, hr_manifest *manifest,
                             hr_error *err) {
  char path[HR_STORE_PATH];
  hr_manifest_file *entry = &manifest->files[manifest->n_files++];
  *entry = (hr_manifest_file){.name = file->name};
  if (!file->text) return large_commit(store, tensors, file, manifest, entry, err);
  entry->bytes = file->bytes;
  hr__xxh128_hex(file->text, file->bytes, entry->hash);
  return hr__file_replace(hr__store_path(store, manifest->step, file->name, path), file->text, file->bytes, err);
}

static hr_status generation_write(hr_store *store, hr_tensors *tensors, hr_manifest *manifest, hr_arena *arena,
                                  hr_error *err) {
  char path[HR_STORE_PATH];
  HR_TRY(generation_remove(store, manifest->step, err)); /* a left-over of a save that was cut off */
  HR_TRY(folder_make(store, manifest->step, NULL, err));
  for (size_t f = 0; f < store->names.n_folders; f++)
    if (folder_is_needed(store, store->names.folders[f]))
      HR_TRY(folder_make(store, manifest->step, store->names.folders[f], err));
  manifest->n_files = 0;
  for (size_t f = 0; f < store->files.count; f++)
    HR_TRY(file_commit(store, tensors, &store->files.list[f], manifest, err));

  char *text;
  size_t bytes;
  HR_TRY(hr__manifest_text(manifest, arena, &text, &bytes, err));
  hr__store_path(store, manifest->step, HR_MANIFEST_NAME, path);
  return hr__file_replace(path, text, bytes, err);
}

/* The same, leaving nothing behind where it fails. */
static hr_status generation_try(hr_store *store, hr_tensors *tensors, hr_manifest *manifest, hr_arena *arena,
                                hr_error *err) {
  hr_status status = generation_write(store, tensors, manifest, arena, err);
  if (status != HR_OK) (void)generation_remove(store, manifest->step, NULL); /* the first error is the one to tell */
  return status;
}

hr_status hr__checkpoint_save(hr_store *store, hr_tensors *tensors, hr_manifest *manifest, hr_error *err) {
  HR_TRY(hr__tensors_finite(tensors, tensors->parameters, tensors->n_parameters, err));
  HR_TRY(hr__tensors_finite(tensors, tensors->state, tensors->n_state, err));
  HR_TRY(hr__tensors_finite(tensors, tensors->averages, tensors->n_averages, err));
  hr_arena arena = {0};
  hr_status status = generation_try(store, tensors, manifest, &arena, err);
  if (status == HR_NO_SPACE && hr__room_after_pruning(store) &&
      generations_prune(store, manifest->step, 2, &arena, NULL) == HR_OK)
    status = generation_try(store, tensors, manifest, &arena, err);
  if (status == HR_OK) status = generation_settle(store, manifest, &arena, err);
  hr__arena_fini(&arena);
  return status;
}
