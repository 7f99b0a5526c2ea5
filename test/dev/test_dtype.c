/* Element types: every half-precision number both ways, rounding to nearest even, sizes of descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "dev/kernel.h"

static void f16_round_trip(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    float value = hr__f16_to_f32((uint16_t)bits);
    uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    uint16_t back = hr__f32_to_f16(value);
    if (exponent == 0x1f && fraction) {
      assert_true(isnan(value));
      assert_int_equal(back & 0x7e00, 0x7e00);
      continue;
    }
    double expected = exponent == 0x1f ? INFINITY
                      : exponent       ? ldexp(1024 + fraction, (int)exponent - 25)
                                       : ldexp(fraction, -24);
    assert_true((double)fabsf(value) == expected && !signbit(value) == !(bits & 0x8000));
    assert_int_equal(back, bits);
  }
}

/* Between two neighbours everything below the middle goes down, above goes up, the middle to the even one. */
static void f16_rounding(void **state) {
  (void)state;
  for (uint16_t bits = 0; bits < 0x7bff; bits++) {
    float low = hr__f16_to_f32(bits), high = hr__f16_to_f32((uint16_t)(bits + 1)), middle = low + (high - low) / 2;
    assert_int_equal(hr__f32_to_f16(middle), bits & 1 ? bits + 1 : bits);
    assert_int_equal(hr__f32_to_f16(nextafterf(middle, 0)), bits);
    assert_int_equal(hr__f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
    assert_int_equal(hr__f32_to_f16(-middle), (bits & 1 ? bits + 1 : bits) | 0x8000);
  }
  assert_int_equal(hr__f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(hr__f32_to_f16(65520), 0x7c00);
  assert_int_equal(hr__f32_to_f16(1e30f), 0x7c00);
  assert_int_equal(hr__f32_to_f16(1e-30f), 0);
}

static void bf16(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    float value = hr__bf16_to_f32((uint16_t)bits);
    if (isnan(value))
      assert_true(isnan(hr__bf16_to_f32(hr__f32_to_bf16(value))));
    else
      assert_int_equal(hr__f32_to_bf16(value), bits);
  }
  assert_int_equal(hr__f32_to_bf16(1.00390625f), 0x3f80);   /* 1 + 2^-8: half way, to even */
  assert_int_equal(hr__f32_to_bf16(1.01171875f), 0x3f82);   /* 1 + 3 x 2^-8 */
  assert_int_equal(hr__f32_to_bf16(3.4028235e38f), 0x7f80); /* above the largest: infinity */
}

static void descriptions(void **state) {
  (void)state;
  hr_desc matrix = {.dtype = HR_BF16, .rank = 3, .dim = {2, 3, 5}}, scalar = {.dtype = HR_F32, .rank = 1, .dim = {1}};
  assert_int_equal(hr_desc_count(&matrix), 30);
  assert_int_equal(hr_desc_bytes(&matrix), 60);
  assert_int_equal(hr_desc_rows(&matrix), 6);
  assert_int_equal(hr_desc_columns(&matrix), 5);
  assert_int_equal(hr_desc_rows(&scalar), 1);
  assert_false(hr_desc_same_shape(&matrix, &scalar));
  hr_desc other = matrix;
  other.dtype = HR_F32;
  assert_true(hr_desc_same_shape(&matrix, &other));
  other.dim[1] = 4;
  assert_false(hr_desc_same_shape(&matrix, &other));
  hr_desc absent = {.dtype = HR_F32};
  assert_int_equal(hr_desc_count(&absent), 1);
  assert_int_equal(hr_desc_columns(&absent), 1);
  hr_desc empty = {.dtype = HR_F32, .rank = 3, .dim = {INT64_MAX, INT64_MAX, 0}};
  assert_int_equal(hr_desc_bytes(&empty), 0);
  hr_desc vast = {.dtype = HR_F64, .rank = 2, .dim = {INT64_MAX, 9}};
  assert_true(hr_desc_count(&vast) == INT64_MAX);
  assert_true(hr_desc_bytes(&vast) == SIZE_MAX);
  assert_string_equal(hr_dtype_name(HR_BF16), "bf16");
  assert_int_equal(hr_dtype_bytes(HR_I64), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f16_round_trip),
      cmocka_unit_test(f16_rounding),
      cmocka_unit_test(bf16),
      cmocka_unit_test(descriptions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
