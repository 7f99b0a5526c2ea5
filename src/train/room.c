/* See room.h. */
#include "train/room.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/text.h"
#include "format/file.h"

enum { BLOCK = 4096, SMALL_FILES_BYTES = 16 << 10 }; /* configs, manifest and the folder */

static uint64_t whole_blocks(uint64_t bytes) {
  return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t generation_bytes(const hr_store *store, int64_t step) {
  char path[HR_STORE_PATH];
  struct stat facts;
  uint64_t bytes = 0;
  for (size_t f = 0; f <= store->names.count; f++) {
    const char *name = f < store->names.count ? store->names.list[f] : HR_MANIFEST_NAME;
    if (stat(hr__store_path(store, step, name, path), &facts) == 0) bytes += whole_blocks((uint64_t)facts.st_size);
  }
  return bytes;
}

/* Bytes of all checkpoints, or only of those that may go when there is no room: neither the newest good one nor the
 * best. */
static hr_status generations_bytes(const hr_store *store, bool all, uint64_t *bytes, hr_error *err) {
  hr_arena arena = {0};
  int64_t *steps;
  bool *committed;
  size_t count;
  *bytes = 0;
  hr_status status = hr__store_list(store, &arena, &steps, &committed, &count, err);
  for (size_t i = 0; i < count && status == HR_OK; i++)
    if (all || (steps[i] != store->good && steps[i] != store->best)) *bytes += generation_bytes(store, steps[i]);
  hr__arena_fini(&arena);
  return status;
}

/* What is free where the folder is or is going to be: asked of the nearest folder above it that is there. */
static bool free_bytes(const hr_store *store, uint64_t *bytes) {
  char folder[sizeof store->out];
  struct stat facts;
  memcpy(folder, store->out, sizeof folder);
  while (stat(folder, &facts) != 0) {
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder) {
      memcpy(folder, slash ? "/" : ".", 2);
      break;
    }
    *slash = 0;
  }
  return hr__file_calls.free_bytes(folder, bytes) == 0;
}

static hr_status file_size_check(const hr_store *store, uint64_t bytes, hr_error *err) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= (uint64_t)limit.rlim_cur)
    return HR_OK;
  return hr__fail(err, HR_NO_SPACE, store->out, "raise the limit (ulimit -f)",
                  "a checkpoint of this run has a file of %" PRIu64 " bytes, files may have %" PRIu64 " bytes", bytes,
                  (uint64_t)limit.rlim_cur);
}

hr_status hr__room_check(hr_store *store, hr_tensors *t, hr_error *err) {
  uint64_t largest = 0, there, left, needed;
  store->checkpoint_bytes = SMALL_FILES_BYTES * (1 + store->names.n_folders);
  for (size_t f = 0; f < store->files.count; f++) {
    const hr_run_file *file = &store->files.list[f];
    uint64_t bytes = file->copied ? file->copied->bytes : file->restored ? file->bytes : 0;
    if (file->text && !file->restored) continue;
    if (hr__run_file_has_tensors(file)) HR_TRY(hr__tensors_file_bytes(t, &file->tensors, &bytes, err));
    store->checkpoint_bytes += whole_blocks(bytes);
    if (bytes > largest) largest = bytes;
  }
  HR_TRY(file_size_check(store, largest, err));
  HR_TRY(generations_bytes(store, true, &there, err));
  needed = (store->save_best ? 3 : 2) * store->checkpoint_bytes;
  if (!free_bytes(store, &left) || there >= needed || left >= needed - there) return HR_OK;
  char needed_text[HR_SIZE_TEXT], left_text[HR_SIZE_TEXT];
  return hr__fail(err, HR_NO_SPACE, store->out, "make room there, or name a folder on another file system with --out",
                  "%s checkpoints need %s (%" PRIu64 " bytes) beside what is there, %s (%" PRIu64 " bytes) are free",
                  store->save_best ? "three" : "two", hr__size_text(needed - there, needed_text), needed - there,
                  hr__size_text(left, left_text), left);
}

bool hr__room_after_pruning(const hr_store *store) {
  uint64_t left, old;
  if (store->checkpoint_bytes == 0 || store->good == 0 || !free_bytes(store, &left)) return false;
  if (generations_bytes(store, false, &old, NULL) != HR_OK) return false;
  return left < store->checkpoint_bytes && old >= store->checkpoint_bytes - left;
}
