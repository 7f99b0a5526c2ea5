/* The disk tier's file: any part of a value comes back as it was written, and what has changed meanwhile is found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "dev/device.h"
#include "dev/disk.h"
#include "format/file.h"

enum { UNIT = HR_DISK_ALIGNMENT, BYTES = 5 * UNIT + 777, ROOM = 6 * UNIT };

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

static void bytes_fill(unsigned char *to, size_t bytes, uint64_t which) {
  for (size_t i = 0; i < bytes; i++)
    to[i] = (unsigned char)hr__random_below((hr_random_key){.seed = 3}, which, i, 256);
}

static void test_parts(void **state) {
  (void)state;
  hr_disk disk;
  hr_error err = {0};
  must(hr__disk_open(&disk, HR_BINARY_DIR, 2 * ROOM, &err), &err);
  hr_disk_range range = {"value", ROOM, ROOM + BYTES};
  unsigned char *expected = calloc(1, BYTES), *got = malloc(BYTES);
  must(hr__disk_read(&disk, &range, 0, got, BYTES, &err), &err); /* never written: zeros */
  assert_memory_equal(got, expected, BYTES);
  static const size_t parts[][2] = {
      {0, BYTES},          {0, UNIT},          {UNIT, 2 * UNIT}, {5, 9},
      {UNIT - 3, 7},       {UNIT / 2, UNIT},   {5 * UNIT, 777},  {4 * UNIT + 1, UNIT + 776},
      {5 * UNIT + 776, 1}, {100, BYTES - 200}, {BYTES, 0}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    unsigned char *data = malloc(parts[i][1] + 1);
    bytes_fill(data, parts[i][1], i);
    memcpy(expected + parts[i][0], data, parts[i][1]);
    must(hr__disk_write(&disk, &range, parts[i][0], data, parts[i][1], &err), &err);
    must(hr__disk_read(&disk, &range, 0, got, BYTES, &err), &err);
    assert_memory_equal(got, expected, BYTES);
    must(hr__disk_read(&disk, &range, parts[i][0], data, parts[i][1], &err), &err);
    assert_memory_equal(data, expected + parts[i][0], parts[i][1]);
    free(data);
  }
  free(expected);
  free(got);
  hr__disk_close(&disk);
}

static void test_change_is_found(void **state) {
  (void)state;
  hr_disk disk;
  hr_error err = {0};
  must(hr__disk_open(&disk, HR_BINARY_DIR, ROOM, &err), &err);
  hr_disk_range range = {"adam.m.weight", 0, BYTES};
  unsigned char *data = malloc(BYTES);
  bytes_fill(data, BYTES, 0);
  must(hr__disk_write(&disk, &range, 0, data, BYTES, &err), &err);
  for (size_t at = 1; at < BYTES; at += UNIT) {
    unsigned char was = data[at], now = was ^ 4;
    assert_int_equal(pwrite(disk.fd, &now, 1, (off_t)at), 1);
    for (int way = 0; way < 3; way++) { /* whole, a part, a change of a part */
      hr_status status = way == 0   ? hr__disk_read(&disk, &range, 0, data, BYTES, &err)
                         : way == 1 ? hr__disk_read(&disk, &range, at - at % UNIT + 3, data, 2, &err)
                                    : hr__disk_write(&disk, &range, at - at % UNIT + 3, data, 2, &err);
      assert_int_equal(status, HR_IO);
      assert_non_null(strstr(err.message, "adam.m.weight"));
      bytes_fill(data, BYTES, 0);
    }
    assert_int_equal(pwrite(disk.fd, &was, 1, (off_t)at), 1);
  }
  must(hr__disk_read(&disk, &range, 0, data, BYTES, &err), &err);
  free(data);
  hr__disk_close(&disk);
}

static hr_file_calls real;
static int failing_allocate(int fd, int64_t bytes) {
  (void)fd, (void)bytes;
  return ENOSPC;
}
static long halving_pwrite(int fd, const void *data, size_t bytes, int64_t offset) {
  static int calls;
  if (calls++ % 3 == 0) {
    errno = EINTR;
    return -1;
  }
  return real.pwrite(fd, data, bytes > 1 ? bytes / 2 : 1, offset);
}
static long halving_pread(int fd, void *data, size_t bytes, int64_t offset) {
  return real.pread(fd, data, bytes > 1 ? bytes / 2 : 1, offset);
}

static void test_full_disk_is_found_at_the_start(void **state) {
  (void)state;
  hr_disk disk;
  hr_error err = {0};
  real = hr__file_calls;
  hr__file_calls.allocate = failing_allocate;
  assert_int_equal(hr__disk_open(&disk, HR_BINARY_DIR, ROOM, &err), HR_IO);
  hr__file_calls = real;
  hr__disk_close(&disk);
  assert_non_null(strstr(err.message, "disk space"));
  assert_non_null(strstr(err.remedy, "memory.offload_folder"));
}

static void test_short_writes_go_on(void **state) {
  (void)state;
  hr_disk disk;
  hr_error err = {0};
  must(hr__disk_open(&disk, HR_BINARY_DIR, ROOM, &err), &err);
  hr_disk_range range = {"value", 0, BYTES};
  unsigned char *data = malloc(BYTES), *got = malloc(BYTES);
  bytes_fill(data, BYTES, 0);
  real = hr__file_calls;
  hr__file_calls.pwrite = halving_pwrite;
  hr__file_calls.pread = halving_pread;
  must(hr__disk_write(&disk, &range, 0, data, BYTES, &err), &err);
  must(hr__disk_read(&disk, &range, 0, got, BYTES, &err), &err);
  hr__file_calls = real;
  assert_memory_equal(got, data, BYTES);
  free(data);
  free(got);
  hr__disk_close(&disk);
}

static void test_file_has_no_name(void **state) {
  (void)state;
  hr_disk disk;
  hr_error err = {0};
  char path[4096], name[64];
  must(hr__disk_open(&disk, HR_BINARY_DIR, ROOM, &err), &err);
  snprintf(name, sizeof name, "headroom-%ld-0.offload", (long)getpid());
  snprintf(path, sizeof path, "%s/%s", HR_BINARY_DIR, name);
  assert_int_equal(access(path, F_OK), -1);
  hr__disk_close(&disk);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_change_is_found),
      cmocka_unit_test(test_full_disk_is_found_at_the_start),
      cmocka_unit_test(test_short_writes_go_on),
      cmocka_unit_test(test_file_has_no_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
