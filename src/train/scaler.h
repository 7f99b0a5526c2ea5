/* The loss scale of 16-mixed training: pure logic, as torch.amp.GradScaler has it.
 *
 * Gradients are computed with the loss multiplied by `scale`, so that small ones do not vanish in f16. A step whose
 * gradients are not finite is skipped and the scale falls; after enough steps that were not, it grows again.
 */
#ifndef HR_TRAIN_SCALER_H
#define HR_TRAIN_SCALER_H

#include "recipe/recipe.h"

typedef struct hr_scaling {
  float init, growth, backoff;
  int64_t interval; /* good steps in a row after which the scale grows */
} hr_scaling;

/* What a checkpoint has to hold of it. */
typedef struct hr_scaler {
  float scale;
  int64_t good_steps;       /* since the scale changed or a step was skipped */
  int64_t applied_steps;    /* not skipped, in the whole run: what the optimizer counts */
  int64_t skipped_in_a_row; /* up to now */
} hr_scaler;

enum { HR_SCALER_SKIPS = 50 }; /* in a row: a run that has no step left to make */

void hr__scaling_read(const hr_recipe *recipe, hr_scaling *out);
hr_scaler hr__scaler_begin(const hr_scaling *scaling);
/* Takes note of a step. False: the run cannot recover; the scale fell below 1, where scaling only loses gradients, or
 * HR_SCALER_SKIPS steps in a row were skipped. */
bool hr__scaler_note(const hr_scaling *scaling, hr_scaler *scaler, bool skipped);

#endif
