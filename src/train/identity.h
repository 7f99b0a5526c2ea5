/* What a run is: its settings as a flat list, and which of them may change when it is resumed. */
#ifndef HR_TRAIN_IDENTITY_H
#define HR_TRAIN_IDENTITY_H

#include "compile/compile.h"
#include "data/data.h"
#include "train/manifest.h"

/* The closed recipe as path and JSON value, with the facts that paths stand for (length of the data, samples per step).
 * Strings live in `arena`. A setting that the saved run did not know may be there by default: defaults of new settings
 * keep what was. */
/* begun_from: hash of the checkpoint whose weights the run began with; features: of what makes those that are read in
 * place of what they are made of; or "". */
hr_status hr__identity_list(const hr_recipe *recipe, const hr_data *data, const hr_training_shape *shape,
                            const char *begun_from, const char *features, hr_arena *arena, hr_run_setting **out,
                            size_t *count, hr_error *err);

/* HR_USAGE with the first settings that differ, where they would change the training. Lengths, intervals, paths and
 * memory settings may change, and the micro-batch as long as the samples per step stay the same.
 *
 * Other data than the run was saved with is HR_USAGE as well, with what differs; unless `accept` is given, which is set
 * to whether there is any. */
hr_status hr__identity_check(const hr_manifest *saved, const hr_run_setting *now, size_t count, bool *accept,
                             hr_error *err);

#endif
