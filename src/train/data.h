/* Training data as numbered samples: row `sample` of a run is the same whenever and in whatever order it is asked for,
 * so the position in the data is the step number and resuming needs no state.
 *
 * text: bytes of a file are the tokens. The file is cut into windows of length + 1 bytes at stride length; the windows
 * of an epoch come in an order that is a permutation keyed by (seed, epoch). The last windows are held out for
 * evaluation. synthetic: random tokens keyed by (seed, sample, position).
 */
#ifndef HR_TRAIN_DATA_H
#define HR_TRAIN_DATA_H

#include "recipe/recipe.h"

typedef struct hr_data hr_data;

typedef struct hr_data_shape {
  int64_t length;     /* tokens of a row */
  int64_t vocabulary; /* of the model */
  uint64_t seed;
  bool eval; /* hold windows out */
} hr_data_shape;

hr_status hr__data_open(const hr_recipe *recipe, const hr_data_shape *shape, hr_data **out, hr_error *err);
void hr__data_close(hr_data *data);

/* Which window sample `sample` of the training part is (text). */
uint64_t hr__data_window(const hr_data *data, uint64_t sample);
int64_t hr__data_train_windows(const hr_data *data); /* 0: without end (synthetic) */
int64_t hr__data_eval_windows(const hr_data *data);
uint64_t hr__data_bytes(const hr_data *data); /* of the file; 0 for synthetic data */

/* Writes one row: tokens[t] and targets[t] = tokens[t + 1]; each has room for `length` numbers. Reads the file straight
 * into `targets` and spreads it from there. */
hr_status hr__data_train_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err);
hr_status hr__data_eval_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err);

#endif
