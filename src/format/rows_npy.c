/* Rows of an .npy file with two axes: each is one list of integers, `input_ids`. */
#include <stdio.h>

#include "format/rows_file.h"

enum { MOST_COLUMNS = HR_DOC_MAX_NODES - 2 };

static hr_status npy_begin(hr_rows *rows, hr_error *err) {
  hr_stream *stream = &rows->stream;
  bool there;
  HR_TRY(hr__stream_see(stream, HR_NPY_HEAD - 1, &there, err)); /* or all there is */
  HR_TRY(hr__npy_head(stream->path, stream->window + stream->at, stream->filled - stream->at, stream->file_bytes,
                      &rows->npy, err));
  if (rows->npy.rank != 2)
    return hr__fail(err, HR_BAD_INPUT, stream->path, "save it with one row for each sample: array.reshape(samples, -1)",
                    "rows need two axes, and this array has %d", rows->npy.rank);
  if (rows->npy.dim[1] > MOST_COLUMNS)
    return hr__fail(err, HR_BAD_INPUT, stream->path, NULL, "rows of more than %d elements", MOST_COLUMNS);
  hr__stream_go(stream, (hr_place){rows->npy.data_begin, 1, 1});
  return HR_OK;
}

static hr_status element_add(hr_rows *rows, size_t index, hr_arena *arena, hr_row *row, hr_doc_node ***tail) {
  int64_t value;
  char digits[24];
  const unsigned char *elements = (const unsigned char *)rows->stream.window + rows->stream.at;
  if (!hr__npy_element(&rows->npy, elements, index, &value))
    return hr__fail(&row->why, HR_BAD_INPUT, rows->stream.path, NULL, "row %llu, element %zu has more than 63 bits",
                    (unsigned long long)row->number, index);
  snprintf(digits, sizeof digits, "%lld", (long long)value);
  hr_doc_node *node = hr__arena_alloc(arena, sizeof *node);
  if (!node || !(node->text = hr__arena_text(arena, digits))) return hr__nomem(&row->why);
  **tail = node;
  *tail = &node->next;
  return HR_OK;
}

static hr_status npy_next(hr_rows *rows, hr_arena *arena, hr_row *row, bool *there, hr_error *err) {
  hr_stream *stream = &rows->stream;
  size_t columns = (size_t)rows->npy.dim[1], bytes = columns * (size_t)rows->npy.width;
  if (row->number >= (uint64_t)rows->npy.dim[0]) return HR_OK;
  if (bytes) HR_TRY(hr__stream_see(stream, bytes - 1, there, err));
  if (bytes && !*there)
    return hr__fail(err, HR_BAD_INPUT, stream->path, "fetch or write the file again", "the file has become shorter");
  *there = true;
  hr_doc_node *map = hr__arena_alloc(arena, sizeof *map), *list = hr__arena_alloc(arena, sizeof *list);
  if (!map || !list) return hr__nomem(err);
  map->kind = HR_DOC_MAP;
  map->child = list;
  list->kind = HR_DOC_LIST;
  list->key = "input_ids";
  hr_doc_node **tail = &list->child;
  hr_status status = HR_OK;
  for (size_t i = 0; i < columns && status == HR_OK; i++)
    status = element_add(rows, i, arena, row, &tail);
  stream->place.byte += bytes; /* there are no lines */
  stream->at += bytes;
  if (status == HR_NOMEM) return hr__nomem(err);
  if (status == HR_OK) row->fields = map;
  return hr__rows_bad(row, status);
}

const hr_row_format hr__rows_npy = {.name = "npy", .begin = npy_begin, .next = npy_next};
