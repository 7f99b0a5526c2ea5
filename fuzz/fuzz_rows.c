/* Rows of training data. The first byte says which ending the file's name has; the rest is the file. Reading ends, each
 * row stands behind the one before it, and going back to a row gives it again. With HR_FUZZ_ROWS=t.csv in the
 * environment all files have that name, whatever the first byte: so inputs of one format are counted. */
#include <stdlib.h>
#include <string.h>

#include "demand.h"
#include "doc_text.h"
#include "format/rows.h"

static const char *const names[] = {"t.jsonl", "t.json", "t.csv", "t.tsv", "t.npy", "t"};

static void row_check(const hr_row *row, uint64_t number) {
  DEMAND(row->number == number);
  if (row->fields)
    DEMAND(row->fields->kind == HR_DOC_MAP);
  else
    DEMAND(row->why.status == HR_BAD_INPUT && row->why.message[0] && row->why.place[0]);
}

/* The row again, from its place; then on behind it. */
static void row_again(hr_rows *rows, const hr_row *row) {
  hr_arena arena = {0};
  hr_row again;
  hr_error err = {0};
  bool there;
  hr__rows_go(rows, row);
  DEMAND(hr__rows_next(rows, &arena, &again, &there, &err) == HR_OK && there);
  DEMAND(again.number == row->number && again.place.byte == row->place.byte && again.place.line == row->place.line);
  DEMAND(!again.fields == !row->fields);
  if (row->fields) doc_same(row->fields, again.fields);
  hr__arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *name = getenv("HR_FUZZ_ROWS");
  if (!size || (!name && data[0] >= sizeof names / sizeof names[0])) return 0;
  if (!name) name = names[data[0]];
  hr_rows *rows = NULL;
  hr_error err = {0};
  hr_status status = hr__rows_of(name, data + 1, size - 1, &rows, &err);
  DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_UNSUPPORTED) && err.message[0] && err.place[0]));
  bool there = status == HR_OK;
  uint64_t byte = 0;
  for (uint64_t number = 0; there && number < 2 * size + 4; number++) {
    hr_arena arena = {0};
    hr_row row;
    DEMAND(hr__rows_next(rows, &arena, &row, &there, &err) == HR_OK);
    if (there) {
      row_check(&row, number);
      DEMAND(row.place.byte >= byte && row.place.byte <= size - 1);
      byte = row.place.byte;
      row_again(rows, &row);
    }
    hr__arena_fini(&arena);
  }
  DEMAND(!there || strcmp(hr__rows_format(rows), "npy") == 0); /* which may have any number of rows of nothing */
  hr__rows_close(rows);
  return 0;
}
