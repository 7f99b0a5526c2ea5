/* bf16 and pairs of it: the functions that kernels use, of which each has one correctly rounded result. */
#ifndef HR_TEST_CUDA_HOST_CUDA_BF16_H
#define HR_TEST_CUDA_HOST_CUDA_BF16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x) {
  uint32_t word = (uint32_t)x.bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}
/* To the nearest, ties to even; every NaN becomes one. */
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  if (x != x) return {0x7fff};
  return {(uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16)};
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline __nv_bfloat162 __float2bfloat162_rn(float x) {
  return __floats2bfloat162_rn(x, x);
}
static inline float __low2float(__nv_bfloat162 a) {
  return __bfloat162float(a.x);
}

namespace emulated {
/* f32 has more than twice the digits and two: rounded again, sums and products are what rounding once gives. */
template <typename F> static inline __nv_bfloat162 pair_map(__nv_bfloat162 a, __nv_bfloat162 b, const F &f) {
  return __floats2bfloat162_rn(f(__bfloat162float(a.x), __bfloat162float(b.x)),
                               f(__bfloat162float(a.y), __bfloat162float(b.y)));
}
static inline float larger(float a, float b) {
  return a > b || (a == b && signbit(b)) ? a : b;
}
static inline float smaller(float a, float b) {
  return a < b || (a == b && signbit(a)) ? a : b;
}
} // namespace emulated

static inline __nv_bfloat162 __hadd2_rn(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x + y; });
}
static inline __nv_bfloat162 __hsub2_rn(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x - y; });
}
static inline __nv_bfloat162 __hmul2_rn(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x * y; });
}
/* A NaN gives way to a number; two of them stay one. -0 is below +0. */
static inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x != x ? y : y != y ? x : emulated::larger(x, y); });
}
/* A NaN stays one. */
static inline __nv_bfloat162 __hmax2_nan(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x != x || y != y ? NAN : emulated::larger(x, y); });
}
static inline __nv_bfloat162 __hmin2_nan(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x != x || y != y ? NAN : emulated::smaller(x, y); });
}
/* 1 where a is above b, 0 where it is not. */
static inline __nv_bfloat162 __hgt2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return emulated::pair_map(a, b, [](float x, float y) { return x > y ? 1.0f : 0.0f; });
}

#endif
