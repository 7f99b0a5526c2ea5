/* Rows of a file into ids, a batch at a time: several threads make ids of one batch while one of them reads the next.
 * What a row becomes depends on the row alone, so that neither ids nor errors depend on the number of threads.
 */
#ifndef HR_DATA_ROW_BATCH_H
#define HR_DATA_ROW_BATCH_H

#include "base/threads.h"
#include "data/row_ids.h"
#include "format/rows.h"

enum {
  HR_BATCH_ROWS = 128,
  HR_BATCH_BYTES = 1 << 20
}; /* of a batch: rows, and bytes of the file from which on it ends */

typedef struct hr_made_row {
  hr_row row;
  hr_ids ids;       /* of a row that could be read, where the status is HR_OK */
  hr_status status; /* of making them */
  hr_error why;
} hr_made_row;

typedef struct hr_row_batch {
  hr_made_row rows[HR_BATCH_ROWS];
  size_t count;
  bool last;        /* of the file */
  hr_status status; /* of reading the file, behind the rows that there are */
  hr_error err;
  hr_arena arena;
  uint64_t text_bytes; /* the most that its rows have taken */
} hr_row_batch;

/* Threads, each with an encoder and a template of its own. */
typedef struct hr_row_makers hr_row_makers;
/* What all of them go by; it stays the caller's. */
typedef struct hr_row_way {
  const hr_tokenizer *tokenizer;
  const hr_chat *chat;
  bool all; /* every token is a target, not only those of answers */
} hr_row_way;
hr_status hr__row_makers_create(const hr_row_way *way, int threads, hr_row_makers **out, hr_error *err);
void hr__row_makers_destroy(hr_row_makers *makers); /* NULL is fine */
/* The most that rows have taken on the heap so far: of text, what is rendered and looked at, and ids. */
uint64_t hr__row_makers_bytes(const hr_row_makers *makers);

/* Begins with a file: its first rows are read. */
void hr__row_batches_begin(hr_row_makers *makers, hr_rows *rows);
/* The next rows, in order, with their ids; they stay until the next call. NULL: there are no more. */
hr_row_batch *hr__row_batch_next(hr_row_makers *makers);

#endif
