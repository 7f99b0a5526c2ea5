/* suggest: the cheapest changes of settings that would make a recipe fit its budget.
 *
 * A change is a list of overrides as --set takes them. Candidates come in families, each from mild to strong; the
 * mildest member of a family that fits is a suggestion, and suggestions are sorted by predicted seconds per effective
 * step. The effective batch is always kept. Only computes: planning a changed recipe is the caller's function, called a
 * few times per family.
 */
#ifndef HR_FIT_SUGGEST_H
#define HR_FIT_SUGGEST_H

#include "pass/compile.h"

enum { HR_CHANGE_OVERRIDES = 4, HR_SUGGESTIONS = 6 };

typedef struct hr_change {
  char override[HR_CHANGE_OVERRIDES][64]; /* "training.batch_size=4" */
  int n_overrides;
  bool changes_results; /* other weights come out, beyond the order of sums: precision, optimizer, length */
  uint64_t peak_bytes;
  double step_seconds;
} hr_change;

/* Plans the recipe with further overrides. */
typedef hr_status (*hr_plan_changed)(void *user, const char *const *overrides, size_t count, uint64_t *peak_bytes,
                                     double *step_seconds, hr_error *err);

/* Writes at most HR_SUGGESTIONS changes; *count is 0 when nothing of this kind helps. */
hr_status hr__suggest(const hr_recipe *recipe, uint64_t budget_bytes, hr_plan_changed plan, void *user,
                      hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err);

#endif
