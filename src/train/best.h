/* The best evaluation of a run: which it is, and whether waiting for a better one is over. Pure logic; what a
 * checkpoint holds of it lets a resumed run decide as one that was never stopped.
 */
#ifndef HR_TRAIN_BEST_H
#define HR_TRAIN_BEST_H

#include "recipe/recipe.h"
#include "train/reports.h"

typedef struct hr_best_rule {
  const char *metric; /* "loss", or one that the model reports */
  bool highest;       /* of it is best, not the lowest */
  double min_delta;   /* better by no more than this is not better */
  int64_t patience;   /* evaluations in a row without a better one; 0: without end */
} hr_best_rule;

typedef struct hr_best {
  double value;
  int64_t step;   /* 0: there is none yet */
  int64_t waited; /* evaluations since then */
} hr_best;

/* HR_BAD_INPUT where nothing is evaluated, or the model does not report the metric. */
hr_status hr__best_read(const hr_recipe *recipe, const hr_reports *reports, hr_best_rule *out, hr_error *err);
/* What the rule goes by, of an evaluation with that loss. */
double hr__best_metric(const hr_best_rule *rule, double loss, const hr_reports *reports);
/* Takes note of an evaluation; one that is not finite is never better. */
void hr__best_note(const hr_best_rule *rule, hr_best *best, int64_t step, double value);
bool hr__best_over(const hr_best_rule *rule, const hr_best *best); /* patience has come to its end */

#endif
