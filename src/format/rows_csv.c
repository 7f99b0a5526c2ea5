/* Rows of a CSV file with a header, as RFC 4180 has it: fields in quotes may hold separators, newlines and doubled
 * quotes; lines end with LF or CR LF. A field without quotes and without anything in it is null. */
#include <stdio.h>
#include <string.h>

#include "format/rows_file.h"

enum { MOST_COLUMNS = 4096 };

/* A row ends with the line, unless a field in quotes goes on. */
typedef struct line_state {
  char separator;
  enum { AT_FIELD, PLAIN, QUOTED, CLOSED } where; /* closed: behind a quote that doubles or ends the field */
} line_state;

static bool line_ends(void *state, char byte) {
  line_state *s = state;
  if (s->where == QUOTED) {
    if (byte == '"') s->where = CLOSED;
    return false;
  }
  if (byte == '"' && s->where != PLAIN)
    s->where = QUOTED;
  else
    s->where = byte == s->separator ? AT_FIELD : PLAIN;
  return byte == '\n';
}

/* One row as it stands in the window: fields are cut out of it one after the other. */
typedef struct fields {
  const char *at, *end;
  char separator;
  int line;   /* of `at` */
  bool more;  /* a field stands behind the last separator */
  char *room; /* for what is left: a field with its NUL is never longer than what it was with its separator */
} fields;

/* The next field, without its quotes; NULL: malformed, *fault says how. */
static char *field_next(fields *f, bool *quotes, const char **fault) {
  char *out = f->room, *to = out;
  *fault = NULL;
  *quotes = f->at < f->end && *f->at == '"';
  if (*quotes) {
    for (f->at++;; f->at++) {
      if (f->at == f->end) {
        *fault = "a quote that is opened here is not closed";
        return NULL;
      }
      if (*f->at == '"' && !(f->at + 1 < f->end && f->at[1] == '"')) break;
      f->at += *f->at == '"';
      f->line += *f->at == '\n';
      *to++ = *f->at;
    }
    f->at++;
    if (f->at < f->end && *f->at != f->separator) {
      *fault = "something stands between a closing quote and the end of its field";
      return NULL;
    }
  } else {
    while (f->at < f->end && *f->at != f->separator)
      *to++ = *f->at++;
  }
  *to = 0;
  f->room = to + 1;
  f->more = f->at < f->end;
  f->at += f->more;
  if (memchr(out, 0, (size_t)(to - out)) || hr__utf8_check(out, (size_t)(to - out)) != (size_t)(to - out)) {
    *fault = "a field is not UTF-8 text";
    return NULL;
  }
  return out;
}

/* Finds the row at the stream's place; *there: there is one. Empty lines are none. */
static hr_status row_find(hr_rows *rows, hr_row *row, hr_extent *extent, bool *there, hr_error *err) {
  hr_stream *stream = &rows->stream;
  for (;;) {
    HR_TRY(hr__stream_see(stream, 0, there, err));
    row->place = stream->place;
    if (!*there) return HR_OK;
    line_state state = {.separator = rows->separator};
    HR_TRY(hr__rows_extent(stream, line_ends, &state, extent, err));
    const char *text = stream->window + stream->at;
    bool blank = !extent->too_long && (extent->bytes == 0 || (extent->bytes == 1 && text[0] == '\r'));
    if (!blank) return HR_OK;
    hr__stream_skip(stream, extent->bytes + (extent->ended_by >= 0));
  }
}

static hr_status fields_of(const hr_rows *rows, const hr_row *row, const hr_extent *extent, hr_arena *arena,
                           fields *out, hr_error *err) {
  const char *text = rows->stream.window + rows->stream.at;
  size_t bytes = extent->bytes;
  if (bytes && text[bytes - 1] == '\r') bytes--;
  *out = (fields){
      .at = text, .end = text + bytes, .separator = rows->separator, .line = (int)row->place.line, .more = true};
  out->room = hr__arena_room(arena, bytes + 1, 1);
  return out->room ? HR_OK : hr__nomem(err);
}

static hr_status bad(const hr_rows *rows, hr_row *row, int line, const char *fault) {
  char place[HR_DOC_PLACE];
  snprintf(place, sizeof place, "%.200s:%d", rows->stream.path, line);
  return hr__fail(&row->why, HR_BAD_INPUT, place, NULL, "%s", fault);
}

static hr_status names_read(hr_rows *rows, hr_row *row, const hr_extent *extent, hr_error *err) {
  fields f;
  size_t capacity = 0;
  HR_TRY(fields_of(rows, row, extent, &rows->arena, &f, err));
  while (f.more) {
    bool quotes;
    const char *fault, *name = field_next(&f, &quotes, &fault);
    if (name && !name[0]) fault = "a column has no name";
    if (rows->columns == MOST_COLUMNS) fault = "more than 4096 columns";
    for (size_t i = 0; name && !fault && i < rows->columns; i++)
      if (strcmp(rows->names[i], name) == 0) fault = "two columns have the same name";
    if (fault) {
      bad(rows, row, f.line, fault);
      return hr__fail(err, HR_BAD_INPUT, row->why.place, "the first line names the columns", "%s", fault);
    }
    if (hr__arena_grow(&rows->arena, (void **)&rows->names, &capacity, rows->columns, sizeof *rows->names) != 0)
      return hr__nomem(err);
    rows->names[rows->columns++] = name;
  }
  return HR_OK;
}

static hr_status csv_begin(hr_rows *rows, hr_error *err) {
  hr_row row = {0};
  hr_extent extent;
  bool there;
  HR_TRY(row_find(rows, &row, &extent, &there, err));
  if (!there || extent.too_long)
    return hr__fail(err, HR_BAD_INPUT, rows->stream.path, "the first line names the columns", "the file has no header");
  HR_TRY(names_read(rows, &row, &extent, err));
  hr__stream_skip(&rows->stream, extent.bytes + (extent.ended_by >= 0));
  return HR_OK;
}

static hr_status fields_read(hr_rows *rows, const hr_extent *extent, hr_arena *arena, hr_row *row) {
  fields f;
  HR_TRY(fields_of(rows, row, extent, arena, &f, &row->why));
  hr_doc_node *map = hr__arena_alloc(arena, sizeof *map);
  if (!map) return hr__nomem(&row->why);
  map->kind = HR_DOC_MAP;
  map->line = f.line;
  hr_doc_node **tail = &map->child;
  size_t count = 0;
  while (f.more) {
    bool quotes;
    const char *fault;
    int line = f.line;
    char *text = field_next(&f, &quotes, &fault);
    if (fault) return bad(rows, row, line, fault);
    hr_doc_node *node = hr__arena_alloc(arena, sizeof *node);
    if (!node) return hr__nomem(&row->why);
    *node = (hr_doc_node){.text = text,
                          .quoted = quotes || text[0],
                          .line = line,
                          .key_line = line,
                          .key = count < rows->columns ? rows->names[count] : ""};
    *tail = node;
    tail = &node->next;
    if (++count > MOST_COLUMNS) break;
  }
  if (count != rows->columns) {
    char fault[80];
    snprintf(fault, sizeof fault, "%zu fields where the header names %zu columns", count, rows->columns);
    return bad(rows, row, (int)row->place.line, fault);
  }
  row->fields = map;
  return HR_OK;
}

/* A quote that is never closed takes in all that follows: of such a row only its first line is given up. */
static hr_status unclosed_skip(hr_rows *rows, const hr_row *row, hr_error *err) {
  hr_stream *stream = &rows->stream;
  hr__stream_go(stream, row->place);
  for (bool there = true;;) {
    HR_TRY(hr__stream_see(stream, 0, &there, err));
    if (!there) return HR_OK;
    bool newline = stream->window[stream->at] == '\n';
    hr__stream_skip(stream, 1);
    if (newline) return HR_OK;
  }
}

static hr_status csv_next(hr_rows *rows, hr_arena *arena, hr_row *row, bool *there, hr_error *err) {
  hr_extent extent;
  HR_TRY(row_find(rows, row, &extent, there, err));
  if (!*there) return HR_OK;
  if (extent.too_long) {
    HR_TRY(hr__rows_too_long(rows, row));
    return unclosed_skip(rows, row, err);
  }
  hr_status status = fields_read(rows, &extent, arena, row);
  if (status == HR_NOMEM) return hr__nomem(err);
  bool unclosed = status != HR_OK && extent.ended_by < 0;
  if (!unclosed) hr__stream_skip(&rows->stream, extent.bytes + (extent.ended_by >= 0));
  HR_TRY(hr__rows_bad(row, status));
  return unclosed ? unclosed_skip(rows, row, err) : HR_OK;
}

const hr_row_format hr__rows_csv = {.name = "CSV", .begin = csv_begin, .next = csv_next};
