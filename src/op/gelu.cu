/* gelu and its backward op on CUDA. */
#include "dev/cuda/map.cuh"
#include "op/gelu.cuh"
extern "C" {
#include "op/gelu.h"
}

__device__ inline float normal_part(float x) {
  return 0.5f * erfcf(-0.707106781f * x);
}

template <bool TANH> struct gelu_map {
  __device__ void operator()(const float *x, float *y) const {
    y[0] = x[0] * (TANH ? tanh_part(x[0]) : normal_part(x[0]));
  }
};

/* dy, x -> dx */
template <bool TANH> struct gelu_bwd_map {
  __device__ void operator()(const float *in, float *out) const {
    float x = in[1];
    out[0] = in[0] * (TANH ? tanh_slope(x, tanh_part(x)) : normal_part(x) + 0.398942280f * x * expf(-0.5f * x * x));
  }
};

static bool by_tanh(const hr_call *call) {
  return ((const hr_gelu_args *)call->args)->tanh;
}

static hr_status gelu_run(const hr_call *call) {
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return by_tanh(call) ? map_run<T, T, 1, 1>(call, gelu_map<true>()) : map_run<T, T, 1, 1>(call, gelu_map<false>());
  });
}

static hr_status gelu_bwd_run(const hr_call *call) {
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return by_tanh(call) ? map_run<T, T, 2, 1>(call, gelu_bwd_map<true>())
                         : map_run<T, T, 2, 1>(call, gelu_bwd_map<false>());
  });
}

#define EVERY_TYPE(IN, MAP)                                                                                            \
  (const void *)map_kernel<float, float, IN, 1, MAP>, (const void *)map_kernel<bf16, bf16, IN, 1, MAP>,                \
      (const void *)map_kernel<f16, f16, IN, 1, MAP>

extern "C" const hr_cuda_launcher hr_cuda_gelu = {{nullptr, nullptr, gelu_run},
                                                  {EVERY_TYPE(1, gelu_map<true>), EVERY_TYPE(1, gelu_map<false>)}};
extern "C" const hr_cuda_launcher hr_cuda_gelu_bwd = {
    {nullptr, nullptr, gelu_bwd_run}, {EVERY_TYPE(2, gelu_bwd_map<true>), EVERY_TYPE(2, gelu_bwd_map<false>)}};
