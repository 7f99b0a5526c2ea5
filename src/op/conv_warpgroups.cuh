/* Convolutions by products of warpgroups (op/conv_warpgroups.h), as op/conv.cu asks for them. The kernels have an
 * object of their own, which is compiled for the GPUs that have such products. */
#ifndef HR_OP_CONV_WARPGROUPS_CUH
#define HR_OP_CONV_WARPGROUPS_CUH

#include "dev/cuda/warpgroup.h"
#include "op/conv_steps.cuh"
extern "C" {
#include "op/conv_warpgroups.h"
}

/* A walk that hr__conv_warpgroups_of has taken; its weights go to the workspace. `forward`: channels of W's first axis
 * are the result's (conv), else the source's (conv_dx). */
hr_status hr__conv_warpgroups_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_walk &walk, bool forward,
                                  const void *bias, const void *add);

/* Before the first launch: more shared memory than kernels have unasked. */
bool hr__conv_warpgroups_allow(hr_dtype dtype);

#endif
