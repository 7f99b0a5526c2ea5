/* loss_seed on CUDA. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/loss_seed.h"
}

static __global__ void loss_seed_kernel(const hr_control *control, float *y, float weight) {
  *y = weight * control->loss_scale;
}

static hr_status loss_seed_run(const hr_call *call) {
  float weight = ((const hr_loss_seed_args *)call->args)->weight;
  launch(loss_seed_kernel, 1, 1, 0, call_stream(call), (const hr_control *)call->in[0].data, (float *)call->out[0].data,
         weight);
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_loss_seed = {{nullptr, nullptr, loss_seed_run},
                                                       {(const void *)loss_seed_kernel}};
