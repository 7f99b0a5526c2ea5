/* suggest: the cheapest changes of settings that would make a recipe fit its budgets.
 *
 * A change is a list of overrides as --set takes them. Candidates come in families, each from mild to strong; the
 * mildest member of a family that fits is a suggestion, and suggestions are sorted by predicted seconds per effective
 * step. Of a model of parts there is a family for each part beside those of the whole. Which families are tried depends
 * on the tier that is too small. The effective batch is always kept. Only computes: planning a changed recipe is the
 * caller's function, called a few times per family.
 */
#ifndef HR_FIT_SUGGEST_H
#define HR_FIT_SUGGEST_H

#include "compile/compile.h"
#include "fit/sites.h"

/* Of a tier: those of techniques, adapters of each part, and five of other kinds at most. */
enum {
  HR_CHANGE_OVERRIDES = 6,
  HR_CHANGE_TEXT = HR_SITE_TEXT + HR_TECHNIQUE_WORD,
  HR_SUGGESTIONS = 5 + 2 * HR_MODEL_PARTS + HR_TECHNIQUE_KEYS
};

/* What a plan comes to. */
typedef struct hr_planned {
  uint64_t peak_bytes[HR_TIER_COUNT];
  double step_seconds;
  bool fits; /* the budgets of all tiers */
} hr_planned;

typedef struct hr_change {
  char override[HR_CHANGE_OVERRIDES][HR_CHANGE_TEXT]; /* "training.batch_size=4" */
  int n_overrides;
  bool changes_results; /* other weights come out, beyond the order of sums: precision, optimizer, length */
  hr_planned planned;
} hr_change;

/* Plans the recipe with further overrides. */
typedef hr_status (*hr_plan_changed)(void *user, const char *const *overrides, size_t count, hr_planned *out,
                                     hr_error *err);

/* `tier`: whose budget is too small. Writes at most HR_SUGGESTIONS changes; *count is 0 when nothing of this kind
 * helps. */
hr_status hr__suggest(const hr_recipe *recipe, hr_tier tier, hr_plan_changed plan, void *user,
                      hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err);

#endif
