/* The fingerprint of a plan: what must be equal for two runs to execute the same thing in the same place. */
#ifndef HR_PLAN_FINGERPRINT_H
#define HR_PLAN_FINGERPRINT_H

#include "base/hash.h"
#include "plan/plan.h"

/* XXH3-128 over a canonical text: device kind, alignment, programs, nodes (op, module, threads, addresses of operands)
 * and slots. Predicted times, names of devices and sizes of memory have no part in it. */
hr_status hr__plan_fingerprint(const hr_plan *plan, char out[HR_XXH_HEX], hr_error *err);

#endif
