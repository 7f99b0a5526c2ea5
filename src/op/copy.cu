/* copy on CUDA: between float types, or as it is. */
#include "dev/cuda/map.cuh"
extern "C" {
#include "op/copy.h"
}

struct copy_map {
  __device__ void operator()(const float *x, float *y) const { y[0] = x[0]; }
};

static hr_status copy_run(const hr_call *call) {
  bool from_f32 = call->in[0].desc.dtype == HR_F32, to_f32 = call->out[0].desc.dtype == HR_F32;
  if (from_f32 && to_f32) return map_run<float, float, 1, 1>(call, copy_map());
  if (from_f32) return map_run<float, bf16, 1, 1>(call, copy_map());
  if (to_f32) return map_run<bf16, float, 1, 1>(call, copy_map());
  return map_run<bf16, bf16, 1, 1>(call, copy_map());
}

extern "C" const hr_cuda_launcher hr_cuda_copy = {
    {nullptr, nullptr, copy_run},
    {(const void *)map_kernel<float, float, 1, 1, copy_map>, (const void *)map_kernel<float, bf16, 1, 1, copy_map>,
     (const void *)map_kernel<bf16, float, 1, 1, copy_map>, (const void *)map_kernel<bf16, bf16, 1, 1, copy_map>}};
