/* Elementary functions as straight-line code that compilers turn into vector instructions. */
#ifndef HR_BASE_SIMD_MATH_H
#define HR_BASE_SIMD_MATH_H

#include <stdint.h>
#include <string.h>

/* 2^k for -126 <= k <= 127. */
static inline float hr__exp2i(int32_t k) {
  uint32_t bits = (uint32_t)(k + 127) << 23;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* e^x within 2 ulp. Results below the smallest normal number are 0 (denormals are slow), above the largest inf; NaN
 * stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2, e^r by a polynomial, 2^n in two factors since n reaches 128. */
static inline float hr__expf(float x) {
  const float lowest = -87.33654f, highest = 89.0f, to_integer = 12582912.0f; /* 1.5 * 2^23: adding it rounds */
  float clamped = x < lowest ? lowest : x;
  clamped = clamped > highest ? highest : clamped;
  float shifted = clamped * 1.44269504f + to_integer;
  float n = shifted - to_integer;
  float r = clamped - n * 0.693145752f; /* ln 2 = 0.693145752 (few bits: n times it is exact) + 1.42860677e-6 */
  r = r - n * 1.42860677e-6f;
  float p = 1.392621347e-3f;
  p = p * r + 8.363202972e-3f;
  p = p * r + 4.166655444e-2f;
  p = p * r + 1.666657685e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  int32_t k = (int32_t)(bits - 0x4b400000u); /* n as an integer: the low bits of `shifted` */
  int32_t half = k >> 1;
  float result = p * hr__exp2i(half) * hr__exp2i(k - half);
  return x < lowest ? 0.0f : result;
}

#endif
