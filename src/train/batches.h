/* Batches: which rows of the data a step takes, as a function of the step alone.
 *
 * The rows of a run are numbered from 0 through all epochs (data.h); the position of a run is the number of the next
 * row. A step begins at the position, in the epoch that this row belongs to, and takes as many micro-batches as the
 * schedule has for that epoch. Text goes on across the end of an epoch; an epoch of lines ends with a short step, so
 * that the next one begins with an epoch.
 */
#ifndef HR_TRAIN_BATCHES_H
#define HR_TRAIN_BATCHES_H

#include "compile/compile.h"

typedef struct hr_batches {
  const hr_training_shape *shape;
  uint64_t epoch_rows; /* 0: data without end, one epoch */
} hr_batches;

/* Micro-batches of the step that begins at `position`. */
int64_t hr__batches_micros(const hr_batches *batches, uint64_t position);
/* Position after `steps` steps from the beginning. */
uint64_t hr__batches_position(const hr_batches *batches, int64_t steps);
/* The least steps that go through `epochs` epochs; 0: data without end has none. */
int64_t hr__batches_steps(const hr_batches *batches, double epochs);

#endif
