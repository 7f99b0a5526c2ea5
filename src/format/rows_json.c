/* Rows as JSON: one object a line, or one list of objects. */
#include <limits.h>
#include <string.h>

#include "format/json.h"
#include "format/rows_file.h"

/* The object in the next `bytes` bytes as a row. */
static hr_status object_read(hr_rows *rows, size_t bytes, hr_arena *arena, hr_row *row) {
  hr_stream *stream = &rows->stream;
  hr_doc_node *fields = NULL;
  hr_json_start start = {.line = row->place.line > INT_MAX ? INT_MAX : (int)row->place.line,
                         .column = row->place.column > INT_MAX ? INT_MAX : (int)row->place.column};
  hr_status status =
      hr__json_parse_from(stream->path, start, stream->window + stream->at, bytes, arena, &fields, &row->why);
  if (status != HR_OK) return hr__rows_bad(row, status);
  if (fields->kind != HR_DOC_MAP) {
    char place[HR_DOC_PLACE];
    return hr__rows_bad(row, hr__fail(&row->why, HR_BAD_INPUT, hr__rows_place(rows, row, place), NULL,
                                      "a row is an object, {\"column\": value, ...}, and this is none"));
  }
  row->fields = fields;
  return HR_OK;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Goes over blanks; *there: something stands behind them. */
static hr_status blanks_skip(hr_stream *stream, bool *there, hr_error *err) {
  for (;;) {
    HR_TRY(hr__stream_see(stream, 0, there, err));
    if (!*there || !is_blank(stream->window[stream->at])) return HR_OK;
    hr__stream_skip(stream, 1);
  }
}

static bool line_ends(void *state, char byte) {
  (void)state;
  return byte == '\n';
}

/* Lines with nothing on them are no rows. */
static hr_status line_next(hr_rows *rows, hr_arena *arena, hr_row *row, bool *there, hr_error *err) {
  hr_stream *stream = &rows->stream;
  HR_TRY(blanks_skip(stream, there, err));
  if (!*there) return HR_OK;
  row->place = stream->place;
  hr_extent extent;
  HR_TRY(hr__rows_extent(stream, line_ends, NULL, &extent, err));
  HR_TRY(extent.too_long ? hr__rows_too_long(rows, row) : object_read(rows, extent.bytes, arena, row));
  hr__stream_skip(stream, extent.bytes + (extent.ended_by >= 0));
  return HR_OK;
}

const hr_row_format hr__rows_json_lines = {.name = "JSON lines", .next = line_next};

/* An item of the list ends before a comma or the closing bracket that are neither inside brackets nor in a text. */
typedef struct item_state {
  uint64_t depth;
  bool text, escaped;
} item_state;

static bool item_ends(void *state, char byte) {
  item_state *s = state;
  if (s->text) {
    if (s->escaped)
      s->escaped = false;
    else if (byte == '\\')
      s->escaped = true;
    else if (byte == '"')
      s->text = false;
    return false;
  }
  if (byte == '"') s->text = true;
  if (byte == '[' || byte == '{') s->depth++;
  if (s->depth == 0 && (byte == ',' || byte == ']')) return true;
  if ((byte == ']' || byte == '}') && s->depth) s->depth--;
  return false;
}

static hr_status list_begin(hr_rows *rows, hr_error *err) {
  bool there;
  HR_TRY(blanks_skip(&rows->stream, &there, err)); /* the bracket is there: that is how the format was found */
  hr__stream_skip(&rows->stream, 1);
  return HR_OK;
}

/* The file ends before its list does: said once, as a bad row. */
static hr_status list_unclosed(hr_rows *rows, hr_row *row, bool *there) {
  char place[HR_DOC_PLACE];
  rows->closed = *there = true;
  return hr__rows_bad(row, hr__fail(&row->why, HR_BAD_INPUT, hr__rows_place(rows, row, place),
                                    "fetch or write the file again", "the file ends before its list is closed by ]"));
}

/* Behind the closing bracket nothing may stand. The row that says so begins with the bracket, so that it can be gone
 * back to. */
static hr_status list_end(hr_rows *rows, hr_row *row, bool *there, hr_error *err) {
  hr_stream *stream = &rows->stream;
  rows->closed = true;
  hr__stream_skip(stream, 1);
  HR_TRY(blanks_skip(stream, there, err));
  if (!*there) return HR_OK;
  char place[HR_DOC_PLACE];
  hr_row behind = {.place = stream->place};
  HR_TRY(hr__rows_bad(row, hr__fail(&row->why, HR_BAD_INPUT, hr__rows_place(rows, &behind, place), NULL,
                                    "something stands behind the list, and is not read")));
  hr__stream_go(stream, (hr_place){stream->file_bytes, behind.place.line, behind.place.column});
  return HR_OK;
}

static hr_status item_next(hr_rows *rows, hr_arena *arena, hr_row *row, bool *there, hr_error *err) {
  hr_stream *stream = &rows->stream;
  HR_TRY(blanks_skip(stream, there, err));
  row->place = stream->place;
  if (!*there) return rows->closed ? HR_OK : list_unclosed(rows, row, there);
  if (stream->window[stream->at] == ']') return list_end(rows, row, there, err);
  item_state state = {0};
  hr_extent extent;
  HR_TRY(hr__rows_extent(stream, item_ends, &state, &extent, err));
  if (extent.too_long) {
    HR_TRY(hr__rows_too_long(rows, row));
  } else if (extent.ended_by < 0) {
    HR_TRY(list_unclosed(rows, row, there));
  } else {
    HR_TRY(object_read(rows, extent.bytes, arena, row));
  }
  hr__stream_skip(stream, extent.bytes + (extent.ended_by == ','));
  return HR_OK;
}

const hr_row_format hr__rows_json_list = {.name = "JSON list", .begin = list_begin, .next = item_next};
