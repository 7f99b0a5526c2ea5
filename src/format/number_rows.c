#include "format/number_rows.h"

#include <stdio.h>
#include <string.h>

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t space_skip(const char *text, size_t bytes, size_t at) {
  while (at < bytes && is_space(text[at]))
    at++;
  return at;
}

/* Behind a string that begins here, or `bytes` where it does not end. */
static size_t string_skip(const char *text, size_t bytes, size_t at) {
  for (at++; at < bytes && text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at < bytes ? at + 1 : bytes;
}

/* Behind a value of any kind. What is wrong inside is for the parser to say. */
static size_t value_skip(const char *text, size_t bytes, size_t at) {
  size_t depth = 0;
  while (at < bytes) {
    char c = text[at];
    if (c == '"') {
      at = string_skip(text, bytes, at);
    } else if (c == '[' || c == '{') {
      depth++;
      at++;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return at;
      depth--;
      at++;
    } else if (depth == 0 && c == ',') {
      return at;
    } else {
      at++;
      continue;
    }
    if (depth == 0 && c != ',') return at;
  }
  return bytes;
}

typedef struct range {
  size_t begin, end;
} range;

/* The value of a member of the outermost object. */
static bool member_find(const char *text, size_t bytes, const char *member, range *found) {
  size_t length = strlen(member), at = space_skip(text, bytes, 0);
  if (at == bytes || text[at] != '{') return false;
  for (at = space_skip(text, bytes, at + 1); at < bytes && text[at] == '"';) {
    size_t key = at + 1, end = string_skip(text, bytes, at);
    bool same = end - key == length + 1 && memcmp(text + key, member, length) == 0;
    at = space_skip(text, bytes, end);
    if (at == bytes || text[at] != ':') return false;
    found->begin = space_skip(text, bytes, at + 1);
    found->end = value_skip(text, bytes, found->begin);
    if (same) return found->begin < bytes && text[found->begin] == '[';
    at = space_skip(text, bytes, found->end);
    if (at == bytes || text[at] != ',') return false;
    at = space_skip(text, bytes, at + 1);
  }
  return false;
}

/* A copy of the text with an empty list in place of a range. */
static char *without(const char *text, size_t bytes, range cut, hr_arena *arena, size_t *left) {
  size_t behind = bytes - cut.end;
  *left = cut.begin + 2 + behind;
  char *copy = hr__arena_alloc(arena, *left + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, cut.begin);
  memcpy(copy + cut.begin, "[]", 2);
  memcpy(copy + cut.begin + 2, text + cut.end, behind);
  return copy;
}

hr_status hr__number_rows_open(const char *name, const char *text, size_t bytes, const char *member,
                               const char *skipped, hr_arena *arena, hr_doc_node **rest, hr_number_rows *rows,
                               bool *there, hr_error *err) {
  range found;
  *there = member_find(text, bytes, member, &found);
  if (*there) {
    *rows = (hr_number_rows){.name = name, .text = text, .bytes = found.end, .at = found.begin};
    text = without(text, bytes, found, arena, &bytes);
    if (text == NULL) return hr__nomem(err);
  }
  if (skipped && member_find(text, bytes, skipped, &found)) {
    text = without(text, bytes, found, arena, &bytes);
    if (text == NULL) return hr__nomem(err);
  }
  return hr__json_parse(name, text, bytes, arena, rest, err);
}

const char *hr__number_rows_place(const hr_number_rows *rows, char out[HR_DOC_PLACE]) {
  size_t line = 1, end = rows->at < rows->bytes ? rows->at : rows->bytes;
  for (size_t i = 0; i < end; i++)
    line += rows->text[i] == '\n';
  snprintf(out, HR_DOC_PLACE, "%.200s:%zu", rows->name, line);
  return out;
}

static hr_status refuse(const hr_number_rows *rows, const char *wanted, hr_error *err) {
  char place[HR_DOC_PLACE], found[16] = "the end";
  if (rows->at < rows->bytes) snprintf(found, sizeof found, "'%c'", rows->text[rows->at]);
  return hr__fail(err, HR_BAD_INPUT, hr__number_rows_place(rows, place), "write the file again",
                  "row %zu of the table: %s was to come, here is %s", rows->number, wanted, found);
}

/* The next byte that is no space, without going on; 0 at the end. */
static char peek(hr_number_rows *rows) {
  rows->at = space_skip(rows->text, rows->bytes, rows->at);
  return rows->at < rows->bytes ? rows->text[rows->at] : '\0';
}

static hr_status number_read(hr_number_rows *rows, uint64_t *number, hr_error *err) {
  char c = peek(rows);
  if (c < '0' || c > '9') return refuse(rows, "a whole number", err);
  size_t begin = rows->at;
  for (*number = 0; rows->at < rows->bytes; rows->at++) {
    unsigned digit = (unsigned char)rows->text[rows->at] - (unsigned)'0';
    if (digit > 9) break;
    if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, digit, number))
      return refuse(rows, "a number below 2^64", err);
  }
  if (c == '0' && rows->at - begin > 1) return refuse(rows, "a number without 0 in front", err);
  return HR_OK;
}

static hr_status row_read(hr_number_rows *rows, uint64_t numbers[HR_NUMBER_ROW], size_t *count, hr_error *err) {
  rows->at++; /* the bracket */
  for (*count = 0;;) {
    if (*count == HR_NUMBER_ROW) return refuse(rows, "the end of the row", err);
    HR_TRY(number_read(rows, &numbers[(*count)++], err));
    char c = peek(rows);
    if (c != ',' && c != ']') return refuse(rows, "a comma or ]", err);
    rows->at++;
    if (c == ']') return HR_OK;
  }
}

hr_status hr__number_rows_next(hr_number_rows *rows, uint64_t numbers[HR_NUMBER_ROW], size_t *count, bool *there,
                               hr_error *err) {
  *there = false;
  if (rows->ended) return HR_OK;
  char c = peek(rows);
  bool first = rows->number == 0;
  if (first) {
    rows->at++; /* [ of the table, which is why it is one */
    c = peek(rows);
  }
  if (c == ']' && rows->at + 1 == rows->bytes) {
    rows->ended = true;
    return HR_OK;
  }
  if (!first) {
    if (c != ',') return refuse(rows, "a comma or the end of the table", err);
    rows->at++;
    c = peek(rows);
  }
  rows->number++;
  if (c != '[') return refuse(rows, "a row in brackets", err);
  HR_TRY(row_read(rows, numbers, count, err));
  *there = true;
  return HR_OK;
}
