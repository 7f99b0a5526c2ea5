/* Rows of a file that are no good: counted and left out as far as data.bad_rows allows, refused above that. */
#ifndef HR_DATA_BAD_ROWS_H
#define HR_DATA_BAD_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hr_bad_rows {
  double allowed;     /* data.bad_rows: the part of all rows that may be bad */
  uint64_t rows, bad; /* whoever reads counts `rows` */
  hr_error first;     /* bad one */
  char shown[384];    /* the first ones: "file:3: reason; file:9: reason" */
} hr_bad_rows;

/* Whether more than the part `allowed` of all rows are bad. */
bool hr__rows_too_bad(uint64_t rows, uint64_t bad, double allowed);

/* Notes a bad row. HR_BAD_INPUT at once where none may be; else all are read before they are judged. */
hr_status hr__bad_row(hr_bad_rows *rows, const hr_error *why, hr_error *err);
/* HR_BAD_INPUT, at the place of the first one, where there are more than may be. */
hr_status hr__bad_rows_judge(const hr_bad_rows *rows, hr_error *err);

#endif
