/* Lines: every line of a file is a sample, its bytes are the tokens, and the newline after it is its last target.
 * Empty lines are skipped; a line longer than the longest bucket is cut there. The last lines are held out for
 * evaluation.
 *
 * Order. Lines are sorted into buckets, the shortest that holds them, in the order of the file. In every epoch the
 * lines of a bucket are shuffled by a permutation keyed by (seed, bucket, epoch) and dealt into micro-batches of
 * `batch` rows, the last of which may be short; then the micro-batches of all buckets together are shuffled by one
 * keyed by (seed, epoch). Both permutations are functions that can be asked anywhere, so a micro-batch depends on its
 * number alone and resuming needs no state. A short micro-batch still counts `batch` rows: the rows of an epoch are
 * batch x micro-batches.
 *
 * The index takes 8 bytes per line, on the heap.
 */
#ifndef HR_TRAIN_LINES_H
#define HR_TRAIN_LINES_H

#include "base/status.h"
#include "train/micro.h"

typedef struct hr_lines hr_lines;

typedef struct hr_lines_source {
  const char *path; /* for messages; must outlive the lines, as the file must */
  int fd;
  uint64_t bytes;
  int64_t batch;
  const int64_t *buckets; /* ascending; copied */
  int n_buckets;
  uint64_t seed;
  double held_out; /* part of the lines; 0: none */
} hr_lines_source;

hr_status hr__lines_open(const hr_lines_source *source, hr_lines **out, hr_error *err);
void hr__lines_close(hr_lines *lines);

int64_t hr__lines_train(const hr_lines *lines); /* lines to train on */
int64_t hr__lines_eval(const hr_lines *lines);  /* lines held out */
int64_t hr__lines_cut(const hr_lines *lines);   /* lines of both that were longer than the longest bucket */
uint64_t hr__lines_epoch_rows(const hr_lines *lines);

/* The micro-batch that begins at row `sample`, a multiple of batch. Held-out lines come in the order of the file, again
 * and again, in the longest bucket. */
hr_micro hr__lines_micro(const hr_lines *lines, uint64_t sample, bool eval);
/* Tokens of row `row` of it; 0: the row holds no data. */
int64_t hr__lines_length(const hr_lines *lines, const hr_micro *micro, int64_t row);
/* Row `row` of it, right-padded to the length of its bucket: token 0, target -1. A row without data is all padding. */
hr_status hr__lines_row(const hr_lines *lines, const hr_micro *micro, int64_t row, int32_t *tokens, int32_t *targets,
                        hr_error *err);

#endif
