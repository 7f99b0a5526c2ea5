/* Which format a file has, and what is common to all of them. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "format/rows_file.h"

#define PYTHON(code) "python -c \"" code "\""

/* Formats that are not read, by their first bytes. */
static const struct {
  const char *magic;
  size_t bytes;
  const char *what, *remedy;
} others[] = {
    {"PAR1", 4, "a parquet file, which is not read",
     "convert it: " PYTHON("import pandas; pandas.read_parquet('IN.parquet').to_json('OUT.jsonl', orient='records', "
                           "lines=True, force_ascii=False)")},
    {"ARROW1", 6, "an arrow file, which is not read",
     "convert it: " PYTHON("import pandas; pandas.read_feather('IN.arrow').to_json('OUT.jsonl', orient='records', "
                           "lines=True, force_ascii=False)")},
    {"\x1f\x8b", 2, "a file compressed by gzip", "unpack it: gzip -d FILE"},
    {"\x28\xb5\x2f\xfd", 4, "a file compressed by zstd", "unpack it: zstd -d FILE"},
    {"PK\x03\x04", 4, "a zip archive (.npz, .xlsx, ...)", "unpack it, or save it as .jsonl, .csv or .npy"},
};

static bool ends_with(const char *name, const char *ending) {
  size_t bytes = strlen(name), length = strlen(ending);
  return bytes >= length && strcasecmp(name + bytes - length, ending) == 0;
}

static hr_status first_bytes(hr_stream *stream, const char **head, size_t *bytes, hr_error *err) {
  bool there;
  HR_TRY(hr__stream_see(stream, 4095, &there, err));         /* or all there is */
  *head = stream->window ? stream->window + stream->at : ""; /* an empty file has no window */
  *bytes = stream->filled - stream->at;
  return HR_OK;
}

static hr_status format_find(hr_rows *rows, hr_error *err) {
  const char *head = NULL, *path = rows->stream.path;
  size_t bytes = 0;
  HR_TRY(first_bytes(&rows->stream, &head, &bytes, err));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (bytes >= others[i].bytes && memcmp(head, others[i].magic, others[i].bytes) == 0)
      return hr__fail(err, HR_UNSUPPORTED, path, others[i].remedy, "%s", others[i].what);
  if (bytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0) {
    rows->format = &hr__rows_npy;
    return HR_OK;
  }
  if (bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
    hr__stream_go(&rows->stream, (hr_place){3, 1, 1});
    head += 3;
    bytes -= 3;
  }
  size_t blank = 0;
  while (blank < bytes && memchr(" \t\r\n", head[blank], 4))
    blank++;
  char first = blank < bytes ? head[blank] : 0;
  rows->separator = ends_with(path, ".tsv") ? '\t' : ',';
  if (ends_with(path, ".csv") || ends_with(path, ".tsv"))
    rows->format = &hr__rows_csv;
  else if (ends_with(path, ".jsonl") || ends_with(path, ".ndjson"))
    rows->format = &hr__rows_json_lines;
  else if (first == '{' || first == '[')
    rows->format = first == '[' ? &hr__rows_json_list : &hr__rows_json_lines;
  else if (ends_with(path, ".json"))
    rows->format = &hr__rows_json_lines;
  else
    return hr__fail(err, HR_UNSUPPORTED, path, "name it .jsonl, .json, .csv, .tsv or .npy after what it holds",
                    "neither its name nor its first bytes say what the file holds");
  return HR_OK;
}

static hr_status rows_begin(hr_rows *rows, hr_rows **out, hr_error *err) {
  hr_status status = format_find(rows, err);
  if (status == HR_OK && rows->format->begin) status = rows->format->begin(rows, err);
  if (status == HR_OK)
    *out = rows;
  else
    hr__rows_close(rows);
  return status;
}

hr_status hr__rows_open(const char *path, hr_rows **out, hr_error *err) {
  hr_rows *rows = hr__alloc_zero(1, sizeof *rows);
  if (!rows) return hr__nomem(err);
  hr_status status = hr__stream_open(path, &rows->stream, err);
  if (status == HR_OK) return rows_begin(rows, out, err);
  hr__free(rows);
  return status;
}

hr_status hr__rows_of(const char *name, const void *data, size_t bytes, hr_rows **out, hr_error *err) {
  hr_rows *rows = hr__alloc_zero(1, sizeof *rows);
  if (!rows) return hr__nomem(err);
  hr_status status = hr__stream_of(name, data, bytes, &rows->stream, err);
  if (status == HR_OK) return rows_begin(rows, out, err);
  hr__free(rows);
  return status;
}

void hr__rows_close(hr_rows *rows) {
  if (!rows) return;
  hr__stream_close(&rows->stream);
  hr__arena_fini(&rows->arena);
  hr__free(rows);
}

uint64_t hr__rows_window(const hr_rows *rows) {
  return rows->stream.capacity;
}

uint64_t hr__rows_bytes(const hr_rows *rows) {
  return rows->stream.file_bytes;
}

const char *hr__rows_format(const hr_rows *rows) {
  return rows->format->name;
}

hr_status hr__rows_next(hr_rows *rows, hr_arena *arena, hr_row *out, bool *there, hr_error *err) {
  *out = (hr_row){.place = rows->stream.place, .number = rows->number};
  *there = false;
  HR_TRY(rows->format->next(rows, arena, out, there, err));
  rows->number += *there;
  return HR_OK;
}

hr_status hr__row_refuse(const hr_row *row, hr_error *err) {
  const char *remedy = row->why.remedy[0] ? row->why.remedy : "mend the row, or leave it out";
  return hr__fail(err, HR_BAD_INPUT, row->why.place, remedy, "%s", row->why.message);
}

void hr__rows_go(hr_rows *rows, const hr_row *row) {
  hr__stream_go(&rows->stream, row->place);
  rows->number = row->number;
  rows->closed = false;
}

hr_status hr__rows_bad(hr_row *row, hr_status status) {
  if (status != HR_BAD_INPUT) return status;
  row->fields = NULL;
  return HR_OK;
}

const char *hr__rows_place(const hr_rows *rows, const hr_row *row, char out[HR_DOC_PLACE]) {
  snprintf(out, HR_DOC_PLACE, "%.200s:%llu:%llu", rows->stream.path, (unsigned long long)row->place.line,
           (unsigned long long)row->place.column);
  return out;
}

hr_status hr__rows_too_long(const hr_rows *rows, hr_row *row) {
  char place[HR_DOC_PLACE];
  return hr__rows_bad(row, hr__fail(&row->why, HR_BAD_INPUT, hr__rows_place(rows, row, place), NULL,
                                    "a row of more than %d bytes", HR_DOC_MAX_BYTES));
}

hr_status hr__rows_extent(hr_stream *stream, hr_row_ends ends, void *state, hr_extent *out, hr_error *err) {
  *out = (hr_extent){.ended_by = -1};
  for (size_t ahead = 0;; ahead++) {
    bool there;
    HR_TRY(hr__stream_see(stream, ahead, &there, err));
    if (!there || ends(state, stream->window[stream->at + ahead])) {
      if (there) out->ended_by = (unsigned char)stream->window[stream->at + ahead];
      if (out->too_long) hr__stream_skip(stream, ahead);
      out->bytes = out->too_long ? 0 : ahead;
      return HR_OK;
    }
    if (ahead < HR_DOC_MAX_BYTES) continue;
    out->too_long = true;
    hr__stream_skip(stream, ahead + 1);
    ahead = SIZE_MAX; /* 0 in the next turn */
  }
}

bool hr__row_number(const hr_doc_node *node, double *out) {
  if (!node || node->kind != HR_DOC_SCALAR) return false;
  hr_doc_node plain = {.kind = HR_DOC_SCALAR, .text = node->text + strspn(node->text, " \t")};
  return hr__doc_float(&plain, out);
}
