/* Loading: from the newest generation to the oldest, the first one whose every byte is as its manifest says is taken.
 * Nothing is loaded before all of it has been looked at.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/work.h"
#include "format/file.h"
#include "train/identity.h"
#include "train/store.h"

/* Streams an open file through the hash. */
static hr_status descriptor_hash(unsigned char *window, int fd, const char *path, hr_hash *hash, uint64_t *total,
                                 hr_error *err) {
  for (;;) {
    ssize_t n = read(fd, window, HR_WINDOW_BYTES);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, path, "read", errno);
    if (n == 0) return HR_OK;
    *total += (uint64_t)n;
    hr__work_advance((uint64_t)n);
    HR_TRY(hr__hash_update(hash, window, (size_t)n, err));
  }
}

static hr_status file_hash(unsigned char *window, const char *path, uint64_t expected, char hex[HR_SHA256_HEX],
                           hr_error *err) {
  int fd;
  hr_hash *hash = NULL;
  uint64_t bytes, total = 0;
  HR_TRY(hr__file_open(path, &fd, &bytes, err));
  hr_status status = HR_OK;
  if (bytes != expected)
    status = hr__fail(err, HR_BAD_INPUT, path, NULL, "the file does not have the %" PRIu64 " bytes that were written",
                      expected);
  if (status == HR_OK) status = hr__hash_create(HR_HASH_XXH128, &hash, err);
  if (status == HR_OK) status = descriptor_hash(window, fd, path, hash, &total, err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  if (status == HR_OK && total != expected)
    status = hr__fail(err, HR_BAD_INPUT, path, NULL, "the file changed while it was read");
  hr__hash_destroy(hash);
  close(fd);
  return status;
}

hr_status hr__generation_verify(const hr_store *store, unsigned char *window, int64_t step, hr_arena *arena,
                                hr_manifest *manifest, hr_error *err) {
  char path[HR_STORE_PATH], hex[HR_SHA256_HEX], *text;
  size_t bytes;
  hr__store_path(store, step, HR_MANIFEST_NAME, path);
  HR_TRY(hr__file_read(path, HR_MANIFEST_MAX_BYTES, arena, &text, &bytes, err));
  HR_TRY(hr__manifest_parse(path, text, bytes, arena, manifest, err));
  if (manifest->step != step)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "this manifest belongs to step %" PRId64, manifest->step);
  for (size_t f = 0; f < manifest->n_files; f++)
    hr__work_expect(2 * manifest->files[f].bytes); /* looked at, then loaded */
  for (size_t f = 0; f < manifest->n_files; f++) {
    hr__store_path(store, step, manifest->files[f].name, path);
    HR_TRY(file_hash(window, path, manifest->files[f].bytes, hex, err));
    if (strncmp(hex, manifest->files[f].hash, HR_XXH_HEX - 1) != 0)
      return hr__fail(err, HR_BAD_INPUT, path, NULL, "the bytes are not those that were written (hash differs)");
  }
  return HR_OK;
}

/* What is beside the weights comes and goes without harm: older runs have no copies of tokenizers, but a config.json
 * beside adapters. */
static bool is_beside(const char *name) {
  const char *slash = strrchr(name, '/');
  return hr__companion_is(name) || strcmp(name, HR_FILE_GROUPS) == 0 ||
         strcmp(slash ? slash + 1 : name, "config.json") == 0;
}

hr_status hr__generation_newest(const char *run, hr_arena *arena, const char **folder, hr_manifest *manifest,
                                hr_error *err) {
  char path[HR_STORE_PATH];
  int64_t *steps;
  bool *committed;
  size_t count, at = 0;
  *folder = NULL;
  hr_store *store = hr__arena_alloc(arena, sizeof *store); /* too large for the stack */
  if (!store) return hr__nomem(err);
  snprintf(store->out, sizeof store->out, "%s", run);
  HR_TRY(hr__store_list(store, arena, &steps, &committed, &count, err));
  while (at < count && !committed[at])
    at++;
  if (at == count) return HR_OK;
  unsigned char *window = hr__alloc(HR_WINDOW_BYTES);
  hr_status status = window ? HR_OK : hr__nomem(err);
  if (status == HR_OK) status = hr__generation_verify(store, window, steps[at], arena, manifest, err);
  hr__free(window);
  HR_TRY(status);
  *folder = hr__arena_text(arena, hr__store_path(store, steps[at], NULL, path));
  return *folder ? HR_OK : hr__nomem(err);
}

static bool files_have(const hr_run_files *files, const char *name) {
  for (size_t f = 0; f < files->count; f++)
    if (strcmp(files->list[f].name, name) == 0 || strcmp(hr__run_file_old_name(files->list[f].name), name) == 0)
      return true;
  return false;
}

/* Of two odd files the one that says more: adapters come and go for everybody to see. */
static const char *odd_file(const char *found, const char *name) {
  return !found || (!strstr(found, "adapter") && strstr(name, "adapter")) ? name : found;
}

/* What a file is there for, in the user's words. */
static const char *file_purpose(const char *name) {
  if (strstr(name, "adapter")) return "adapters";
  return strstr(name, "ema") ? "training.ema" : "these trained weights";
}

/* Whether a checkpoint has the files that this run has. Most settings that make a difference are told before, by name.
 */
static hr_status files_check(const hr_store *store, const hr_manifest *manifest, hr_error *err) {
  const char *odd = NULL;
  for (size_t f = 0; f < store->files.count; f++)
    if (!store->files.list[f].copied && !hr__run_file_in(manifest, store->files.list[f].name))
      odd = odd_file(odd, store->files.list[f].name);
  for (size_t f = 0; f < manifest->n_files; f++)
    if (!is_beside(manifest->files[f].name) && !files_have(&store->files, manifest->files[f].name))
      odd = odd_file(odd, manifest->files[f].name);
  if (!odd) return HR_OK;
  bool there = hr__manifest_file(manifest, odd) != NULL;
  return hr__fail(err, HR_USAGE, NULL, "put the settings back, or train into another --out",
                  "this run was begun %s %s: its checkpoints have %s%s", there ? "with" : "without", file_purpose(odd),
                  there ? "" : "no ", odd);
}

static hr_status file_restore(const hr_store *store, const hr_manifest *manifest, const hr_run_file *file,
                              hr_error *err) {
  char path[HR_STORE_PATH];
  int fd;
  uint64_t bytes;
  hr__store_path(store, manifest->step, file->name, path);
  HR_TRY(hr__file_open(path, &fd, &bytes, err));
  hr_status status = bytes == file->bytes
                         ? hr__file_read_at(fd, path, 0, file->restored, file->bytes, err)
                         : hr__fail(err, HR_USAGE, path, "train into another --out",
                                    "it was saved for other data: %" PRIu64 " bytes, not %zu", bytes, file->bytes);
  close(fd);
  return status;
}

static hr_status generation_load(hr_store *store, hr_tensors *tensors, const hr_manifest *manifest, hr_error *err) {
  char path[HR_STORE_PATH];
  HR_TRY(files_check(store, manifest, err));
  for (int load = 0; load < 2; load++) /* all are looked at before the first is loaded */
    for (size_t f = 0; f < store->files.count; f++) {
      const hr_run_file *file = &store->files.list[f];
      if (!hr__run_file_has_tensors(file)) continue;
      hr__store_path(store, manifest->step, hr__run_file_in(manifest, file->name), path);
      HR_TRY((load ? hr__tensors_read : hr__tensors_match)(tensors, &file->tensors, path, err));
    }
  for (size_t f = 0; f < store->files.count; f++)
    if (store->files.list[f].restored) HR_TRY(file_restore(store, manifest, &store->files.list[f], err));
  return HR_OK;
}

typedef struct search {
  int64_t found;    /* 0: none yet */
  int damaged, cut; /* with a manifest, without one */
  char files[256];  /* which, for the last message */
} search;

static void damage_note(hr_store *store, search *s, int64_t step, const hr_error *why) {
  size_t used = strlen(s->files);
  snprintf(s->files + used, sizeof s->files - used, "%s%s", used ? ", " : "", why->place);
  s->damaged++;
  hr__store_tell(store, HR_MESSAGE_WARNING, "checkpoint of step %" PRId64 " is damaged and is passed over: %s: %s",
                 step, why->place, why->message);
}

static hr_status generations_search(hr_store *store, hr_tensors *tensors, const hr_run_setting *settings,
                                    size_t n_settings, hr_arena *arena, search *s, hr_error *err) {
  int64_t *steps;
  bool *committed;
  size_t count;
  HR_TRY(hr__store_list(store, arena, &steps, &committed, &count, err));
  for (size_t i = 0; i < count && s->found == 0; i++) {
    if (!committed[i]) {
      s->cut++;
      hr__store_tell(store, HR_MESSAGE_WARNING,
                     "checkpoint of step %" PRId64 " has no manifest (its save was cut off, or "
                     "the file was removed) and is passed over",
                     steps[i]);
      continue;
    }
    hr_manifest manifest;
    hr_error why = {0};
    hr_status status = hr__generation_verify(store, tensors->window, steps[i], arena, &manifest, &why);
    if (status == HR_BAD_INPUT) {
      damage_note(store, s, steps[i], &why);
      continue;
    }
    if (status != HR_OK) { /* no verdict on the checkpoint: the next try may read it */
      if (err) *err = why;
      return status;
    }
    store->state = manifest.state;
    memcpy(store->fingerprint, manifest.fingerprint, sizeof store->fingerprint);
    bool changed = false;
    HR_TRY(hr__identity_check(&manifest, settings, n_settings, store->accept_changed_data ? &changed : NULL, err));
    if (changed)
      hr__store_tell(store, HR_MESSAGE_WARNING,
                     "the data has changed since step %" PRId64 " was saved: what follows is trained on other data",
                     steps[i]);
    HR_TRY(generation_load(store, tensors, &manifest, err));
    s->found = steps[i];
  }
  return HR_OK;
}

hr_status hr__checkpoint_load(hr_store *store, hr_tensors *tensors, const hr_run_setting *settings, size_t n_settings,
                              int64_t *step, hr_error *err) {
  hr_arena arena = {0};
  search s = {.found = 0};
  hr_status status = generations_search(store, tensors, settings, n_settings, &arena, &s, err);
  hr__arena_fini(&arena);
  if (status == HR_OK && s.found == 0 && s.damaged > 0)
    status = hr__fail(err, HR_BAD_INPUT, store->out, "restore a backup, or start again in another --out",
                      "every checkpoint of this run is damaged: %s", s.files);
  if (status != HR_OK) return status;
  if (s.found > 0 && s.damaged + s.cut > 0)
    hr__store_tell(store, HR_MESSAGE_WARNING, "going on from the older checkpoint of step %" PRId64, s.found);
  *step = store->good = s.found;
  if (store->best > s.found) store->best = store->state.best.step; /* that of a step that is passed over */
  return HR_OK;
}
