/* OUT/best: a link to the generation of the best evaluation, replaced in one go. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"
#include "train/store.h"

static const char PREFIX[] = "generation-";

static void link_path(const hr_store *store, const char *suffix, char out[HR_STORE_PATH]) {
  snprintf(out, HR_STORE_PATH, "%s/best%s", store->out, suffix);
}

hr_status hr__store_best_find(hr_store *store, hr_error *err) {
  char path[HR_STORE_PATH], target[64];
  struct stat facts;
  link_path(store, "", path);
  if (lstat(path, &facts) != 0) return errno == ENOENT ? HR_OK : hr__fail_errno(err, path, "examine", errno);
  if (!S_ISLNK(facts.st_mode))
    return hr__fail(err, HR_USAGE, path, "move it away, or use another --out",
                    "this is no link, and stands where the run names its best checkpoint");
  ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return hr__fail_errno(err, path, "read", errno);
  target[length] = 0;
  if (strncmp(target, PREFIX, sizeof PREFIX - 1) == 0) store->best = strtoll(target + sizeof PREFIX - 1, NULL, 10);
  return HR_OK;
}

hr_status hr__store_best_set(hr_store *store, int64_t step, hr_error *err) {
  char path[HR_STORE_PATH], temporary[HR_STORE_PATH], target[64];
  store->best = step; /* it stays, also where links cannot be made */
  link_path(store, "", path);
  link_path(store, ".tmp", temporary);
  snprintf(target, sizeof target, "%s%08" PRId64, PREFIX, step);
  (void)hr__file_calls.unlink(temporary); /* of a save that was cut off */
  if (symlink(target, temporary) != 0) return hr__fail_errno(err, path, "create", errno);
  if (hr__file_calls.rename(temporary, path) != 0) return hr__fail_errno(err, path, "create", errno);
  return hr__file_sync_folder(store->out, err);
}
