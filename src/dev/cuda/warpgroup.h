/* Which GPUs have what dev/cuda/warpgroup.cuh is for, and the kernels that use it. HR_WARPGROUPS: whether they are
 * built. */
#ifndef HR_DEV_CUDA_WARPGROUP_H
#define HR_DEV_CUDA_WARPGROUP_H

#include "dev/cuda/launch.cuh"

enum { HR_CUDA_WARPGROUPS = 90 }; /* compute capability, as facts have it; no later one has the same instructions */

extern "C" const hr_cuda_launcher hr_cuda_warpgroups; /* functions of all of them, and nothing else */

/* Whether calls on this device may go to those kernels. */
static inline bool has_warpgroups(const hr_call *call) {
#if HR_WARPGROUPS
  return call->device->facts.capability == HR_CUDA_WARPGROUPS;
#else
  (void)call;
  return false;
#endif
}

#endif
