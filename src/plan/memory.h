/* The recipe's memory section: which device, and how much of it the run may hold. */
#ifndef HR_PLAN_MEMORY_H
#define HR_PLAN_MEMORY_H

#include "dev/device.h"
#include "recipe/recipe.h"

extern const hr_key_table hr_memory_keys; /* memory.device, memory.gpu, budgets and margin, memory.offload_folder */

typedef struct hr_budget {
  uint64_t budget_bytes;
  uint64_t margin_bytes;           /* kept free below the budget */
  bool margin_default;             /* nobody gave one */
  uint64_t host_bytes, disk_bytes; /* most of the tiers below */
} hr_budget;

hr_device_kind hr__memory_device(const hr_recipe *recipe);
/* Whether the recipe names a GPU of the catalogue; such a plan cannot be run. Its facts. */
bool hr__memory_gpu(const hr_recipe *recipe);
hr_status hr__memory_gpu_facts(const hr_recipe *recipe, hr_facts *facts, hr_error *err);
/* `auto` is all memory of the device, per cent are of that; a size may be larger than this machine's memory, but not
 * than that of a card of the catalogue. The margin is a size or per cent of the budget; for a GPU that is not here 2 %
 * unless one is given. Whatever plans, searches or judges takes both from here. */
hr_status hr__memory_budget(const hr_recipe *recipe, const hr_facts *facts, hr_budget *out, hr_error *err);
/* memory.offload_folder; NULL: not given. */
/* Whether the disk tier's file can be made there, before anything else is. */
hr_status hr__memory_folder_check(const hr_recipe *recipe, hr_error *err);
const char *hr__memory_folder(const hr_recipe *recipe);

#endif
