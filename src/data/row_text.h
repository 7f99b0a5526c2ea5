/* Rows of a file (format/rows.h) as sources of records read them: one after the other, with texts by their keys, and
 * messages that say in which line. */
#ifndef HR_DATA_ROW_TEXT_H
#define HR_DATA_ROW_TEXT_H

#include "format/rows.h"

typedef struct hr_row_at {
  const char *path; /* of the file */
  const hr_row *row;
} hr_row_at;

/* Told of each row in order; it is there until the call returns. */
typedef hr_status (*hr_each_row)(void *user, const hr_row_at *at, hr_error *err);
hr_status hr__rows_each(const char *path, hr_each_row each, void *user, hr_error *err);

/* "FILE:LINE", shortened where it is too long. */
enum { HR_ROW_PLACE = 4200 };
const char *hr__row_place(const char *path, uint64_t line, char out[HR_ROW_PLACE]);
/* HR_BAD_INPUT at the row; `message` has one %s, for `what`. */
hr_status hr__row_fail(const hr_row_at *at, const char *remedy, hr_error *err, const char *message, const char *what);
/* What is wrong with a row that could not be parsed, which has no fields. */
hr_status hr__row_parsed(const hr_row_at *at, hr_error *err);
/* A text as it lies in the row; NULL where it is absent and need not be there. */
hr_status hr__row_text(const hr_row_at *at, const char *key, bool needed, const char **out, hr_error *err);

#endif
