/* The part of x that gelu by tanh lets through, and its slope, on CUDA: see op/gelu_tanh.h. */
#ifndef HR_OP_GELU_CUH
#define HR_OP_GELU_CUH

constexpr float TANH_SCALE = 1.59576912f, TANH_CUBE = 0.044715f;

__device__ inline float tanh_part(float x) {
  return 1.0f / (1.0f + expf(-TANH_SCALE * (x + TANH_CUBE * x * x * x)));
}

/* Of x times that part, s. */
__device__ inline float tanh_slope(float x, float s) {
  return s + x * s * (1.0f - s) * TANH_SCALE * (1.0f + 3.0f * TANH_CUBE * x * x);
}

#endif
