/* adapter_config.json: what readers of adapter files (PEFT) need to know beside the tensors. */
#ifndef HR_TRAIN_ADAPTER_H
#define HR_TRAIN_ADAPTER_H

#include "model/parts.h"

/* Its text for part `p` of a model, NUL-terminated in `arena`; *text is NULL for a part without adapters. */
hr_status hr__adapter_config(const hr_model_parts *parts, size_t p, const hr_graph *graph, hr_arena *arena,
                             const char **text, size_t *bytes, hr_error *err);

#endif
