/* Dropout on CUDA as a part of other ops. */
#ifndef HR_OP_DROPOUT_CUH
#define HR_OP_DROPOUT_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/dropout.h"
}

/* to = (add +) mask from / (1 - p), all like x [samples, ...]; `to` may be `from` or `add`. The device functions are
 * those of the op dropout. */
hr_status hr__dropout_masked(const hr_call *call, const hr_dropout_args *args, const hr_desc &x, const void *from,
                             const hr_control *control, const void *add, void *to);

#endif
