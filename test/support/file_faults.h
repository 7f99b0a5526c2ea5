/* Faults for tests: calls that write files and fail at the n-th call. In a header, since only tests that link format/
 * can use it. Include it in one source file of a test executable.
 *
 * hr_test_each_file_fault() runs a body with call 1, 2, 3, ... failing once, then with every call from n on failing,
 * for each kind of fault, until the body runs untouched. After every run `check` looks at what is on disk: a fault may
 * end in HR_OK only if all is there (the close of a folder may fail without harm). Descriptors opened must be closed.
 */
#ifndef HR_TEST_SUPPORT_FILE_FAULTS_H
#define HR_TEST_SUPPORT_FILE_FAULTS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/file.h"
#include "support/faults.h"

typedef enum hr_test_file_fault {
  HR_TEST_ENOSPC,
  HR_TEST_EIO,
  HR_TEST_SHORT, /* writes store half of what they are given: no error, the caller must go on */
  HR_TEST_EINTR, /* writes are interrupted before anything is stored: the caller must repeat them */
  HR_TEST_FILE_FAULTS
} hr_test_file_fault;

static struct {
  hr_file_calls real;
  hr_test_file_fault kind;
  size_t calls, failing;
  bool lasting, fired;
  long descriptors; /* opened and not closed */
} hr_test_files;

static bool file_call_fails(bool is_write) {
  bool writes_only = hr_test_files.kind == HR_TEST_SHORT || hr_test_files.kind == HR_TEST_EINTR;
  if (writes_only && !is_write) return false;
  size_t number = ++hr_test_files.calls;
  /* An interruption that never ends would be an endless loop in any correct caller. */
  bool lasting = hr_test_files.lasting && hr_test_files.kind != HR_TEST_EINTR;
  bool fails = number == hr_test_files.failing || (lasting && number > hr_test_files.failing);
  if (!fails) return false;
  hr_test_files.fired = true;
  errno = hr_test_files.kind == HR_TEST_ENOSPC ? ENOSPC : hr_test_files.kind == HR_TEST_EIO ? EIO : EINTR;
  return true;
}

static int fault_open(const char *path, int flags, unsigned mode) {
  if (file_call_fails(false)) return -1;
  int fd = hr_test_files.real.open(path, flags, mode);
  hr_test_files.descriptors += fd >= 0;
  return fd;
}
static long fault_write(int fd, const void *data, size_t bytes) {
  if (!file_call_fails(true)) return hr_test_files.real.write(fd, data, bytes);
  if (hr_test_files.kind == HR_TEST_SHORT) return hr_test_files.real.write(fd, data, bytes > 1 ? bytes / 2 : bytes);
  return -1;
}
static int fault_fdatasync(int fd) {
  return file_call_fails(false) ? -1 : hr_test_files.real.fdatasync(fd);
}
static int fault_fsync(int fd) {
  return file_call_fails(false) ? -1 : hr_test_files.real.fsync(fd);
}
static int fault_close(int fd) { /* like the system's: the descriptor is gone even when an error is reported */
  int result = hr_test_files.real.close(fd);
  hr_test_files.descriptors--;
  return file_call_fails(false) ? -1 : result;
}
static int fault_rename(const char *from, const char *to) {
  return file_call_fails(false) ? -1 : hr_test_files.real.rename(from, to);
}
static int fault_mkdir(const char *path, unsigned mode) {
  return file_call_fails(false) ? -1 : hr_test_files.real.mkdir(path, mode);
}
static int fault_unlink(const char *path) {
  return file_call_fails(false) ? -1 : hr_test_files.real.unlink(path);
}
static int fault_rmdir(const char *path) {
  return file_call_fails(false) ? -1 : hr_test_files.real.rmdir(path);
}

static long fault_pread(int fd, void *data, size_t bytes, int64_t offset) {
  return file_call_fails(false) ? -1 : hr_test_files.real.pread(fd, data, bytes, offset);
}
static long fault_pwrite(int fd, const void *data, size_t bytes, int64_t offset) {
  if (!file_call_fails(true)) return hr_test_files.real.pwrite(fd, data, bytes, offset);
  if (hr_test_files.kind == HR_TEST_SHORT)
    return hr_test_files.real.pwrite(fd, data, bytes > 1 ? bytes / 2 : bytes, offset);
  return -1;
}
static int fault_allocate(int fd, int64_t bytes) {
  return file_call_fails(false) ? errno : hr_test_files.real.allocate(fd, bytes);
}
static int fault_fchmod(int fd, unsigned mode) {
  return file_call_fails(false) ? -1 : hr_test_files.real.fchmod(fd, mode);
}
static int fault_fchown(int fd, unsigned owner, unsigned group) {
  return file_call_fails(false) ? -1 : hr_test_files.real.fchown(fd, owner, group);
}
static int fault_free_bytes(const char *path, uint64_t *bytes) { /* a fault takes no room away for good */
  return hr_test_files.real.free_bytes(path, bytes);
}

static inline void hr_test_file_faults_arm(hr_test_file_fault kind, size_t nth, bool lasting) {
  if (!hr_test_files.real.open) hr_test_files.real = hr__file_calls;
  hr_test_files.kind = kind;
  hr_test_files.calls = 0;
  hr_test_files.failing = nth;
  hr_test_files.lasting = lasting;
  hr_test_files.fired = false;
  hr__file_calls = (hr_file_calls){fault_open,   fault_write,    fault_fdatasync, fault_fsync,  fault_close,
                                   fault_rename, fault_mkdir,    fault_unlink,    fault_rmdir,  fault_pread,
                                   fault_pwrite, fault_allocate, fault_fchmod,    fault_fchown, fault_free_bytes};
}

static inline bool hr_test_file_faults_disarm(void) {
  hr__file_calls = hr_test_files.real;
  return hr_test_files.fired;
}

typedef void (*hr_test_file_check)(void *arg, hr_status status);

static inline size_t hr_test_each_file_fault(hr_test_body body, hr_test_file_check check, void *arg) {
  size_t injected = 0;
  for (int variant = 0; variant < 2 * HR_TEST_FILE_FAULTS; variant++) {
    hr_test_file_fault kind = (hr_test_file_fault)(variant / 2);
    bool harmless = kind == HR_TEST_SHORT || kind == HR_TEST_EINTR;
    for (size_t nth = 1;; nth++) {
      hr_error err = {0};
      size_t live = hr_test_live_bytes();
      hr_test_file_faults_arm(kind, nth, variant % 2);
      hr_status status = body(arg, &err);
      bool hit = hr_test_file_faults_disarm();
      if (hr_test_files.descriptors) fail_msg("file fault %d at call %zu: descriptor left open", (int)kind, nth);
      if (hr_test_live_bytes() != live) fail_msg("file fault %d at call %zu: memory leaked", (int)kind, nth);
      hr_status expected = kind == HR_TEST_ENOSPC ? HR_NO_SPACE : HR_IO;
      if (status != HR_OK && (status != expected || harmless || !hit))
        fail_msg("file fault %d at call %zu: %s: %s", (int)kind, nth, hr_status_name(status), err.message);
      check(arg, status);
      if (!hit) break;
      injected++;
    }
  }
  return injected;
}

#endif
