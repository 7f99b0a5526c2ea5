/* add on CUDA. */
#include "dev/cuda/map.cuh"
extern "C" {
#include "op/add.h"
}

struct add_map {
  float alpha;
  __device__ void operator()(const float *x, float *y) const { y[0] = x[0] + alpha * x[1]; }
};

static hr_status add_run(const hr_call *call) {
  add_map map = {((const hr_add_args *)call->args)->alpha};
  return by_dtype(call->out[0].desc.dtype, [&](auto t) { return map_run<decltype(t), decltype(t), 2, 1>(call, map); });
}

extern "C" const hr_cuda_launcher hr_cuda_add = {{nullptr, nullptr, add_run},
                                                 {(const void *)map_kernel<float, float, 2, 1, add_map>,
                                                  (const void *)map_kernel<bf16, bf16, 2, 1, add_map>,
                                                  (const void *)map_kernel<f16, f16, 2, 1, add_map>}};
