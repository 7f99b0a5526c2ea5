/* Settings of the allocator as PyTorch takes them: the text of PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF). */
#ifndef HR_TORCH_CONF_H
#define HR_TORCH_CONF_H

#include "torch/allocator.h"

/* "expandable_segments:True,max_split_size_mb:128". What is not known, and backend:cudaMallocAsync, is refused
 * (HR_USAGE, with `place`); settings that move no byte here are passed over. */
hr_status hr__torch_conf(const char *text, const char *place, hr_torch_rules *rules, hr_error *err);

#endif
