/* Whole files in and out: see format/file.h. */
#include "format/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"

enum { IO_MOST = 1 << 30 }; /* bytes per system call; Linux stops at 2^31 - 4096 */

static int call_open(const char *path, int flags, unsigned mode) {
  return open(path, flags, mode);
}
static long call_write(int fd, const void *data, size_t bytes) {
  return write(fd, data, bytes);
}
static int call_mkdir(const char *path, unsigned mode) {
  return mkdir(path, mode);
}
static long call_pread(int fd, void *data, size_t bytes, int64_t offset) {
  return pread(fd, data, bytes, (off_t)offset);
}
static long call_pwrite(int fd, const void *data, size_t bytes, int64_t offset) {
  return pwrite(fd, data, bytes, (off_t)offset);
}
static int call_allocate(int fd, int64_t bytes) {
  return posix_fallocate(fd, 0, (off_t)bytes);
}
static int call_free_bytes(const char *path, uint64_t *bytes) {
  struct statvfs facts;
  if (statvfs(path, &facts) != 0) return -1;
  *bytes = facts.f_blocks > 0 ? (uint64_t)facts.f_bavail * facts.f_frsize : UINT64_MAX; /* one that does not count */
  return 0;
}

hr_file_calls hr__file_calls = {
    .open = call_open,
    .write = call_write,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .mkdir = call_mkdir,
    .unlink = unlink,
    .rmdir = rmdir,
    .fchmod = fchmod,
    .fchown = fchown,
    .pread = call_pread,
    .pwrite = call_pwrite,
    .allocate = call_allocate,
    .free_bytes = call_free_bytes,
};

static hr_status open_failed(const char *path, int errno_value, hr_error *err) {
  switch (errno_value) {
  case ENOENT:
  case ENOTDIR:
    return hr__fail(err, HR_BAD_INPUT, path, "check the path", "there is no such file");
  case ENXIO:
  case ENODEV:
    return hr__fail(err, HR_BAD_INPUT, path, "name a regular file", "this is a device, a socket or a pipe, not a file");
  case ELOOP:
  case ENAMETOOLONG:
    return hr__fail(err, HR_BAD_INPUT, path, "check the path", "cannot open: %s", strerror(errno_value));
  default:
    return hr__fail_errno(err, path, "open", errno_value);
  }
}

hr_status hr__file_open(const char *path, int *fd, uint64_t *bytes, hr_error *err) {
  int opened;
  do
    opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  while (opened < 0 && errno == EINTR);
  if (opened < 0) return open_failed(path, errno, err);
  struct stat facts;
  hr_status status = HR_OK;
  if (fstat(opened, &facts) != 0)
    status = hr__fail_errno(err, path, "examine", errno);
  else if (S_ISDIR(facts.st_mode))
    status = hr__fail(err, HR_BAD_INPUT, path, "name a file inside it", "this is a folder, not a file");
  else if (!S_ISREG(facts.st_mode))
    status =
        hr__fail(err, HR_BAD_INPUT, path, "name a regular file", "this is a device, a socket or a pipe, not a file");
  if (status != HR_OK) {
    close(opened);
    return status;
  }
  *fd = opened;
  *bytes = (uint64_t)facts.st_size;
  return HR_OK;
}

hr_status hr__file_read_at(int fd, const char *path, uint64_t offset, void *data, size_t bytes, hr_error *err) {
  char *to = data;
  while (bytes) {
    ssize_t got = pread(fd, to, bytes < IO_MOST ? bytes : IO_MOST, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return hr__fail_errno(err, path, "read", errno);
    if (got == 0)
      return hr__fail(err, HR_BAD_INPUT, path, "fetch or write the file again",
                      "the file ends at byte %llu although more was announced", (unsigned long long)offset);
    to += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return HR_OK;
}

hr_status hr__file_read(const char *path, size_t cap, hr_arena *arena, char **text, size_t *bytes, hr_error *err) {
  int fd;
  uint64_t length;
  HR_TRY(hr__file_open(path, &fd, &length, err));
  hr_status status = HR_OK;
  char *data = NULL;
  if (length > cap) {
    char have[HR_SIZE_TEXT], most[HR_SIZE_TEXT];
    status = hr__fail(err, HR_BAD_INPUT, path, "check that this is the right file",
                      "the file has %s, at most %s are read", hr__size_text(length, have), hr__size_text(cap, most));
  } else {
    data = hr__arena_alloc(arena, (size_t)length + 1);
    status = data ? hr__file_read_at(fd, path, 0, data, (size_t)length, err) : hr__nomem(err);
  }
  close(fd);
  if (status != HR_OK) return status;
  *text = data;
  *bytes = (size_t)length;
  return HR_OK;
}

hr_status hr__file_write_all(int fd, const char *path, const void *data, size_t bytes, hr_error *err) {
  const char *from = data;
  while (bytes) {
    long put = hr__file_calls.write(fd, from, bytes < IO_MOST ? bytes : IO_MOST);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return hr__fail_errno(err, path, "write", put < 0 ? errno : EIO);
    from += put;
    bytes -= (size_t)put;
  }
  return HR_OK;
}

hr_status hr__file_write_at(int fd, const char *path, uint64_t offset, const void *data, size_t bytes, hr_error *err) {
  const char *from = data;
  while (bytes) {
    long put = hr__file_calls.pwrite(fd, from, bytes < IO_MOST ? bytes : IO_MOST, (int64_t)offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return hr__fail_errno(err, path, "write", put < 0 ? errno : EIO);
    from += put;
    offset += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return HR_OK;
}

/* Makes `folder` unless it is there. */
static hr_status folder_make(const char *folder, hr_error *err) {
  struct stat facts;
  if (stat(folder, &facts) == 0 && S_ISDIR(facts.st_mode)) return HR_OK;
  if (hr__file_calls.mkdir(folder, 0755) == 0) return HR_OK;
  int why = errno;
  if (why == EEXIST && stat(folder, &facts) == 0) { /* made meanwhile by another process, or no folder at all */
    if (S_ISDIR(facts.st_mode)) return HR_OK;
    why = ENOTDIR;
  }
  return hr__fail_errno(err, folder, "create", why);
}

hr_status hr__file_make_folders(const char *folder, hr_error *err) {
  hr_arena arena = {0};
  char *part = hr__arena_text(&arena, folder);
  hr_status status = part ? HR_OK : hr__nomem(err);
  for (size_t i = 1; status == HR_OK && folder[0] && i <= strlen(folder); i++) {
    if (folder[i] != '/' && folder[i] != 0) continue;
    part[i] = 0;
    status = folder_make(part, err);
    part[i] = folder[i];
  }
  hr__arena_fini(&arena);
  return status;
}

hr_status hr__file_sync_folder(const char *folder, hr_error *err) {
  int fd = hr__file_calls.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return hr__fail_errno(err, folder, "open the folder", errno);
  int failure = hr__file_calls.fsync(fd) == 0 ? 0 : errno;
  hr__file_calls.close(fd);
  if (failure == EINVAL) failure = 0; /* a file system without this notion */
  return failure ? hr__fail_errno(err, folder, "make the folder durable", failure) : HR_OK;
}

/* Writes and closes `path`, which must reach the disk before it is renamed. */
static hr_status file_write(const char *path, const void *data, size_t bytes, hr_error *err) {
  int fd = hr__file_calls.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return hr__fail_errno(err, path, "create", errno);
  hr_status status = hr__file_write_all(fd, path, data, bytes, err);
  if (status == HR_OK && hr__file_calls.fdatasync(fd) != 0) status = hr__fail_errno(err, path, "make durable", errno);
  if (hr__file_calls.close(fd) != 0 && status == HR_OK && errno != EINTR)
    status = hr__fail_errno(err, path, "close", errno);
  return status;
}

hr_status hr__file_replace(const char *path, const void *data, size_t bytes, hr_error *err) {
  hr_arena arena = {0};
  const char *slash = strrchr(path, '/');
  char *aside = hr__arena_format(&arena, "%s.tmp", path);
  char *folder = slash == path ? hr__arena_text(&arena, "/")
                 : slash       ? hr__arena_format(&arena, "%.*s", (int)(slash - path), path)
                               : hr__arena_text(&arena, ".");
  hr_status status = aside && folder ? file_write(aside, data, bytes, err) : hr__nomem(err);
  if (status == HR_OK && hr__file_calls.rename(aside, path) != 0) status = hr__fail_errno(err, path, "rename", errno);
  if (status == HR_OK)
    status = hr__file_sync_folder(folder, err);
  else if (aside && folder)
    hr__file_calls.unlink(aside);
  hr__arena_fini(&arena);
  return status;
}
