/* The formula of swiglu on CUDA: silu(gate) * up. */
#ifndef HR_OP_SWIGLU_CUH
#define HR_OP_SWIGLU_CUH

#include "dev/cuda/launch.cuh"

/* 1 / (1 + exp(-g)): for 16-bit results what the hardware has is near enough. */
template <typename T> __device__ inline float sigmoid(float g) {
  return __fdividef(1.0f, 1.0f + __expf(-g));
}
template <> __device__ inline float sigmoid<float>(float g) {
  return 1.0f / (1.0f + expf(-g));
}

template <typename T> __device__ inline float swiglu_of(float gate, float up) {
  return up * (gate * sigmoid<T>(gate));
}

#endif
