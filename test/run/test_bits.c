/* See part_bits.h: on the CPU, in chains and at their ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "part_bits.h"

static void test_whole_vectors_and_rests(void **state) {
  (void)state;
  hr_error err = {0};
  hr_device *device;
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  bits_check(device, (1 << 16) + 1);
  bits_check(device, 331);
  hr__device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_vectors_and_rests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
