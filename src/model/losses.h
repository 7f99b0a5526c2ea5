/* Losses and metrics: what a model reports of a batch. Each is a sum over a micro-batch, divided by something that is
 * counted over the whole effective batch, so that micro-batches add up to the mean whatever they hold of it.
 */
#ifndef HR_MODEL_LOSSES_H
#define HR_MODEL_LOSSES_H

#include "model/model.h"

/* Whether programs report it, of every batch: those that evaluate, and those that train. */
static inline bool hr__reported_by_evaluation(const hr_reported *reported) {
  return reported->over != HR_OVER_DATA;
}
static inline bool hr__reported_by_training(const hr_reported *reported) {
  return hr__reported_by_evaluation(reported) && !reported->evaluated;
}

/* The losses and metrics of a model; one loss, "loss", over targets where it names none. */
const hr_reported *hr__model_reported(const hr_model *model, int *count);

/* In a forward pass: `sum` (f32 [1]) is what the model has said to report under that name. A loss is differentiated
 * with its weight and factor, which is a field of the same name: 1 / what the sum is divided by. The host multiplies
 * what it reads by the same. */
void hr__report(hr_builder *b, const hr_model *model, const hr_model_batch *batch, const char *name, hr_id sum);

#endif
