/* See aside.h. */
#include "format/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "format/file.h"

hr_status hr__aside_begin(const char *path, size_t number, hr_arena *arena, hr_aside *out, hr_error *err) {
  const char *slash = strrchr(path, '/');
  const char *folder = hr__arena_format(arena, "%.*s", (int)(slash - path), path);
  *out = (hr_aside){.path = hr__arena_text(arena, path),
                    .unfinished = hr__arena_format(arena, "%s.%ld.%zu.tmp", path, (long)getpid(), number),
                    .fd = -1};
  if (!folder || !out->path || !out->unfinished) return hr__nomem(err);
  HR_TRY(hr__file_make_folders(folder, err));
  out->fd = hr__file_calls.open(out->unfinished, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return out->fd < 0 ? hr__fail_errno(err, out->unfinished, "write", errno) : HR_OK;
}

hr_status hr__aside_end(hr_aside *aside, hr_status status, hr_error *err) {
  if (aside->fd < 0) return status;
  int closed = hr__file_calls.close(aside->fd);
  aside->fd = -1;
  if (closed != 0 && status == HR_OK) status = hr__fail_errno(err, aside->unfinished, "write", errno);
  if (status == HR_OK && hr__file_calls.rename(aside->unfinished, aside->path) != 0)
    status = hr__fail_errno(err, aside->path, "write", errno);
  if (status != HR_OK) hr__file_calls.unlink(aside->unfinished);
  return status;
}
