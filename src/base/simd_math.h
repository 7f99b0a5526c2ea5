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

/* The largest whole number that is not above x. Numbers from 2^23 on are whole, NaN stays NaN. */
static inline float hr__floorf(float x) {
  float magnitude = x < 0.0f ? -x : x, small = magnitude < 8388608.0f ? x : 0.0f;
  float cut = (float)(int32_t)small;
  cut = cut > small ? cut - 1.0f : cut;
  return magnitude < 8388608.0f ? cut : x;
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

/* e^x - 1 with full relative accuracy near 0: as hr__expf, but the 1 of e^r joins the power of two. */
static inline float hr__expm1f(float x) {
  const float lowest = -87.33654f, highest = 89.0f, to_integer = 12582912.0f;
  float clamped = x < lowest ? lowest : x;
  clamped = clamped > highest ? highest : clamped;
  float shifted = clamped * 1.44269504f + to_integer;
  float n = shifted - to_integer;
  float r = clamped - n * 0.693145752f;
  r = r - n * 1.42860677e-6f;
  float p = 1.392621347e-3f;
  p = p * r + 8.363202972e-3f;
  p = p * r + 4.166655444e-2f;
  p = p * r + 1.666657685e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  int32_t k = (int32_t)(bits - 0x4b400000u);
  int32_t half = k >> 1;
  float first = hr__exp2i(half), second = hr__exp2i(k - half);
  return p * first * second + (first * second - 1.0f);
}

/* ln x within 2 ulp; -inf at 0, NaN below it, inf at inf. x = 2^k m with m within sqrt(2) of 1 on both sides; ln m =
 * 2 atanh(s), s = (m - 1) / (m + 1), by its series up to s^9 (the rest is below 2e-9 of it). Denormal numbers count as
 * the smallest normal one. */
static inline float hr__logf(float x) {
  float normal = x < 1.17549435e-38f ? 1.17549435e-38f : x;
  uint32_t bits;
  memcpy(&bits, &normal, sizeof bits);
  uint32_t from = bits - 0x3f3504f3u; /* sqrt(1/2) */
  float k = (float)((int32_t)from >> 23);
  uint32_t mantissa = (from & 0x007fffffu) + 0x3f3504f3u;
  float m;
  memcpy(&m, &mantissa, sizeof m);
  float s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
  float series = 2.0f / 9.0f;
  series = series * s2 + 2.0f / 7.0f;
  series = series * s2 + 2.0f / 5.0f;
  series = series * s2 + 2.0f / 3.0f;
  float ln = k * 1.42860677e-6f + s * s2 * series; /* ln 2 in two parts, as above; small things first */
  ln = (ln + 2.0f * s) + k * 0.693145752f;
  ln = x > 3.40282347e38f ? x : ln;
  ln = x == 0.0f ? -__builtin_inff() : ln;
  return x >= 0.0f ? ln : __builtin_nanf("");
}

/* ln(1 + x) with full relative accuracy near 0: what 1 + x loses in rounding is made good by x / ((1 + x) - 1). */
static inline float hr__log1pf(float x) {
  float u = 1.0f + x, d = u - 1.0f;
  float ln = hr__logf(u), near_zero = d == 0.0f ? 1.0f : d;
  float scaled = ln * (x / near_zero);
  scaled = u > 3.40282347e38f ? ln : scaled;
  return d == 0.0f ? x : scaled;
}

static inline float hr__sqrtf(float x) {
  return __builtin_sqrtf(x);
}

static inline float hr__tanhf(float x) {
  float magnitude = x < 0.0f ? -x : x, e = hr__expm1f(-2.0f * magnitude);
  float t = -e / (e + 2.0f);
  return x < 0.0f ? -t : t;
}

static inline float hr__sinhf(float x) {
  float magnitude = x < 0.0f ? -x : x, e = hr__expm1f(magnitude);
  float s = 0.5f * (e + e / (e + 1.0f));
  s = e > 1e37f ? 0.5f * e : s;
  return x < 0.0f ? -s : s;
}

static inline float hr__coshf(float x) {
  float e = hr__expf(x < 0.0f ? -x : x);
  return 0.5f * e + 0.5f / e;
}

static inline float hr__asinhf(float x) {
  float magnitude = x < 0.0f ? -x : x, square = magnitude * magnitude;
  float s = hr__log1pf(magnitude + square / (1.0f + hr__sqrtf(square + 1.0f)));
  s = magnitude > 1e18f ? hr__logf(magnitude) + 0.693147181f : s;
  return x < 0.0f ? -s : s;
}

static inline float hr__acoshf(float x) {
  float t = x - 1.0f, s = hr__log1pf(t + hr__sqrtf(t * (t + 2.0f)));
  return x > 1e18f ? hr__logf(x) + 0.693147181f : s;
}

/* Phi(-|x|) / exp(-x^2 / 2): a polynomial in (|x| - 4) / (|x| + 4), over |x| + 4. Within 3e-8 (relative) as long as the
 * exponential is a normal number. */
static inline float hr__normal_tail(float magnitude) {
  float over = 1.0f / (magnitude + 4.0f), s = (magnitude - 4.0f) * over;
  float p = -1.20184399e-4f;
  p = p * s + 2.01261733e-4f;
  p = p * s + 1.57231791e-3f;
  p = p * s - 3.52618378e-3f;
  p = p * s - 7.52925081e-3f;
  p = p * s + 6.04066886e-2f;
  p = p * s - 1.86522678e-1f;
  p = p * s + 3.87136698e-1f;
  p = p * s - 6.07896626e-1f;
  p = p * s + 7.55285144e-1f;
  return p * over;
}

/* Phi(x), the distribution function of the normal distribution, given e = exp(-x^2 / 2). */
static inline float hr__normal_part(float x, float e) {
  float tail = e * hr__normal_tail(x < 0.0f ? -x : x);
  return x > 0.0f ? 1.0f - tail : tail;
}

static inline float hr__normcdff(float x) {
  return hr__normal_part(x, hr__expf(-0.5f * x * x));
}

#endif
