/* The index of samples that have lengths of their own: which bucket each is in, and their order.
 *
 * Samples are sorted into buckets, the shortest that holds them, in their own order; the last ones are held out for
 * evaluation. In every epoch the samples of a bucket are shuffled by a permutation keyed by (seed, bucket, epoch) and
 * dealt into micro-batches of `batch` rows, the last of which may be short; then the micro-batches of all buckets
 * together are shuffled by one keyed by (seed, epoch). Both permutations are functions that can be asked anywhere, so a
 * micro-batch depends on its number alone and resuming needs no state. A short micro-batch still counts `batch` rows:
 * the rows of an epoch are batch x micro-batches.
 *
 * It takes 8 bytes per sample, on the heap.
 */
#ifndef HR_DATA_INDEX_H
#define HR_DATA_INDEX_H

#include "data/micro.h"
#include "data/source.h"

typedef struct hr_index hr_index;

typedef struct hr_index_shape {
  int64_t batch;
  const int64_t *buckets; /* ascending; copied */
  int n_buckets;
} hr_index_shape;

/* Scans the source, three times. */
hr_status hr__index_make(const hr_source *source, const void *state, const hr_source_request *request,
                         const hr_index_shape *shape, hr_index **out, hr_error *err);
void hr__index_destroy(hr_index *index);
uint64_t hr__index_bytes(const hr_index *index); /* on the heap */

int64_t hr__index_train(const hr_index *index); /* samples to train on */
int64_t hr__index_eval(const hr_index *index);  /* samples held out */
int64_t hr__index_cut(const hr_index *index);   /* samples of both that were longer than the longest bucket */
uint64_t hr__index_epoch_rows(const hr_index *index);

/* The micro-batch that begins at row `sample`, a multiple of batch. Held-out samples come in their own order, again and
 * again, in the longest bucket. */
hr_micro hr__index_micro(const hr_index *index, uint64_t sample, bool eval);
/* What row `row` < micro->rows of it is to the source. */
uint64_t hr__index_entry(const hr_index *index, const hr_micro *micro, int64_t row);

#endif
