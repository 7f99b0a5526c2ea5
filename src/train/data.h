/* Training data as numbered samples: row `sample` of a run is the same whenever and in whatever order it is asked for,
 * so the position in the data is the step number and resuming needs no state.
 *
 * text: bytes of a file are the tokens. The file is cut into windows of length + 1 bytes at stride length; the windows
 * of an epoch come in an order that is a permutation keyed by (seed, epoch). The last windows are held out for
 * evaluation. synthetic: random tokens keyed by (seed, sample, position). lines: see lines.h.
 *
 * Rows are handed out in micro-batches of `batch` rows; those of text and synthetic data all hold data and are of one
 * length.
 */
#ifndef HR_TRAIN_DATA_H
#define HR_TRAIN_DATA_H

#include "data/masking.h"
#include "recipe/recipe.h"
#include "train/micro.h"
#include "train/trace.h"

typedef struct hr_data hr_data;

typedef struct hr_data_shape {
  int64_t length;     /* tokens of a row */
  int64_t vocabulary; /* of the model */
  uint64_t seed;
  bool eval;              /* hold windows out */
  int64_t batch;          /* rows of a micro-batch */
  const int64_t *buckets; /* lines: lengths, ascending, the last is `length`; copied */
  int n_buckets;
  hr_masking masking;
} hr_data_shape;

hr_status hr__data_open(const hr_recipe *recipe, const hr_data_shape *shape, hr_data **out, hr_error *err);
void hr__data_close(hr_data *data);

/* Which window sample `sample` of the training part is (text). */
uint64_t hr__data_window(const hr_data *data, uint64_t sample);
int64_t hr__data_train_windows(const hr_data *data); /* or lines; 0: without end (synthetic) */
int64_t hr__data_eval_windows(const hr_data *data);
int64_t hr__data_cut(const hr_data *data);         /* lines that are longer than `length` and were cut */
uint64_t hr__data_epoch_rows(const hr_data *data); /* row numbers of an epoch; 0: without end */
uint64_t hr__data_bytes(const hr_data *data);      /* of the file; 0 for synthetic data */
hr_status hr__data_trace(const hr_data *data, hr_trace *out, hr_error *err);
/* What has happened to the file since it was opened ("was removed"); NULL: nothing. What is open can still be read. */
const char *hr__data_fate(const hr_data *data);
const char *hr__data_path(const hr_data *data); /* NULL for synthetic data */

/* The micro-batch that begins at row `sample`; for lines a multiple of batch. */
hr_micro hr__data_micro(const hr_data *data, uint64_t sample, bool eval);
/* Writes it: [batch, length of its bucket] each, masked where the data is to be. Positions without data have token 0
 * and target -1. lengths (optional) [batch]: how many positions of a row hold data. */
hr_status hr__data_fill(hr_data *data, const hr_micro *micro, int32_t *tokens, int32_t *targets, int32_t *lengths,
                        hr_error *err);

/* Text and synthetic data: writes one row: tokens[t] and targets[t] = tokens[t + 1]; each has room for `length`
 * numbers. Reads the file straight into `targets` and spreads it from there. */
hr_status hr__data_train_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err);
hr_status hr__data_eval_row(hr_data *data, uint64_t sample, int32_t *tokens, int32_t *targets, hr_error *err);

/* Reads exactly `bytes` bytes of a data file; HR_BAD_INPUT when it has become shorter. */
hr_status hr__data_read(const char *path, int fd, uint64_t at, void *to, size_t bytes, hr_error *err);

#endif
