/* The dynamic 8-bit codes: their values, and nearest by the plain search over all of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dynamic8.h"

static void test_values(void **state) {
  const float *with_sign = hr__dynamic8_signed(), *without = hr__dynamic8_unsigned();
  (void)state;
  for (int i = 1; i < 256; i++)
    assert_true(with_sign[i] > with_sign[i - 1] && without[i] > without[i - 1]);
  assert_true(with_sign[0] == -0.99296875f && with_sign[127] == 0.0f && with_sign[128] == 5.5e-7f);
  assert_true(with_sign[254] == 0.99296875f && with_sign[255] == 1.0f);
  for (int k = 1; k < 128; k++)
    assert_true(with_sign[127 + k] == -with_sign[127 - k]);
  assert_true(without[0] == 0.0f && without[1] == 3.25e-7f && without[2] == 7.75e-7f);
  assert_true(without[253] == 0.989453125f && without[254] == 0.996484375f && without[255] == 1.0f);
}

static void nearest_compare(const float *code, float x) {
  int nearest = 0;
  for (int i = 1; i < 256; i++)
    if (x > (code[i - 1] + code[i]) * 0.5f) nearest = i;
  assert_int_equal(hr__dynamic8_encode(code, x), nearest);
}

static void test_nearest(void **state) {
  const float *codes[] = {hr__dynamic8_signed(), hr__dynamic8_unsigned()};
  (void)state;
  for (int c = 0; c < 2; c++) {
    for (int i = 0; i < 256; i++) {
      assert_int_equal(hr__dynamic8_encode(codes[c], codes[c][i]), i);
      float middle = i < 255 ? (codes[c][i] + codes[c][i + 1]) * 0.5f : 2.0f;
      nearest_compare(codes[c], middle);
      nearest_compare(codes[c], nextafterf(middle, 2.0f));
      nearest_compare(codes[c], nextafterf(middle, -2.0f));
    }
    nearest_compare(codes[c], -1.0f);
    assert_int_equal(hr__dynamic8_encode(codes[c], INFINITY), 255);
    assert_int_equal(hr__dynamic8_encode(codes[c], NAN), 0);
  }
}

/* Through bins: the same index for every size around every midpoint, and over all of them in small steps. */
static int steps_of(const hr_dynamic8_bins *bins, float size, int mirrored) {
  const hr_dynamic8_entry *entry = &bins->entry[hr__dynamic8_bin(size)];
  return entry->start + hr__dynamic8_above(size, entry->middle, mirrored);
}

static void steps_compare(float size) {
  int below = steps_of(hr__dynamic8_signed_bins(), size, 1);
  assert_int_equal(127 + steps_of(hr__dynamic8_signed_bins(), size, 0),
                   hr__dynamic8_encode(hr__dynamic8_signed(), size));
  assert_int_equal(127 - (below > 127 ? 127 : below), hr__dynamic8_encode(hr__dynamic8_signed(), -size));
  assert_int_equal(steps_of(hr__dynamic8_unsigned_bins(), size, 0), hr__dynamic8_encode(hr__dynamic8_unsigned(), size));
}

static void test_bins(void **state) {
  const float *codes[] = {hr__dynamic8_signed() + 127, hr__dynamic8_unsigned()};
  (void)state;
  for (int c = 0; c < 2; c++) {
    for (int i = 0; i < (c ? 255 : 128); i++) {
      float middle = (codes[c][i] + codes[c][i + 1]) * 0.5f;
      steps_compare(middle);
      steps_compare(nextafterf(middle, 1.0f));
      steps_compare(nextafterf(middle, 0.0f));
    }
  }
  for (float size = 1.0f; size > 1e-9f; size *= 0.99997f)
    steps_compare(size);
  steps_compare(0.0f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_nearest),
      cmocka_unit_test(test_bins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
