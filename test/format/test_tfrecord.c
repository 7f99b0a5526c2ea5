/* Checksums by their published value, records of a file of TensorBoard's own, and files that are damaged anywhere. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/protobuf.h"
#include "format/tfrecord.h"

static bool count_one(void *user, const unsigned char *data, size_t bytes) {
  hr_protobuf message = hr__protobuf(data, bytes);
  hr_protobuf_field field;
  while (hr__protobuf_next(&message, &field))
    continue;
  assert_false(message.damaged);
  ++*(int *)user;
  return true;
}

static void test_checksum(void **state) {
  (void)state;
  assert_int_equal(hr__crc32c("123456789", 9), 0xe3069283);
  assert_int_equal(hr__crc32c("", 0), 0);
}

static void test_file_of_tensorboard(void **state) {
  (void)state;
  unsigned char bytes[4096];
  int fd = open(HR_SOURCE_DIR "/test/golden/tensorboard.tfevents", O_RDONLY), seen = 0;
  ssize_t all = read(fd, bytes, sizeof bytes);
  uint64_t good;
  assert_true(all > 100);
  assert_int_equal(hr__tfrecord_scan(fd, "golden", 4096, count_one, &seen, &good, NULL), HR_OK);
  assert_int_equal(good, all);
  assert_int_equal(seen, 7); /* version, four scalars, texts, histogram */
  close(fd);

  /* What we would write around the same bytes is what TensorBoard has written. */
  size_t length = bytes[0];
  unsigned char head[HR_TFRECORD_HEAD], tail[HR_TFRECORD_TAIL];
  hr__tfrecord_head(length, head);
  hr__tfrecord_tail(bytes + HR_TFRECORD_HEAD, length, tail);
  assert_memory_equal(head, bytes, sizeof head);
  assert_memory_equal(tail, bytes + HR_TFRECORD_HEAD + length, sizeof tail);

  char path[] = "tfrecord-XXXXXX"; /* cut off anywhere, or with any byte changed, all before it is good */
  for (ssize_t at = 0; at < all; at++)
    for (int change = 0; change < 2; change++) {
      int copy = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
      unsigned char byte = bytes[at] ^ 0x10;
      assert_int_equal(write(copy, bytes, change ? (size_t)all : (size_t)at), change ? all : at);
      if (change) assert_int_equal(pwrite(copy, &byte, 1, at), 1);
      seen = 0;
      assert_int_equal(hr__tfrecord_scan(copy, path, 4096, count_one, &seen, &good, NULL), HR_OK);
      assert_true(good <= (uint64_t)at && seen < 7);
      close(copy);
    }
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_checksum), cmocka_unit_test(test_file_of_tensorboard)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
