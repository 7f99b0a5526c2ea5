/* What the GPU computes on two bf16 at once (op/pointwise_pairs.cuh) has the bits of the kernel for odd sizes, which
 * goes through f32, and of this machine's arithmetic. Skipped (77) without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../run/part_bits.h"

static hr_device *gpu; /* opened once by main */

static void test_pairs(void **state) {
  (void)state;
  bits_check(gpu, (1 << 16) + 1);
}

int main(void) {
  hr_error err = {0};
  if (hr__cuda_open(&gpu, &err) != HR_OK) {
    printf("skipped: %s\n", err.message);
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  hr__device_close(gpu);
  return failed;
}
