/* gelu and its slope on CUDA, by the normal distribution and by tanh (op/gelu_tanh.h). Whoever has a part of it, in a
 * kernel of its own or at the end of another op's, calls these functions: a result of type T has the same bits. */
#ifndef HR_OP_GELU_CUH
#define HR_OP_GELU_CUH

#include "dev/cuda/launch.cuh"

constexpr float TANH_SCALE = 1.59576912f, TANH_CUBE = 0.044715f;

__device__ inline float tanh_part(float x) {
  return 1.0f / (1.0f + expf(-TANH_SCALE * (x + TANH_CUBE * x * x * x)));
}

/* Of x times that part, s. */
__device__ inline float tanh_slope(float x, float s) {
  return s + x * s * (1.0f - s) * TANH_SCALE * (1.0f + 3.0f * TANH_CUBE * x * x);
}

/* Phi(x), and e = exp(-x^2 / 2), which stands in its slope as well. A result of 16 bits needs few of them: there the
 * tail comes from Abramowitz and Stegun 7.1.26, within 1.5e-7, and three approximate instructions. */
template <typename T> __device__ inline float normal_part(float x, float *e) {
  if constexpr (sizeof(T) == 4) {
    *e = expf(-0.5f * x * x);
    return 0.5f * erfcf(-0.707106781f * x);
  } else {
    *e = near_power_of_two(-0.72134752f * x * x);                 /* log2(e) / 2 */
    float t = near_reciprocal(fmaf(0.23164188f, fabsf(x), 1.0f)); /* 0.3275911 / sqrt(2) */
    float p = fmaf(t, 0.530702715f, -0.726576014f);
    p = fmaf(t, p, 0.710706871f);
    p = fmaf(t, p, -0.142248368f);
    p = fmaf(t, p, 0.127414796f);
    float tail = p * t * *e;
    return x > 0.0f ? 1.0f - tail : tail;
  }
}

template <typename T, bool TANH> __device__ inline float gelu_of(float x) {
  float e;
  return x * (TANH ? tanh_part(x) : normal_part<T>(x, &e));
}

template <typename T, bool TANH> __device__ inline float gelu_slope(float x) {
  if constexpr (TANH) return tanh_slope(x, tanh_part(x));
  float e, part = normal_part<T>(x, &e);
  return fmaf(0.398942280f * x, e, part); /* 1 / sqrt(2 pi) */
}

#endif
