/* techniques: what each memory technique of a recipe saves and costs, against the same recipe without it.
 *
 * Only computes: planning the changed recipe is the caller's function (hr_plan_changed), called once per technique. A
 * technique that another one needs takes that one with it: without adapters nothing is frozen, so nothing is quantized.
 *
 * A technique is one of a part where that part's section sets it, and one of a pattern where its setting goes by
 * patterns: each is taken away by itself.
 *
 * Where other settings are open they are chosen anew for the recipe without the technique, as far as the budget goes.
 * What fits then says nothing about bytes, since both plans fill the device, and what does not fit nothing about
 * seconds.
 */
#ifndef HR_FIT_TECHNIQUES_H
#define HR_FIT_TECHNIQUES_H

#include "fit/choose.h"
#include "fit/sites.h"
#include "fit/suggest.h"

enum { HR_RULES_LISTED = 16, HR_TECHNIQUES = HR_SITES + HR_RULES_LISTED, HR_TECHNIQUE_NAME = 96 };

typedef struct hr_technique {
  char name[HR_TECHNIQUE_NAME]; /* "checkpoint: selective", "adapters of text: lora" */
  bool bytes_known;             /* both false: without it nothing fits, or the recipe cannot be planned */
  bool seconds_known;
  int64_t saves_bytes;  /* on the device, at the peak; may be negative */
  double costs_seconds; /* per effective step; may be negative */
} hr_technique;

/* `peak_bytes` and `step_seconds` are the recipe's own. A setting that is `auto` and came to nothing in `chosen` (NULL:
 * that is not known) is no technique of its plan. */
hr_status hr__techniques(const hr_recipe *recipe, const hr_chosen *chosen, uint64_t peak_bytes, double step_seconds,
                         hr_plan_changed plan, void *user, hr_technique out[HR_TECHNIQUES], int *count, hr_error *err);

#endif
