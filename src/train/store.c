/* The folder of a run; see store.h. */
#include "train/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"

void hr__store_tell(const hr_store *store, hr_message_kind kind, const char *format, ...) {
  if (!store->message) return;
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  store->message(store->message_user, kind, text);
}

const char *hr__store_path(const hr_store *store, int64_t step, const char *file, char out[HR_STORE_PATH]) {
  snprintf(out, HR_STORE_PATH, "%s/generation-%08" PRId64 "%s%s", store->out, step, file ? "/" : "", file ? file : "");
  return out;
}

/* Step of a generation's folder name; false for any other name. */
static bool generation_parse(const char *name, int64_t *step) {
  static const char prefix[] = "generation-";
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  const char *digits = name + sizeof prefix - 1;
  size_t length = strspn(digits, "0123456789");
  if (length < 8 || length > 18 || digits[length] != 0) return false;
  *step = strtoll(digits, NULL, 10);
  char again[48];
  snprintf(again, sizeof again, "%s%08" PRId64, prefix, *step);
  return strcmp(again, name) == 0;
}

static int newest_first(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Whether there is something at `path`. */
static hr_status path_exists(const char *path, bool *exists, hr_error *err) {
  *exists = access(path, F_OK) == 0;
  return *exists || errno == ENOENT || errno == ENOTDIR ? HR_OK : hr__fail_errno(err, path, "examine", errno);
}

static hr_status steps_read(const hr_store *store, DIR *folder, hr_arena *arena, int64_t **steps, size_t *count,
                            hr_error *err) {
  size_t capacity = 0;
  for (struct dirent *entry; errno = 0, (entry = readdir(folder)) != NULL;) {
    int64_t step;
    if (!generation_parse(entry->d_name, &step)) continue;
    if (hr__arena_grow(arena, (void **)steps, &capacity, *count, sizeof **steps) != 0) return hr__nomem(err);
    (*steps)[(*count)++] = step;
  }
  return errno == 0 ? HR_OK : hr__fail_errno(err, store->out, "list", errno);
}

hr_status hr__store_list(const hr_store *store, hr_arena *arena, int64_t **steps, bool **committed, size_t *count,
                         hr_error *err) {
  *steps = NULL;
  *committed = NULL;
  *count = 0;
  DIR *folder = opendir(store->out);
  if (!folder) return errno == ENOENT ? HR_OK : hr__fail_errno(err, store->out, "open", errno);
  hr_status status = steps_read(store, folder, arena, steps, count, err);
  closedir(folder);
  HR_TRY(status);
  *committed = hr__arena_array(arena, *count + 1, sizeof **committed);
  if (!*committed) return hr__nomem(err);
  if (*count > 0) qsort(*steps, *count, sizeof **steps, newest_first);
  char path[HR_STORE_PATH];
  for (size_t i = 0; i < *count; i++)
    HR_TRY(path_exists(hr__store_path(store, (*steps)[i], HR_MANIFEST_NAME, path), &(*committed)[i], err));
  return HR_OK;
}

/* Whether a run has left anything here. */
static hr_status store_is_used(const hr_store *store, bool *holds, hr_error *err) {
  char path[HR_STORE_PATH];
  snprintf(path, sizeof path, "%s/log.jsonl", store->out);
  HR_TRY(path_exists(path, holds, err));
  if (*holds) return HR_OK;
  hr_arena arena = {0};
  int64_t *steps;
  bool *committed;
  size_t count;
  hr_status status = hr__store_list(store, &arena, &steps, &committed, &count, err);
  *holds = status == HR_OK && count > 0;
  hr__arena_fini(&arena);
  return status;
}

/* --- what stands in the way --------------------------------------------------------------------------------------- */

/* A file that the run is going to write must be a plain file where it is there already. */
static hr_status file_obstacle(const char *path, hr_error *err) {
  struct stat facts;
  if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return HR_OK;
  return hr__fail(err, HR_USAGE, path, "move it away, or use another --out",
                  "this is %s, and stands where the run writes a file",
                  S_ISDIR(facts.st_mode) ? "a folder" : "not a plain file");
}

static hr_status folder_obstacle(const char *path, const char *what, hr_error *err) {
  struct stat facts;
  if (stat(path, &facts) != 0 || S_ISDIR(facts.st_mode)) return HR_OK;
  return hr__fail(err, HR_USAGE, path, "move it away, or use another --out",
                  "this is not a folder, and has the name of a %s", what);
}

static hr_status generation_obstacle(const hr_store *store, int64_t step, hr_error *err) {
  char path[HR_STORE_PATH], temporary[128];
  HR_TRY(folder_obstacle(hr__store_path(store, step, NULL, path), "checkpoint", err));
  for (size_t f = 0; f < store->names.n_folders; f++)
    HR_TRY(folder_obstacle(hr__store_path(store, step, store->names.folders[f], path), "checkpoint's folder", err));
  for (size_t f = 0; f <= store->names.count; f++) {
    const char *name = f < store->names.count ? store->names.list[f] : HR_MANIFEST_NAME;
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    HR_TRY(file_obstacle(hr__store_path(store, step, name, path), err));
    HR_TRY(file_obstacle(hr__store_path(store, step, temporary, path), err));
  }
  return HR_OK;
}

/* Told before anything is trained, not when it is to be saved. */
static hr_status store_obstacles(const hr_store *store, hr_error *err) {
  static const char *const names[] = {"lock", "log.jsonl"};
  char path[HR_STORE_PATH];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", store->out, names[i]);
    HR_TRY(file_obstacle(path, err));
  }
  hr_arena arena = {0};
  int64_t *steps;
  bool *committed;
  size_t count;
  hr_status status = hr__store_list(store, &arena, &steps, &committed, &count, err);
  for (size_t i = 0; i < count && status == HR_OK; i++)
    status = generation_obstacle(store, steps[i], err);
  hr__arena_fini(&arena);
  return status;
}

static hr_status store_refuse(const hr_store *store, hr_error *err) {
  bool holds;
  HR_TRY(store_is_used(store, &holds, err));
  if (holds)
    return hr__fail(err, HR_USAGE, store->out, "use --resume to go on with it, or another --out",
                    "there is a run in this folder already");
  return HR_OK;
}

static hr_status store_lock(hr_store *store, hr_error *err) {
  char path[HR_STORE_PATH];
  snprintf(path, sizeof path, "%s/lock", store->out);
  store->lock = hr__file_calls.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (store->lock < 0) return hr__fail_errno(err, path, "open", errno);
  if (flock(store->lock, LOCK_EX | LOCK_NB) == 0) return HR_OK;
  if (errno != EWOULDBLOCK) return hr__fail_errno(err, path, "lock", errno);
  return hr__fail(err, HR_USAGE, store->out, "wait for it to end, or use another --out",
                  "another process is training into this folder");
}

hr_status hr__store_open(hr_store *store, const hr_train_options *options, hr_error *err) {
  if (strlen(options->out) + 1 > sizeof store->out || options->out[0] == 0)
    return hr__fail(err, HR_USAGE, NULL, "give a shorter --out", "the name of the folder is empty or too long");
  memcpy(store->out, options->out, strlen(options->out) + 1);
  store->accept_changed_data = options->accept_changed_data;
  store->keep = hr__recipe_int(options->recipe, "training.keep");
  store->save_best = hr__recipe_bool(options->recipe, "training.save_best");
  struct stat facts;
  if (stat(store->out, &facts) != 0) return errno == ENOENT ? HR_OK : hr__fail_errno(err, store->out, "open", errno);
  if (!S_ISDIR(facts.st_mode)) return hr__fail(err, HR_USAGE, store->out, "use another --out", "this is not a folder");
  HR_TRY(store_obstacles(store, err));
  if (store->save_best) HR_TRY(hr__store_best_find(store, err));
  if (!options->resume) HR_TRY(store_refuse(store, err));
  return store_lock(store, err);
}

hr_status hr__store_create(hr_store *store, hr_error *err) {
  if (store->lock >= 0) return HR_OK;
  HR_TRY(hr__file_make_folders(store->out, err));
  HR_TRY(store_lock(store, err));
  return store_refuse(store, err); /* another process may have come and gone since hr__store_open */
}

void hr__store_close(hr_store *store) {
  if (store->lock >= 0) (void)hr__file_calls.close(store->lock);
  store->lock = -1;
}

hr_status hr__store_holds_run(const char *out, bool *holds, hr_error *err) {
  hr_store *store = hr__alloc_zero(1, sizeof *store); /* too large for the stack */
  if (!store) return hr__nomem(err);
  snprintf(store->out, sizeof store->out, "%s", out);
  hr_status status = store_is_used(store, holds, err);
  hr__free(store);
  return status;
}
