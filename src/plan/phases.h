/* The phases of a run on the host. Loading and saving go through windows that are part of the fixed bytes
 * (dev/device.h: HR_WINDOW_BYTES, HR_PACK_BYTES), and everything else is in the arena, so that load, training and
 * saving hold the same: the tier's peak. Before them, while the arenas are not there yet, a tokenizer is read and text
 * is made into tokens.
 */
#ifndef HR_PLAN_PHASES_H
#define HR_PLAN_PHASES_H

#include "plan/plan.h"
#include "recipe/recipe.h"

typedef struct hr_host_phases {
  uint64_t prepare; /* reading the tokenizer; 0: there is none to read */
  uint64_t load, train, save;
} hr_host_phases;

/* `recipe` may be NULL: nothing is prepared. */
hr_host_phases hr__host_phases(const hr_plan *plan, const hr_recipe *recipe);

/* What the host has to have: the largest of them. On the CPU preparing has the memory that the device's arena takes
 * later. */
uint64_t hr__host_most(const hr_plan *plan, const hr_host_phases *phases);

#endif
