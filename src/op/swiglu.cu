/* swiglu and its backward op on CUDA. */
#include "dev/cuda/map.cuh"

/* g, u -> silu(g) u */
struct swiglu_map {
  __device__ void operator()(const float *x, float *y) const { y[0] = x[0] / (1.0f + expf(-x[0])) * x[1]; }
};

/* dy, g, u -> dg, du */
struct swiglu_bwd_map {
  __device__ void operator()(const float *x, float *y) const {
    float sigmoid = 1.0f / (1.0f + expf(-x[1]));
    y[0] = x[0] * x[2] * sigmoid * (1.0f + x[1] * (1.0f - sigmoid));
    y[1] = x[0] * x[1] * sigmoid;
  }
};

static hr_status swiglu_run(const hr_call *call) {
  return call->out[0].desc.dtype == HR_F32 ? map_run<float, float, 2, 1>(call, swiglu_map())
                                           : map_run<bf16, bf16, 2, 1>(call, swiglu_map());
}

static hr_status swiglu_bwd_run(const hr_call *call) {
  return call->out[0].desc.dtype == HR_F32 ? map_run<float, float, 3, 2>(call, swiglu_bwd_map())
                                           : map_run<bf16, bf16, 3, 2>(call, swiglu_bwd_map());
}

extern "C" const hr_cuda_launcher hr_cuda_swiglu = {
    {nullptr, nullptr, swiglu_run},
    {(const void *)map_kernel<float, float, 2, 1, swiglu_map>, (const void *)map_kernel<bf16, bf16, 2, 1, swiglu_map>}};

extern "C" const hr_cuda_launcher hr_cuda_swiglu_bwd = {{nullptr, nullptr, swiglu_bwd_run},
                                                        {(const void *)map_kernel<float, float, 3, 2, swiglu_bwd_map>,
                                                         (const void *)map_kernel<bf16, bf16, 3, 2, swiglu_bwd_map>}};
