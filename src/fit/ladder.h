/* ladder: the settings next to a recipe's own that give the same result: the next that needs less memory, and the next
 * that is faster.
 *
 * Neighbours differ in one technique: what is recomputed, the micro-batch at a kept effective batch, when parameters
 * are updated, what is offloaded. Of those that no other neighbour beats in both memory and time, the nearest on either
 * side is a rung. Only computes: planning a changed recipe is the caller's function, called a few times.
 */
#ifndef HR_FIT_LADDER_H
#define HR_FIT_LADDER_H

#include "fit/suggest.h"

typedef struct hr_ladder {
  bool has_cheaper, has_faster;
  hr_change cheaper; /* fits, with less on the device */
  hr_change faster;  /* with less seconds and more on the device; may not fit (planned.fits) */
} hr_ladder;

/* `here` is what the recipe's own plan comes to. */
hr_status hr__ladder(const hr_recipe *recipe, const hr_planned *here, hr_plan_changed plan, void *user, hr_ladder *out,
                     hr_error *err);

#endif
