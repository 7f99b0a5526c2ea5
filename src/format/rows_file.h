/* Inside of the readers of rows: what they share. A format is one hr_row_format, in a file of its own. */
#ifndef HR_FORMAT_ROWS_FILE_H
#define HR_FORMAT_ROWS_FILE_H

#include "format/npy.h"
#include "format/rows.h"

typedef struct hr_row_format {
  const char *name;
  /* Reads what stands before the first row; NULL: nothing. */
  hr_status (*begin)(hr_rows *rows, hr_error *err);
  /* The row at the stream's place, or where row->number says. A bad one is left to hr__rows_bad. */
  hr_status (*next)(hr_rows *rows, hr_arena *arena, hr_row *row, bool *there, hr_error *err);
} hr_row_format;

struct hr_rows {
  const hr_row_format *format;
  hr_stream stream;
  uint64_t number; /* of the next row */
  hr_arena arena;  /* of names */
  bool closed;     /* JSON list: its end was met */
  /* CSV */
  const char **names;
  size_t columns;
  char separator;
  /* npy */
  hr_npy_head npy;
  uint64_t data_begin;
};

extern const hr_row_format hr__rows_json_lines, hr__rows_json_list, hr__rows_csv, hr__rows_npy;

/* Marks a row as bad: the message stays with it. Lack of memory is no fault of the row and comes back as it is. */
hr_status hr__rows_bad(hr_row *row, hr_status status);
/* "path:line:column" of a row's beginning. */
const char *hr__rows_place(const hr_rows *rows, const hr_row *row, char out[HR_DOC_PLACE]);

/* The bytes of the stream up to the first one that ends a row. */
typedef struct hr_extent {
  size_t bytes;  /* ahead of the stream's place; 0 where it is too long */
  bool too_long; /* the stream has gone on to the end of the row */
  int ended_by;  /* the byte that ended it; -1: the end of the file */
} hr_extent;
typedef bool (*hr_row_ends)(void *state, char byte);
hr_status hr__rows_extent(hr_stream *stream, hr_row_ends ends, void *state, hr_extent *out, hr_error *err);
/* The message for one that is too long. */
hr_status hr__rows_too_long(const hr_rows *rows, hr_row *row);

#endif
