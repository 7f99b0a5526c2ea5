/* Products of few rows that take their neighbours along, on CUDA: few_match.cuh says which. */
#ifndef HR_OP_FEW_H
#define HR_OP_FEW_H

#include "dev/kernel.h"

/* Of linear and rmsnorm: hr_cuda_launcher.take. */
hr_status hr__few_take(const hr_launch *launches, size_t at, size_t count, size_t *taken);

#endif
