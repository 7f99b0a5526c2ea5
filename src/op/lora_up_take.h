/* What lora_up_bwd's neighbours in front of it take along, on CUDA: lora_up_match.cuh says which. */
#ifndef HR_OP_LORA_UP_TAKE_H
#define HR_OP_LORA_UP_TAKE_H

#include "dev/kernel.h"

/* Of gelu_bwd and dropout: hr_cuda_launcher.take. */
hr_status hr__lora_bwd_take(const hr_launch *launches, size_t at, size_t count, size_t *taken);

#endif
