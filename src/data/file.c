/* See file.h. */
#include "data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void hr__data_file_close(hr_data_file *file) {
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
}

hr_status hr__data_file_at(const char *path, hr_data_file *out, hr_error *err) {
  *out = (hr_data_file){.path = path};
  out->fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out->fd < 0 || fstat(out->fd, &out->opened) != 0) {
    int why = errno;
    hr__data_file_close(out);
    return hr__fail(err, HR_BAD_INPUT, out->path, "check data.path; relative paths begin at the recipe's folder",
                    "cannot open the text: %s", strerror(why));
  }
  if (!S_ISREG(out->opened.st_mode)) {
    hr__data_file_close(out);
    return hr__fail(err, HR_BAD_INPUT, out->path, "name plain files, a folder of them, or a pattern", "%s",
                    S_ISDIR(out->opened.st_mode) ? "this is a folder" : "this is not a plain file");
  }
  out->bytes = (uint64_t)out->opened.st_size;
  return HR_OK;
}

hr_status hr__data_file_read(const hr_data_file *file, uint64_t at, void *to, size_t bytes, hr_error *err) {
  for (size_t got = 0; got < bytes;) {
    ssize_t n = pread(file->fd, (char *)to + got, bytes - got, (off_t)(at + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return hr__fail_errno(err, file->path, "read", errno);
    if (n == 0)
      return hr__fail(err, HR_BAD_INPUT, file->path, "put the file back",
                      "the file became shorter while training: no data at byte %" PRIu64, at + got);
    got += (size_t)n;
  }
  return HR_OK;
}

const char *hr__data_file_fate(const hr_data_file *file) {
  struct stat now;
  const struct stat *then = &file->opened;
  if (stat(file->path, &now) != 0) return errno == ENOENT ? "was removed" : "can no longer be reached";
  if (now.st_dev != then->st_dev || now.st_ino != then->st_ino) return "was replaced by another";
  bool same = now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
              now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
  return same ? NULL : "was written to";
}
