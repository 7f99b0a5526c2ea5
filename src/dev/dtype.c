/* Element types: see dev/dtype.h. */
#include "dev/dtype.h"

static const struct {
  const char *name;
  size_t bytes;
} dtypes[HR_DTYPE_COUNT] = {
#define HR_DTYPE_ROW(code, name, file_name, bytes) [code] = {name, bytes},
    HR_DTYPE_MAP(HR_DTYPE_ROW)
#undef HR_DTYPE_ROW
};

size_t hr_dtype_bytes(hr_dtype dtype) {
  return (unsigned)dtype < HR_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *hr_dtype_name(hr_dtype dtype) {
  return (unsigned)dtype < HR_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

float hr__f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  uint32_t word;
  if (exponent == 0x1f) {
    word = 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0); /* infinity, or NaN made quiet */
  } else if (exponent) {
    word = (exponent + 112) << 23 | fraction << 13;
  } else {
    float value = (float)fraction * 0x1p-24f; /* zero and subnormals: exact */
    memcpy(&word, &value, sizeof word);
  }
  word |= sign;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

uint16_t hr__f32_to_f16(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff)); /* NaN */
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
  if (magnitude >= 0x38800000) {                                 /* normal: re-bias, round to nearest even at bit 13 */
    uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
  }
  /* Subnormal: adding 0.5 puts units of 2^-24 into the low bits of the sum, rounded by the addition itself. */
  float shifted;
  memcpy(&shifted, &magnitude, sizeof shifted);
  shifted += 0.5f;
  uint32_t low;
  memcpy(&low, &shifted, sizeof low);
  return (uint16_t)(sign | (low - 0x3f000000));
}
