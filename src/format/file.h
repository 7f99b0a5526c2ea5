/* Whole small files in; atomic whole files out. Big files are read through windows by their own readers. */
#ifndef HR_FORMAT_FILE_H
#define HR_FORMAT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* Reads a regular file of at most `cap` bytes into `arena`, NUL-terminated. A folder, a device, a missing file and a
 * file over the cap have their own messages (HR_BAD_INPUT); read errors are HR_IO. */
hr_status hr__file_read(const char *path, size_t cap, hr_arena *arena, char **text, size_t *bytes, hr_error *err);

/* Opens a regular file for reading and tells its length; the same messages as hr__file_read. Never blocks (FIFO). */
hr_status hr__file_open(const char *path, int *fd, uint64_t *bytes, hr_error *err);

/* Reads exactly `bytes` at `offset`. A file that ends before is HR_BAD_INPUT (truncated). */
hr_status hr__file_read_at(int fd, const char *path, uint64_t offset, void *data, size_t bytes, hr_error *err);

/* File-system calls that write, and those that read back what a run itself wrote, gathered so that a test can make any
 * of them fail (test/support/faults.h sets it). */
typedef struct hr_file_calls {
  int (*open)(const char *path, int flags, unsigned mode);
  long (*write)(int fd, const void *data, size_t bytes);
  int (*fdatasync)(int fd);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*rename)(const char *from, const char *to);
  int (*mkdir)(const char *path, unsigned mode);
  int (*unlink)(const char *path);
  int (*rmdir)(const char *path);
  long (*pread)(int fd, void *data, size_t bytes, int64_t offset);
  long (*pwrite)(int fd, const void *data, size_t bytes, int64_t offset);
  int (*allocate)(int fd, int64_t bytes); /* posix_fallocate from the start: an error number, 0 when done */
  int (*fchmod)(int fd, unsigned mode);
  int (*fchown)(int fd, unsigned owner, unsigned group);
  int (*free_bytes)(const char *path, uint64_t *bytes); /* what this user may still write to its file system */
} hr_file_calls;
extern hr_file_calls hr__file_calls; /* the system's calls unless a test replaces them */

hr_status hr__file_write_all(int fd, const char *path, const void *data, size_t bytes, hr_error *err);
hr_status hr__file_write_at(int fd, const char *path, uint64_t offset, const void *data, size_t bytes, hr_error *err);
/* Makes a folder and all that are missing above it. */
hr_status hr__file_make_folders(const char *folder, hr_error *err);
hr_status hr__file_sync_folder(const char *folder, hr_error *err);
/* Writes `path`.tmp, fdatasync, rename to `path`, fsync of the folder. The old file stays whole on any failure. */
hr_status hr__file_replace(const char *path, const void *data, size_t bytes, hr_error *err);

#endif
