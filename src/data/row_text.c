/* See row_text.h. */
#include "data/row_text.h"

#include <inttypes.h>
#include <stdio.h>

hr_status hr__rows_each(const char *path, hr_each_row each, void *user, hr_error *err) {
  hr_rows *rows = NULL;
  bool there = true;
  HR_TRY(hr__rows_open(path, &rows, err));
  hr_status status = HR_OK;
  while (status == HR_OK && there) {
    hr_arena arena;
    hr_row row = {0};
    hr__arena_init(&arena);
    status = hr__rows_next(rows, &arena, &row, &there, err);
    if (status == HR_OK && there) status = each(user, &(hr_row_at){path, &row}, err);
    hr__arena_fini(&arena);
  }
  hr__rows_close(rows);
  return status;
}

const char *hr__row_place(const char *path, uint64_t line, char out[HR_ROW_PLACE]) {
  snprintf(out, HR_ROW_PLACE, "%.4000s:%" PRIu64, path, line);
  return out;
}

hr_status hr__row_fail(const hr_row_at *at, const char *remedy, hr_error *err, const char *message, const char *what) {
  char place[HR_ROW_PLACE];
  return hr__fail(err, HR_BAD_INPUT, hr__row_place(at->path, at->row->place.line, place), remedy, message, what);
}

hr_status hr__row_parsed(const hr_row_at *at, hr_error *err) {
  const hr_row *row = at->row;
  return row->fields ? HR_OK : hr__fail(err, HR_BAD_INPUT, row->why.place, row->why.remedy, "%s", row->why.message);
}

hr_status hr__row_text(const hr_row_at *at, const char *key, bool needed, const char **out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, key);
  *out = NULL;
  if (!node || hr__doc_is_null(node)) return needed ? hr__row_fail(at, NULL, err, "%s is missing", key) : HR_OK;
  if (node->kind != HR_DOC_SCALAR) return hr__row_fail(at, "write it as a text", err, "%s is not a text", key);
  *out = node->text;
  return HR_OK;
}
