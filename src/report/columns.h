/* Columns of whole numbers in a page, as one text of base64 each. Layers of a model are alike, so what repeats is
 * written once: a column is pieces, each a count of numbers and these numbers, then how many more are copied, and from
 * how far back (as in LZ77; the last piece may end before that). A number takes seven bits a byte, the lowest first;
 * the highest bit of a byte says that more follow. Signed numbers are folded: 0, -1, 1, -2 are 0, 1, 2, 3. 70,000
 * buffers are some hundred KiB that way, and a page reads them in milliseconds.
 *
 * A column that could not grow stays failed, so that only its end needs a look. */
#ifndef HR_REPORT_COLUMNS_H
#define HR_REPORT_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_column {
  uint64_t *numbers;
  size_t count, capacity;
  uint64_t last; /* number before, of those that are written as differences */
  bool failed;
} hr_column;

void hr__column_add(hr_column *column, uint64_t number);
void hr__column_add_signed(hr_column *column, int64_t number);
/* As the signed difference from the number that was added so before. */
void hr__column_add_next(hr_column *column, uint64_t number);

/* The text, and the end of the column; NULL: out of memory. */
json_t *hr__column_end(hr_column *column);

#endif
