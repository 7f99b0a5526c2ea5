/* Rows of a file of training data, whatever its format: JSON lines, one JSON list, CSV with a header, .npy.
 *
 * A row is a document: a map of columns to values, with the line it begins in. One that cannot be read is given with
 * the reason, and reading goes on behind it. Files are streamed: one row is in memory at a time, of at most
 * HR_DOC_MAX_BYTES bytes.
 */
#ifndef HR_FORMAT_ROWS_H
#define HR_FORMAT_ROWS_H

#include "base/mem.h"
#include "format/doc.h"
#include "format/stream.h"

typedef struct hr_rows hr_rows;

/* Names of files of text rows end so. */
#define HR_ROWS_ENDINGS ".jsonl|.ndjson|.json|.csv|.tsv"

typedef struct hr_row {
  hr_doc_node *fields; /* a map; NULL: a bad row, `why` says what is wrong with it and where */
  hr_place place;      /* where it begins */
  uint64_t number;     /* from 0, bad ones counted */
  hr_error why;
} hr_row;

/* The format goes by the file's first bytes and the ending of its name. Formats that are not read (parquet, arrow,
 * archives) are HR_UNSUPPORTED, with a command that converts them. */
hr_status hr__rows_open(const char *path, hr_rows **out, hr_error *err);
/* The same of bytes in memory that stay until it is closed; `name` as if it were the file's. */
hr_status hr__rows_of(const char *name, const void *data, size_t bytes, hr_rows **out, hr_error *err);
void hr__rows_close(hr_rows *rows); /* NULL is fine */

uint64_t hr__rows_bytes(const hr_rows *rows);     /* of the whole file */
uint64_t hr__rows_window(const hr_rows *rows);    /* that reading takes on the heap: more than the longest row so far */
const char *hr__rows_format(const hr_rows *rows); /* "JSON lines", "JSON list", "CSV", "npy" */

/* The next row, in `arena`; *there is false behind the last one. A status other than HR_OK is of the file, not of a
 * row: nothing more can be read. */
hr_status hr__rows_next(hr_rows *rows, hr_arena *arena, hr_row *out, bool *there, hr_error *err);
/* Goes back or on to a row that was given before: the next one is that again. */
void hr__rows_go(hr_rows *rows, const hr_row *row);

/* HR_BAD_INPUT with what is wrong with a bad row, for files all of whose rows are needed. */
hr_status hr__row_refuse(const hr_row *row, hr_error *err);

/* A finite number in a row, which CSV has as text: 12, -0.5, 1e-3; blanks may stand before it. */
bool hr__row_number(const hr_doc_node *node, double *out);

#endif
