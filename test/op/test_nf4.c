/* NF4 packing on blocks made by hand: levels and thresholds, ties, zeros, short and tiny blocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dynamic8.h"
#include "op/nf4.h"

static unsigned code_at(const uint8_t *codes, int i) {
  return i % 2 ? codes[i / 2] & 15u : codes[i / 2] >> 4;
}

/* Every level times a scale gets its own code back; the first element of a byte is in the high nibble. */
static void test_levels(void **state) {
  (void)state;
  float w[64] = {0}, scale[1];
  uint8_t codes[32];
  for (int i = 0; i < 16; i++)
    w[i] = hr_nf4_levels[i] * 4.0f;
  hr__nf4_scales(w, 64, scale);
  hr__nf4_codes(w, 64, scale, codes);
  assert_true(scale[0] == 4.0f);
  for (int i = 0; i < 64; i++)
    assert_int_equal(code_at(codes, i), i < 16 ? i : 7);
  assert_int_equal(codes[0], 0x01);
  assert_int_equal(codes[7], 0xef);
}

/* On a threshold the lower level is taken, just above it the upper one. */
static void test_thresholds(void **state) {
  (void)state;
  static const float limits[15] = {
      -0.8480964004993439f,  -0.6106329262256622f,   -0.4599952697753906f, -0.33967943489551544f, -0.23460740596055984f,
      -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,   0.2035212516784668f,
      0.2920137718319893f,   0.3893125355243683f,    0.5016634166240692f,  0.6427869200706482f,   0.8614784181118011f};
  float w[31] = {1.0f}, scale[1];
  uint8_t codes[16];
  for (int i = 0; i < 15; i++) {
    w[1 + 2 * i] = limits[i];
    w[2 + 2 * i] = nextafterf(limits[i], 2.0f);
  }
  hr__nf4_scales(w, 31, scale);
  hr__nf4_codes(w, 31, scale, codes);
  assert_int_equal(code_at(codes, 0), 15);
  for (int i = 0; i < 15; i++) {
    assert_int_equal(code_at(codes, 1 + 2 * i), i);
    assert_int_equal(code_at(codes, 2 + 2 * i), i + 1);
  }
  assert_int_equal(code_at(codes, 31), 7); /* beyond the end: zero */
}

/* Blocks of zeros, and scales too small to have a reciprocal, make no NaN. */
static void test_zeros(void **state) {
  (void)state;
  float w[130] = {0}, scale[3];
  uint8_t codes[65];
  w[64] = 1e-41f;
  w[65] = -1e-41f;
  w[128] = -2.0f;
  w[129] = 1.0f;
  hr__nf4_scales(w, 130, scale);
  hr__nf4_codes(w, 130, scale, codes);
  assert_true(scale[0] == 0.0f && scale[1] == 1e-41f && scale[2] == 2.0f);
  for (int i = 0; i < 32; i++)
    assert_int_equal(codes[i], 0x77);
  assert_int_equal(codes[32], 0xf0);
  for (int i = 33; i < 64; i++)
    assert_int_equal(codes[i], 0x77);
  assert_int_equal(codes[64], 0x0c); /* -1 is level 0; 0.5 lies between levels 12 and 13, nearer to the first */
}

/* Scales around their mean; equal scales leave nothing to store. */
static void test_nested(void **state) {
  (void)state;
  const float scales[4] = {1.0f, 2.0f, 3.0f, 2.5f}, same[3] = {1.5f, 1.5f, 1.5f};
  const float *code = hr__dynamic8_signed();
  uint8_t codes[4];
  float largest;
  hr__nf4_nest(scales, 4, 2.0f, codes, &largest);
  assert_true(largest == 1.0f);
  assert_int_equal(codes[0], 0); /* -1 is not in the code: the nearest is the first */
  assert_int_equal(codes[1], HR_DYNAMIC8_ZERO);
  assert_int_equal(codes[2], 255);
  assert_true(fabsf(code[codes[3]] - 0.5f) < 0.008f);
  hr__nf4_nest(same, 3, 1.5f, codes, &largest);
  assert_true(largest == 0.0f);
  for (int i = 0; i < 3; i++)
    assert_int_equal(codes[i], HR_DYNAMIC8_ZERO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_zeros),
      cmocka_unit_test(test_nested),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
