/* adapter_config.json: what readers of adapter files (PEFT) need to know beside the tensors. */
#ifndef HR_TRAIN_ADAPTER_H
#define HR_TRAIN_ADAPTER_H

#include "graph/graph.h"
#include "recipe/recipe.h"

/* Its text, NUL-terminated in `arena`; *text is NULL for a recipe without adapters. */
hr_status hr__adapter_config(const hr_recipe *recipe, const hr_graph *graph, hr_arena *arena, const char **text,
                             size_t *bytes, hr_error *err);

#endif
