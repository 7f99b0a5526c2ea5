/* The verdict: whether a plan fits a budget, and who owns the bytes at its peak. Data only; the words are the caller's.
 */
#ifndef HR_PLAN_VERDICT_H
#define HR_PLAN_VERDICT_H

#include "plan/memory.h"
#include "plan/phases.h"
#include "plan/plan.h"

enum { HR_OWNERS = 3, HR_OWNER_NAME = 96 };

typedef struct hr_owner {
  char name[HR_OWNER_NAME];
  uint64_t bytes;
  size_t slots; /* how many buffers that is; 0: not a matter of buffers (gaps, fixed costs) */
} hr_owner;

typedef struct hr_verdict {
  bool fits;                                       /* on every tier; on the device: peak + margin <= budget */
  hr_tier tier;                                    /* the first that does not fit, or the device */
  uint64_t budget_bytes, margin_bytes, peak_bytes; /* of the device */
  bool margin_default;                             /* nobody gave the margin */
  uint64_t below_bytes[HR_TIER_COUNT];             /* budgets of the tiers below it */
  uint64_t missing_bytes;                          /* by which the budget of `tier` is too small; 0 when it fits */
  hr_host_phases phases;                           /* of the host */
  bool preparing; /* what comes before it is too large already, which no change of it helps: reading a tokenizer (for
                     the host's budget), making features (hr_job.features) */
  /* Largest first, of what `tier` holds at its peak: by category, and by buffers that differ only in a layer's
   * number ("model.layers.*.mlp.up_proj.weight"). */
  hr_owner categories[HR_OWNERS];
  hr_owner buffers[HR_OWNERS];
  int n_categories, n_buffers;
} hr_verdict;

/* What stays free on the device below budget and margin; negative where they are too small. */
static inline int64_t hr__verdict_left(const hr_verdict *v) {
  return (int64_t)v->budget_bytes - (int64_t)v->margin_bytes - (int64_t)v->peak_bytes;
}

/* What any run holds on the host, whatever is offloaded there: pieces to copy through, and batches. */
static inline uint64_t hr__plan_host_least(const hr_plan *plan) {
  const uint64_t *categories = plan->tiers[HR_TIER_HOST].categories;
  return categories[HR_CAT_FIXED] + categories[HR_CAT_INPUTS];
}
/* The host's budget is too small for that. */
static inline bool hr__verdict_below_least(const hr_verdict *v, const hr_plan *plan) {
  return !v->fits && v->tier == HR_TIER_HOST && v->below_bytes[HR_TIER_HOST] < hr__plan_host_least(plan);
}

/* What `tier` of the verdict has to have. */
static inline uint64_t hr__verdict_needs(const hr_verdict *v, const hr_plan *plan) {
  return v->preparing ? hr__host_most(plan, &v->phases) : plan->tiers[v->tier].peak_bytes;
}

/* `recipe` may be NULL (a graph built by hand). */
hr_status hr__verdict(const hr_plan *plan, const hr_recipe *recipe, const hr_budget *budget, hr_verdict *out,
                      hr_error *err);

#endif
