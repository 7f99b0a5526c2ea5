/* Two numbers of a 16-bit type in a register, as matrix instructions take them. */
#ifndef HR_DEV_CUDA_PAIR_CUH
#define HR_DEV_CUDA_PAIR_CUH

#include "dev/cuda/launch.cuh"

/* Two floats as neighbours in memory: the first one in the low half. */
__device__ inline uint32_t pair_of(bf16, float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *(uint32_t *)&pair;
}
__device__ inline uint32_t pair_of(f16, float low, float high) {
  __half2 pair = __floats2half2_rn(low, high);
  return *(uint32_t *)&pair;
}

/* The two numbers of a register. bf16 is the upper half of f32: an instruction each. */
__device__ inline float2 numbers_of(bf16, uint32_t word) {
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
__device__ inline float2 numbers_of(f16, uint32_t word) {
  pack<f16, 2> both;
  memcpy(&both, &word, sizeof both);
  return make_float2(to_float(both.value[0]), to_float(both.value[1]));
}

/* All numbers of a pack, by registers: elements taken out of it one by one would cost an instruction more each. */
template <typename T, int N> __device__ inline void pack_floats(const pack<T, N> &from, float *to) {
  uint32_t words[N / 2];
  memcpy(words, &from, sizeof words);
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    float2 both = numbers_of(T(), words[i]);
    to[2 * i] = both.x, to[2 * i + 1] = both.y;
  }
}

/* Rounds each to T, two by one instruction: a single number goes through a unit that takes four times as long. */
template <typename T, int N> __device__ inline void round_pairs(float (&x)[N]) {
#pragma unroll
  for (int e = 0; e < N; e += 2) {
    float2 both = numbers_of(T(), pair_of(T(), x[e], x[e + 1]));
    x[e] = both.x, x[e + 1] = both.y;
  }
}

#endif
