/* copy on CUDA: between float types, or as it is; times a factor. */
#include "dev/cuda/map.cuh"
extern "C" {
#include "op/copy.h"
}

struct copy_map {
  float factor;
  __device__ void operator()(const float *x, float *y) const { y[0] = factor * x[0]; }
};

static hr_status copy_run(const hr_call *call) {
  copy_map map = {((const hr_copy_args *)call->args)->factor};
  bool from_f32 = call->in[0].desc.dtype == HR_F32, to_f32 = call->out[0].desc.dtype == HR_F32;
  if (from_f32 && to_f32) return map_run<float, float, 1, 1>(call, map);
  if (from_f32) return map_run<float, bf16, 1, 1>(call, map);
  if (to_f32) return map_run<bf16, float, 1, 1>(call, map);
  return map_run<bf16, bf16, 1, 1>(call, map);
}

extern "C" const hr_cuda_launcher hr_cuda_copy = {
    {nullptr, nullptr, copy_run},
    {(const void *)map_kernel<float, float, 1, 1, copy_map>, (const void *)map_kernel<float, bf16, 1, 1, copy_map>,
     (const void *)map_kernel<bf16, float, 1, 1, copy_map>, (const void *)map_kernel<bf16, bf16, 1, 1, copy_map>}};
