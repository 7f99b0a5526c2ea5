/* Owners of a peak: which modules of the model hold the bytes, and as what. */
#ifndef HR_PLAN_OWNERS_H
#define HR_PLAN_OWNERS_H

#include "plan/plan.h"

enum { HR_MODULE_NAME = 96 };

/* Modules that differ only in a layer's number are one, and what lies below a layer's parts belongs to the part:
 * "model.layers.*.mlp" holds up_proj of all layers, their gradients, moments, results and workspaces. */
typedef struct hr_module_owner {
  char name[HR_MODULE_NAME]; /* "gaps" and "fixed costs" beside modules */
  uint64_t bytes;
  uint64_t categories[HR_CAT_COUNT]; /* sum to `bytes` */
  size_t tensors;                    /* buffers and workspaces; 0: not a matter of them */
} hr_module_owner;

/* All owners of what `tier` holds at its peak, largest first; they sum to the tier's peak_bytes. The list is the
 * arena's. */
hr_status hr__owners(const hr_plan *plan, hr_tier tier, hr_arena *arena, hr_module_owner **out, size_t *count,
                     hr_error *err);

/* What a module is called among owners: "model.layers.3.mlp.up_proj" is of "model.layers.*.mlp". */
void hr__owner_name(const char *module, char out[HR_MODULE_NAME]);

#endif
