/* gelu takes the dropout behind it along, on CUDA. */
#ifndef HR_OP_DROPOUT_TAKE_H
#define HR_OP_DROPOUT_TAKE_H

#include "dev/kernel.h"

/* Of gelu: hr_cuda_launcher.take. */
hr_status hr__gelu_dropout_take(const hr_launch *launches, size_t at, size_t count, size_t *taken);

#endif
