/* f16: the functions that kernels use. */
#ifndef HR_TEST_CUDA_HOST_CUDA_FP16_H
#define HR_TEST_CUDA_HOST_CUDA_FP16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

struct __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

static inline float __half2float(__half h) {
  uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, exponent = h.bits >> 10 & 31, digits = h.bits & 0x3ff, word;
  if (exponent == 31)
    word = sign | 0x7f800000 | digits << 13;
  else if (exponent > 0)
    word = sign | (exponent + 112) << 23 | digits << 13;
  else {
    float value = (float)digits * 0x1p-24f;
    return sign ? -value : value;
  }
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* To the nearest, ties to even; every NaN becomes one. */
static inline __half __float2half_rn(float x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  float size = fabsf(x);
  if (x != x) return {0x7fff};
  if (size >= 65520.0f) return {(uint16_t)(sign | 0x7c00)};
  if (size < 0x1p-14f) return {(uint16_t)(sign | (uint16_t)rintf(size * 0x1p24f))}; /* 2^-14 itself comes out right */
  uint32_t word;
  memcpy(&word, &size, sizeof word);
  word += 0xfff + (word >> 13 & 1);
  return {(uint16_t)(sign | ((word >> 13) - (112 << 10)))};
}

static inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
static inline __half __ushort_as_half(unsigned short bits) {
  return {bits};
}

#endif
