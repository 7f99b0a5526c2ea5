/* A JSON object of which one member is a long list of short lists of whole numbers: a table that would be too large as
 * a tree. The member's rows are read one after the other where they lie; the rest of the object is a document as any
 * other, with an empty list in their place.
 *
 * Numbers are whole, not negative, and below 2^64. What is not such a row is an error with its line.
 */
#ifndef HR_FORMAT_NUMBER_ROWS_H
#define HR_FORMAT_NUMBER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "format/doc.h"

enum { HR_NUMBER_ROW = 8 }; /* numbers that a row has at most */

typedef struct hr_number_rows {
  const char *name; /* of the file, for places */
  const char *text;
  size_t bytes;  /* of the text */
  size_t at;     /* the next byte */
  size_t number; /* of the next row */
  bool ended;
} hr_number_rows;

/* `text` must outlive the rows. Where the object has no such member, *there is false. `skipped`: another list of any
 * length that nobody reads, empty in `rest` as well; NULL: there is none. */
hr_status hr__number_rows_open(const char *name, const char *text, size_t bytes, const char *member,
                               const char *skipped, hr_arena *arena, hr_doc_node **rest, hr_number_rows *rows,
                               bool *there, hr_error *err);
/* The next row; *there is false behind the last one. */
hr_status hr__number_rows_next(hr_number_rows *rows, uint64_t numbers[HR_NUMBER_ROW], size_t *count, bool *there,
                               hr_error *err);
/* "name:line" of the row that was read last. */
const char *hr__number_rows_place(const hr_number_rows *rows, char out[HR_DOC_PLACE]);

#endif
