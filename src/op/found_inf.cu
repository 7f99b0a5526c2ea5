/* found_inf on CUDA. */
#include "dev/cuda/launch.cuh"

static __global__ void found_inf_kernel(const hr_control *from, const float *norm, hr_control *to) {
  hr_control control = *from;
  control.skip = isfinite(*norm) ? 0u : 1u;
  *to = control;
}

static hr_status found_inf_run(const hr_call *call) {
  launch(found_inf_kernel, 1, 1, 0, call_stream(call), (const hr_control *)call->in[0].data,
         (const float *)call->in[1].data, (hr_control *)call->out[0].data);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_found_inf = {{nullptr, nullptr, found_inf_run},
                                                       {(const void *)found_inf_kernel}};
