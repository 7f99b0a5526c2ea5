/* CUDA's runtime on the CPU: of its language and its functions those that the plug-in uses, with the meaning that
 * NVIDIA's manuals give them. Streams do at once what they are given, but for what they are given while they are
 * captured (runtime.cpp). */
#ifndef HR_TEST_CUDA_HOST_CUDA_RUNTIME_H
#define HR_TEST_CUDA_HOST_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>
#include <type_traits>

#include "block.h"
#include "coordinates.h"
#include "statics.h" /* __shared__ */

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define CUDART_CB
#define CUDART_VERSION 12040

/* ---- types ---- */

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
static inline float2 make_float2(float x, float y) {
  return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

/* ---- what a thread can do ---- */

static inline void __syncthreads(void) {
  emulated::barrier();
}

namespace emulated {

struct arrived {
  uint32_t *together; /* lanes that have come */
};
static inline void arrive_all(void *const *lanes) {
  uint32_t together = 0;
  for (int lane = 0; lane < LANES; lane++)
    together |= (uint32_t)(lanes[lane] != nullptr) << lane;
  for (int lane = 0; lane < LANES; lane++)
    if (lanes[lane]) *((arrived *)lanes[lane])->together = together;
}

template <typename T> struct given {
  T value, taken;
  int from; /* lane */
};
/* What is taken of a lane that is not there is poison. */
template <typename T> static void take_all(void *const *lanes) {
  for (int lane = 0; lane < LANES; lane++) {
    given<T> *to = (given<T> *)lanes[lane];
    if (!to) continue;
    const given<T> *from = (const given<T> *)lanes[to->from];
    if (from)
      to->taken = from->value;
    else
      memset(&to->taken, POISON, sizeof to->taken);
  }
}
template <typename T> static T lane_take(uint32_t mask, T value, int from) {
  given<T> mine = {value, value, from};
  meet(mask, take_all<T>, &mine);
  return mine.taken;
}

/* The lane to take from: `wanted` within its segment of `width` lanes, or the lane itself where that lies outside. */
static inline int lane_of(int wanted, int width) {
  int own = (int)lane_number(), begin = own / width * width;
  return wanted >= begin && wanted < begin + width ? wanted : own;
}

template <typename T> struct voted {
  T value;
  uint32_t result;
};
template <typename T> static void match_all(void *const *lanes) {
  for (int lane = 0; lane < LANES; lane++) {
    voted<T> *mine = (voted<T> *)lanes[lane];
    if (!mine) continue;
    mine->result = 0;
    for (int other = 0; other < LANES; other++)
      if (lanes[other] && ((voted<T> *)lanes[other])->value == mine->value) mine->result |= 1u << other;
  }
}
static inline void ballot_all(void *const *lanes) {
  uint32_t result = 0;
  for (int lane = 0; lane < LANES; lane++)
    if (lanes[lane] && ((voted<bool> *)lanes[lane])->value) result |= 1u << lane;
  for (int lane = 0; lane < LANES; lane++)
    if (lanes[lane]) ((voted<bool> *)lanes[lane])->result = result;
}
static inline void largest_all(void *const *lanes) {
  uint32_t result = 0;
  for (int lane = 0; lane < LANES; lane++)
    if (lanes[lane] && ((voted<uint32_t> *)lanes[lane])->value > result)
      result = ((voted<uint32_t> *)lanes[lane])->value;
  for (int lane = 0; lane < LANES; lane++)
    if (lanes[lane]) ((voted<uint32_t> *)lanes[lane])->result = result;
}

} // namespace emulated

static inline void __syncwarp(uint32_t mask = ~0u) {
  uint32_t together;
  emulated::arrived mine = {&together};
  emulated::meet(mask, emulated::arrive_all, &mine);
}
template <typename T> static T __shfl_sync(uint32_t mask, T value, int lane, int width = 32) {
  int own = (int)emulated::lane_number();
  return emulated::lane_take(mask, value, own / width * width + ((lane % width) + width) % width);
}
template <typename T> static T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32) {
  int own = (int)emulated::lane_number(), wanted = own ^ bits;
  return emulated::lane_take(mask, value, wanted < own / width * width + width ? wanted : own);
}
template <typename T> static T __shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32) {
  return emulated::lane_take(mask, value, emulated::lane_of((int)(emulated::lane_number() + by), width));
}
template <typename T> static T __shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32) {
  return emulated::lane_take(mask, value, emulated::lane_of((int)emulated::lane_number() - (int)by, width));
}
template <typename T> static unsigned __match_any_sync(uint32_t mask, T value) {
  emulated::voted<T> mine = {value, 0};
  emulated::meet(mask, emulated::match_all<T>, &mine);
  return mine.result;
}
static inline unsigned __ballot_sync(uint32_t mask, bool value) {
  emulated::voted<bool> mine = {value, 0};
  emulated::meet(mask, emulated::ballot_all, &mine);
  return mine.result;
}
static inline int __any_sync(uint32_t mask, bool value) {
  return __ballot_sync(mask, value) != 0;
}
static inline unsigned __reduce_max_sync(uint32_t mask, unsigned value) {
  emulated::voted<uint32_t> mine = {value, 0};
  emulated::meet(mask, emulated::largest_all, &mine);
  return mine.result;
}

template <typename T> static T atomicAdd(T *to, T value) {
  T before = *to; /* no other thread runs */
  *to = before + value;
  return before;
}

template <typename T> static T __ldg(const T *from) {
  return *from;
}
template <typename T> static T __ldcs(const T *from) {
  return *from;
}
template <typename T> static void __stwb(T *to, T value) {
  *to = value;
}

/* ---- arithmetic ---- */

static inline float __uint_as_float(unsigned word) {
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}
static inline unsigned __float_as_uint(float value) {
  unsigned word;
  memcpy(&word, &value, sizeof word);
  return word;
}
/* The plug-in is compiled here without fused operations but these: each is rounded by itself. */
static inline float __fmul_rn(float a, float b) {
  return a * b;
}
static inline float __fadd_rn(float a, float b) {
  return a + b;
}
static inline float __fsub_rn(float a, float b) {
  return a - b;
}
static inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
static inline float __fdividef(float a, float b) {
  return fabsf(b) > 0x1p126f && !isinf(a) ? 0.0f * a : a / b; /* as documented: 0 for a divisor that large */
}
#define __expf(x) expf(x) /* a name that C's own library has as well */
static inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
static inline float normcdff(float x) {
  return 0.5f * erfcf(-0.707106781f * x);
}
static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline int __ffs(int x) {
  return __builtin_ffs(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((uint64_t)a * b >> 32);
}
/* Byte i of the result is byte (selector >> 4 i) & 7 of a and b behind it. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t both = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++)
    result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
/* 0xffff for each half of a that is not below that of b. */
static inline unsigned __vcmpgeu2(unsigned a, unsigned b) {
  return ((a & 0xffff) >= (b & 0xffff) ? 0xffffu : 0) | (a >> 16 >= b >> 16 ? 0xffff0000u : 0);
}
template <typename A, typename B> static constexpr std::common_type_t<A, B> min(A a, B b) {
  typedef std::common_type_t<A, B> T;
  return (T)b < (T)a ? (T)b : (T)a;
}
template <typename A, typename B> static constexpr std::common_type_t<A, B> max(A a, B b) {
  typedef std::common_type_t<A, B> T;
  return (T)a < (T)b ? (T)b : (T)a;
}

#include "runtime.h"

#endif
