/* gelu and its backward op on CUDA. What stands behind them may go along: dropout (op/dropout.cu), the backward op of
 * an adapter (op/lora_up_match.cuh). */
#include "dev/cuda/map.cuh"
#include "op/gelu.cuh"
extern "C" {
#include "op/dropout_take.h"
#include "op/gelu.h"
#include "op/lora_up_take.h"
}

template <typename T, bool TANH> struct gelu_map {
  __device__ void operator()(const float *x, float *y) const { y[0] = gelu_of<T, TANH>(x[0]); }
};

/* dy, x -> dx */
template <typename T, bool TANH> struct gelu_bwd_map {
  __device__ void operator()(const float *in, float *out) const { out[0] = in[0] * gelu_slope<T, TANH>(in[1]); }
};

static bool by_tanh(const hr_call *call) {
  return ((const hr_gelu_args *)call->args)->tanh;
}

static hr_status gelu_run(const hr_call *call) {
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return by_tanh(call) ? map_run<T, T, 1, 1>(call, gelu_map<T, true>())
                         : map_run<T, T, 1, 1>(call, gelu_map<T, false>());
  });
}

static hr_status gelu_bwd_run(const hr_call *call) {
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return by_tanh(call) ? map_run<T, T, 2, 1>(call, gelu_bwd_map<T, true>())
                         : map_run<T, T, 2, 1>(call, gelu_bwd_map<T, false>());
  });
}

#define EVERY_TYPE(IN, MAP, TANH)                                                                                      \
  (const void *)map_kernel<float, float, IN, 1, MAP<float, TANH>>,                                                     \
      (const void *)map_kernel<bf16, bf16, IN, 1, MAP<bf16, TANH>>,                                                    \
      (const void *)map_kernel<f16, f16, IN, 1, MAP<f16, TANH>>

extern "C" const hr_cuda_launcher hr_cuda_gelu = {{nullptr, nullptr, gelu_run},
                                                  {EVERY_TYPE(1, gelu_map, true), EVERY_TYPE(1, gelu_map, false)},
                                                  nullptr,
                                                  hr__gelu_dropout_take};
extern "C" const hr_cuda_launcher hr_cuda_gelu_bwd = {
    {nullptr, nullptr, gelu_bwd_run},
    {EVERY_TYPE(2, gelu_bwd_map, true), EVERY_TYPE(2, gelu_bwd_map, false)},
    nullptr,
    hr__lora_bwd_take};
