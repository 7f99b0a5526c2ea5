/* The disk tier's file: see disk.h. */
#include "dev/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "dev/device.h"
#include "format/file.h"

enum { UNIT = HR_DISK_ALIGNMENT, ATTEMPTS = 16 };

static const char remedy[] = "free space there, or name another folder with memory.offload_folder";

/* A new file with a name that nobody has; the name goes away at once. */
static hr_status file_create(hr_disk *disk, const char *folder, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = HR_OK;
  for (int attempt = 0; disk->fd < 0 && status == HR_OK; attempt++) {
    char *path = hr__arena_format(&arena, "%s/headroom-%ld-%d.offload", folder, (long)getpid(), attempt);
    if (!path) {
      status = hr__nomem(err);
      break;
    }
    disk->fd = hr__file_calls.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failure = errno;
    if (disk->fd < 0 && (failure != EEXIST || attempt == ATTEMPTS))
      status = hr__fail(err, HR_IO, folder, "name a folder that exists and can be written with memory.offload_folder",
                        "cannot make a file for what is offloaded to the disk: %s", strerror(failure));
    if (disk->fd >= 0 && hr__file_calls.unlink(path) != 0)
      status = hr__fail_errno(err, path, "take the name off", errno);
  }
  hr__arena_fini(&arena);
  return status;
}

hr_status hr__disk_open(hr_disk *disk, const char *folder, uint64_t bytes, hr_error *err) {
  const char *temporary = getenv("TMPDIR");
  if (!folder) folder = temporary && *temporary ? temporary : "/tmp";
  *disk = (hr_disk){.fd = -1};
  disk->hashes = hr__alloc_zero((size_t)(bytes / UNIT) + 1, sizeof *disk->hashes);
  disk->folder = hr__alloc(strlen(folder) + 1);
  if (!disk->hashes || !disk->folder) return hr__nomem(err);
  strcpy(disk->folder, folder);
  HR_TRY(file_create(disk, folder, err));
  int failure = hr__file_calls.allocate(disk->fd, (int64_t)bytes);
  if (failure == 0) return HR_OK;
  char text[HR_SIZE_TEXT];
  return hr__fail(err, HR_IO, folder, remedy, "cannot take %s of disk space: %s", hr__size_text(bytes, text),
                  strerror(failure));
}

void hr__disk_close(hr_disk *disk) {
  if (disk->fd >= 0) hr__file_calls.close(disk->fd); /* its space goes back with it: nothing is lost by a failure */
  hr__free(disk->hashes);
  hr__free(disk->folder);
  *disk = (hr_disk){.fd = -1};
}

static hr_status bytes_put(const hr_disk *disk, const char *name, uint64_t at, const void *data, size_t bytes,
                           hr_error *err) {
  const char *from = data;
  while (bytes > 0) {
    long put = hr__file_calls.pwrite(disk->fd, from, bytes, (int64_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return hr__fail(err, HR_IO, disk->folder, remedy, "cannot write %s to the disk: %s", name,
                      strerror(put < 0 ? errno : EIO));
    from += put;
    at += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return HR_OK;
}

static hr_status bytes_get(const hr_disk *disk, const char *name, uint64_t at, void *data, size_t bytes,
                           hr_error *err) {
  char *to = data;
  while (bytes > 0) {
    long got = hr__file_calls.pread(disk->fd, to, bytes, (int64_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return hr__fail(err, HR_IO, disk->folder, "look at the health of this disk", "cannot read %s back: %s", name,
                      strerror(got < 0 ? errno : EIO));
    to += got;
    at += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return HR_OK;
}

/* The unit that begins at file position `at`, of which the value's buffer has `bytes`. */
static hr_status unit_check(const hr_disk *disk, const char *name, uint64_t at, const void *data, size_t bytes,
                            hr_error *err) {
  const hr_xxh128 *known = &disk->hashes[at / UNIT];
  if (known->low == 0 && known->high == 0) return HR_OK;
  hr_xxh128 found = hr__xxh128(data, bytes);
  if (found.low == known->low && found.high == known->high) return HR_OK;
  return hr__fail(err, HR_IO, disk->folder,
                  "look at the health of this disk; go on from the last checkpoint with --resume",
                  "%s came back from the disk changed", name);
}

/* Bytes of the unit at `at` that belong to the buffer. */
static size_t unit_bytes(const hr_disk_range *range, uint64_t at) {
  return range->end - at < UNIT ? (size_t)(range->end - at) : UNIT;
}

/* Part of a unit: [skip, skip + bytes) of the one at `at`. The rest of it is read, checked and kept. */
static hr_status unit_change(hr_disk *disk, const hr_disk_range *range, uint64_t at, size_t skip, const void *data,
                             size_t bytes, hr_error *err) {
  char unit[UNIT];
  size_t whole = unit_bytes(range, at);
  HR_TRY(bytes_get(disk, range->name, at, unit, whole, err));
  HR_TRY(unit_check(disk, range->name, at, unit, whole, err));
  memcpy(unit + skip, data, bytes);
  HR_TRY(bytes_put(disk, range->name, at, unit, whole, err));
  disk->hashes[at / UNIT] = hr__xxh128(unit, whole);
  return HR_OK;
}

static hr_status unit_part(const hr_disk *disk, const hr_disk_range *range, uint64_t at, size_t skip, void *data,
                           size_t bytes, hr_error *err) {
  char unit[UNIT];
  size_t whole = unit_bytes(range, at);
  HR_TRY(bytes_get(disk, range->name, at, unit, whole, err));
  HR_TRY(unit_check(disk, range->name, at, unit, whole, err));
  memcpy(data, unit + skip, bytes);
  return HR_OK;
}

/* The part of [from, to) that is no whole unit at its beginning, if any; 0: it begins with a whole one. */
static size_t part_bytes(const hr_disk_range *range, uint64_t from, uint64_t to, size_t *skip) {
  *skip = (size_t)(from % UNIT);
  uint64_t start = from - *skip, end = start + unit_bytes(range, start);
  if (*skip == 0 && to >= end) return 0;
  return (size_t)((to < end ? to : end) - from);
}

/* Bytes from `from`, where a unit begins, up to the last whole unit's end before `to`. */
static size_t whole_bytes(const hr_disk_range *range, uint64_t from, uint64_t to) {
  return (size_t)((to == range->end ? to : to - to % UNIT) - from);
}

hr_status hr__disk_write(hr_disk *disk, const hr_disk_range *range, uint64_t at, const void *data, size_t bytes,
                         hr_error *err) {
  const char *from = data;
  for (uint64_t to = range->begin + at, end = to + bytes; to < end;) {
    size_t skip, part = part_bytes(range, to, end, &skip);
    if (part > 0) {
      HR_TRY(unit_change(disk, range, to - skip, skip, from, part, err));
    } else {
      part = whole_bytes(range, to, end);
      HR_TRY(bytes_put(disk, range->name, to, from, part, err));
      for (size_t done = 0; done < part; done += UNIT)
        disk->hashes[(to + done) / UNIT] = hr__xxh128(from + done, unit_bytes(range, to + done));
    }
    to += part;
    from += part;
  }
  return HR_OK;
}

hr_status hr__disk_read(hr_disk *disk, const hr_disk_range *range, uint64_t at, void *data, size_t bytes,
                        hr_error *err) {
  char *to = data;
  for (uint64_t from = range->begin + at, end = from + bytes; from < end;) {
    size_t skip, part = part_bytes(range, from, end, &skip);
    if (part > 0) {
      HR_TRY(unit_part(disk, range, from - skip, skip, to, part, err));
    } else {
      part = whole_bytes(range, from, end);
      HR_TRY(bytes_get(disk, range->name, from, to, part, err));
      for (size_t done = 0; done < part; done += UNIT)
        HR_TRY(unit_check(disk, range->name, from + done, to + done, unit_bytes(range, from + done), err));
    }
    from += part;
    to += part;
  }
  return HR_OK;
}
