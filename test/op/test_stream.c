/* Blocks of 16-bit floats as streams load and store them, by the vector code that kernels get: held against plain
 * conversions, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/stream.h"

static uint32_t bits_of(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static float float_of(uint32_t word) {
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* f16 case by case. */
static uint32_t f16_widened(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0);
  if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
  return sign | bits_of((float)fraction * 0x1p-24f);
}

static uint16_t f16_narrowed(uint32_t word) {
  uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
  if (magnitude >= 0x38800000) return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
  /* Subnormal: in units of 2^-24, to nearest even. */
  double units = (double)float_of(magnitude) * 0x1p24;
  uint32_t whole = (uint32_t)units;
  double rest = units - (double)whole;
  whole += rest > 0.5 || (rest == 0.5 && (whole & 1));
  return (uint16_t)(sign | whole);
}

HR_CLONES static void block_load(const hr_tensor *tensor, int64_t at, int64_t n, float *to) {
  const float *block = hr__load(tensor, at, n, to);
  if (block != to) memcpy(to, block, (size_t)n * sizeof *to);
}

HR_CLONES static void block_store(const hr_tensor *tensor, int64_t at, int64_t n, const float *from) {
  hr__store(tensor, at, n, from);
}

HR_CLONES static void block_round(hr_dtype dtype, int64_t n, float *block) {
  hr__round(dtype, n, block);
}

static void test_f16_loads_exactly(void **state) {
  enum { ALL = 0x10000, ODD = 1021 };
  static uint16_t halves[ALL];
  static float floats[ALL];
  (void)state;
  for (int i = 0; i < ALL; i++)
    halves[i] = (uint16_t)i;
  hr_tensor tensor = {.data = halves, .desc = {HR_F16, 1, {ALL}}};
  for (int64_t at = 0; at < ALL; at += ODD)
    block_load(&tensor, at, hr__min(ODD, ALL - at), floats + at);
  for (int i = 0; i < ALL; i++)
    assert_int_equal(bits_of(floats[i]), f16_widened((uint16_t)i));
}

/* Every exponent with fractions around all roundings, both signs, and NaN. */
static void test_f16_stores_to_nearest_even(void **state) {
  enum { N = HR_BLOCK - 3 };
  float block[N];
  uint16_t halves[N];
  hr_tensor tensor = {.data = halves, .desc = {HR_F16, 1, {N}}};
  uint32_t state_word = 1;
  (void)state;
  for (uint32_t round = 0; round < 1u << 12; round++) {
    for (int i = 0; i < N; i++) {
      state_word = state_word * 1664525u + 1013904223u;
      uint32_t word = state_word ^ state_word >> 15;
      if (i % 3 == 0) word &= 0xfffff000u;                       /* ties and exact values are common then */
      if (i % 2 == 0) word = (word & 0x87ffffffu) | 0x38000000u; /* the range of f16 */
      block[i] = float_of(word);
    }
    block_store(&tensor, 0, N, block);
    for (int i = 0; i < N; i++)
      if (halves[i] != f16_narrowed(bits_of(block[i])))
        fail_msg("%08x becomes %04x instead of %04x", bits_of(block[i]), halves[i], f16_narrowed(bits_of(block[i])));
  }
}

static void test_rounding_is_store_and_load(void **state) {
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F16};
  (void)state;
  for (int d = 0; d < 3; d++) {
    float block[100], stored[100];
    float there[100];
    hr_tensor tensor = {.data = there, .desc = {dtypes[d], 1, {100}}};
    for (int i = 0; i < 100; i++)
      block[i] = stored[i] = 1e-4f * (float)(i * i * i) - 7.3f;
    float *target = hr__target(&tensor, 0, stored);
    if (target != stored) memcpy(target, stored, sizeof stored);
    block_store(&tensor, 0, 100, stored);
    block_load(&tensor, 0, 100, stored);
    block_round(dtypes[d], 100, block);
    assert_memory_equal(block, stored, sizeof block);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f16_loads_exactly),
      cmocka_unit_test(test_f16_stores_to_nearest_even),
      cmocka_unit_test(test_rounding_is_store_and_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
