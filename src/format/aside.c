/* See aside.h. */
#include "format/aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "format/file.h"

/* NAME.PROCESS.NUMBER.tmp */
static bool is_unfinished(const char *name) {
  size_t length = strlen(name);
  if (!hr__text_ends(name, ".tmp")) return false;
  length -= strlen(".tmp");
  for (int part = 0; part < 2; part++) {
    size_t end = length;
    while (length > 0 && strchr("0123456789", name[length - 1]))
      length--;
    if (length == end || length-- < 2 || name[length] != '.') return false;
  }
  return true;
}

/* Whether the open file is the one that the path names: it may have been finished before its lock was had. */
static bool is_still(int fd, const char *path) {
  struct stat open_one, named;
  return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 && open_one.st_dev == named.st_dev &&
         open_one.st_ino == named.st_ino;
}

/* Whoever makes a file holds its lock, which ends with the process: one that nobody holds will never be whole. */
static void forsaken_remove(const char *folder, hr_arena *arena) {
  DIR *entries = opendir(folder);
  for (const struct dirent *entry; entries && (entry = readdir(entries));) {
    if (!is_unfinished(entry->d_name)) continue;
    const char *path = hr__arena_format(arena, "%s/%s", folder, entry->d_name);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still(fd, path)) unlink(path);
    if (fd >= 0) close(fd);
  }
  if (entries) closedir(entries);
}

/* Opens it and takes its lock; again where another process has removed it in between. */
static int unfinished_open(const char *path) {
  struct stat facts;
  for (;;) {
    int fd = hr__file_calls.open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &facts) != 0 || facts.st_nlink > 0) return fd;
    hr__file_calls.close(fd);
  }
}

hr_status hr__aside_begin(const char *path, size_t number, hr_arena *arena, hr_aside *out, hr_error *err) {
  const char *slash = strrchr(path, '/');
  const char *folder = hr__arena_format(arena, "%.*s", (int)(slash - path), path);
  *out = (hr_aside){.path = hr__arena_text(arena, path),
                    .unfinished = hr__arena_format(arena, "%s.%ld.%zu.tmp", path, (long)getpid(), number),
                    .fd = -1};
  if (!folder || !out->path || !out->unfinished) return hr__nomem(err);
  HR_TRY(hr__file_make_folders(folder, err));
  if (number == 0) forsaken_remove(folder, arena);
  out->fd = unfinished_open(out->unfinished);
  return out->fd < 0 ? hr__fail_errno(err, out->unfinished, "write", errno) : HR_OK;
}

hr_status hr__aside_end(hr_aside *aside, hr_status status, hr_error *err) {
  if (aside->fd < 0) return status;
  int held = dup(aside->fd); /* the lock, until the file has its name */
  int closed = hr__file_calls.close(aside->fd);
  aside->fd = -1;
  if (closed != 0 && status == HR_OK) status = hr__fail_errno(err, aside->unfinished, "write", errno);
  if (status == HR_OK && hr__file_calls.rename(aside->unfinished, aside->path) != 0)
    status = hr__fail_errno(err, aside->path, "write", errno);
  if (status != HR_OK) hr__file_calls.unlink(aside->unfinished);
  if (held >= 0) close(held);
  return status;
}
