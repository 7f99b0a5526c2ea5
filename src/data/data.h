/* Training data as numbered samples: row `sample` of a run is the same whenever and in whatever order it is asked for,
 * so the position in the data is the step number and resuming needs no state.
 *
 * Samples come from a source (source.h). Those without lengths of their own come in an order that is a permutation
 * keyed by (seed, epoch); the last ones are held out for evaluation, unless there are files for that; an endless source
 * is asked for sample after sample. Samples with lengths go through an index (index.h). Masking (masking.h) is done
 * here, and lengths are told here.
 *
 * Rows are handed out in micro-batches of `batch` rows.
 */
#ifndef HR_DATA_DATA_H
#define HR_DATA_DATA_H

#include "data/groups.h"
#include "data/masking.h"
#include "data/micro.h"
#include "data/source.h"
#include "data/trace.h"

typedef struct hr_data hr_data;

typedef struct hr_data_shape {
  uint64_t seed;
  bool eval;               /* hold samples out */
  int64_t batch;           /* rows of a micro-batch */
  const int64_t *buckets;  /* positions of a row, ascending; one unless samples have lengths; copied */
  const hr_fields *fields; /* of the batches of each bucket; copied */
  int n_buckets;
  int fillers; /* threads that fill at once */
  bool counts; /* hr__data_count will be asked for */
  hr_masking masking;
  hr_data_watch watch; /* while it is opened */
} hr_data_shape;

hr_status hr__data_open(const hr_recipe *recipe, const hr_data_shape *shape, hr_data **out, hr_error *err);
void hr__data_close(hr_data *data);

const hr_fields *hr__data_fields(const hr_data *data, int bucket);

/* What the source calls sample `sample` of the training part (without lengths of their own). */
uint64_t hr__data_entry(const hr_data *data, uint64_t sample);
int64_t hr__data_train_samples(const hr_data *data); /* 0: without end */
int64_t hr__data_eval_samples(const hr_data *data);
int64_t hr__data_cut(const hr_data *data);   /* samples that are longer than the longest bucket and were cut */
bool hr__data_own_eval(const hr_data *data); /* data.eval_path is read: it is asked for with `eval` below */
/* What of the files was left out, for the user; NULL: nothing. */
const char *hr__data_remark(const hr_data *data, bool eval);
/* What it takes on the heap to find samples again: known once they are read. */
hr_data_bytes hr__data_bytes(const hr_data *data);
/* Whether opening the data of a recipe reads a tokenizer. */
bool hr__data_reads_tokenizer(const hr_recipe *recipe);
uint64_t hr__data_epoch_rows(const hr_data *data); /* row numbers of an epoch; 0: without end */
/* The files that are read, from 0; NULL: there is none of that number. */
const hr_data_file *hr__data_file(const hr_data *data, bool eval, size_t number);
hr_status hr__data_trace(const hr_data *data, bool eval, hr_trace *out, hr_error *err);

/* The micro-batch that begins at row `sample`; with an index a multiple of batch. */
hr_micro hr__data_micro(const hr_data *data, uint64_t sample, bool eval);
/* Writes rows [first, first + count) of it into whole fields, which begin at `at`, masked where the data is to be.
 * Positions without data have token 0 and target -1. Threads may fill different rows at once, each with a number of its
 * own, `filler`. */
hr_status hr__data_fill(const hr_data *data, const hr_micro *micro, int64_t first, int64_t count, int filler,
                        void *const at[HR_FIELDS], hr_error *err);

/* Whether samples are questions. Then question `number` of those trained on or held out, in their own order: what is
 * asked, and its prompt, written into the fields of one sample (hr__fields_of_one of the longest bucket), at `at`. */
bool hr__data_asks(const hr_data *data);
hr_status hr__data_ask(const hr_data *data, bool eval, uint64_t number, void *const at[HR_FIELDS], hr_asked *out,
                       hr_error *err);

/* Items of the data that are to be judged together; 0: there are none. A micro-batch that begins with item `first`,
 * of which each row holds as many as hr__data_items says. */
uint64_t hr__data_items(const hr_data *data, int64_t *of_a_row);
const char *hr__data_item(const hr_data *data, uint64_t number); /* its name */
hr_micro hr__data_items_micro(const hr_data *data, uint64_t first);
hr_status hr__data_judge(const hr_data *data, const float *points, int64_t width, hr_judged *out, hr_error *err);
/* Groups of the items that samples of training go by; NULL: there are none. Whoever makes them sees to it that nothing
 * is read meanwhile, and that what was read before is read again (hr__reader_forget). */
hr_groups *hr__data_groups(hr_data *data);

/* Features that samples are filled from, where the fields have any (featured.h), of the part that is trained on or,
 * with `eval`, of that of data.eval_path; NULL: it reads none. *state is what its functions take. */
const hr_featured *hr__data_featured(const hr_data *data, bool eval, void **state);

/* Elements of a field that are not 0, in the rows of a micro-batch that hold data. Reads these rows, into room of its
 * own: by one thread. */
hr_status hr__data_count(const hr_data *data, const hr_micro *micro, int field, int64_t *out, hr_error *err);

#endif
