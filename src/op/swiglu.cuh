/* The formulas of swiglu and geglu on CUDA: silu(gate) * up, gelu(gate) * up. */
#ifndef HR_OP_SWIGLU_CUH
#define HR_OP_SWIGLU_CUH

#include "dev/cuda/launch.cuh"
#include "op/gelu.cuh"

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

/* Gates: what of themselves they let through, s, and d times the slope of that product. */
template <typename T> struct silu_gate {
  __device__ static float part(float g) { return sigmoid<T>(g); }
  __device__ static float slope(float d, float g, float s) { return d * s * (1.0f + g * (1.0f - s)); }
};
template <typename T> struct gelu_gate {
  __device__ static float part(float g) { return tanh_part(g); }
  __device__ static float slope(float d, float g, float s) { return d * tanh_slope(g, s); }
};

#endif
