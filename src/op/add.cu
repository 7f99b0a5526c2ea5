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
  return call->out[0].desc.dtype == HR_F32 ? map_run<float, float, 2, 1>(call, map)
                                           : map_run<bf16, bf16, 2, 1>(call, map);
}

extern "C" const hr_cuda_launcher hr_cuda_add = {
    {nullptr, nullptr, add_run},
    {(const void *)map_kernel<float, float, 2, 1, add_map>, (const void *)map_kernel<bf16, bf16, 2, 1, add_map>}};
