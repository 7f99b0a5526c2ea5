/* Configs that readers more lenient than JSON accept: comments and commas before a closing bracket; and infinite
 * numbers, which Python writes although JSON has no words for them. */
#include <stdbool.h>
#include <string.h>

#include "format/json.h"

/* The end of the comment that begins at `at`; `at` itself where none does. Line breaks are not part of one of a line.
 */
static size_t comment_end(const char *text, size_t bytes, size_t at) {
  bool pair = text[at] == '/' && at + 1 < bytes;
  if (text[at] == '#' || (pair && text[at + 1] == '/')) {
    while (at < bytes && text[at] != '\n' && text[at] != '\r')
      at++;
  } else if (pair && text[at + 1] == '*') {
    const char *end = memmem(text + at + 2, bytes - at - 2, "*/", 2);
    return end ? (size_t)(end - text) + 2 : bytes;
  }
  return at;
}

/* Behind a string that begins at `at`. */
static size_t string_end(const char *text, size_t bytes, size_t at) {
  for (at++; at < bytes && text[at] != '"'; at++)
    at += text[at] == '\\';
  return at < bytes ? at + 1 : bytes;
}

const char *hr__json_strict(const char *text, size_t bytes, hr_arena *arena) {
  char *out = hr__arena_alloc(arena, bytes + 1);
  if (!out) return NULL;
  memcpy(out, text, bytes);
  char *comma = NULL; /* behind which only space has come so far */
  for (size_t at = 0, end; at < bytes; at = end) {
    end = comment_end(text, bytes, at);
    if (end > at) {
      for (size_t i = at; i < end; i++)
        if (text[i] != '\n' && text[i] != '\r') out[i] = ' ';
      continue;
    }
    end = text[at] == '"' ? string_end(text, bytes, at) : at + 1;
    if (comma && (text[at] == '}' || text[at] == ']')) *comma = ' ';
    if (!strchr(" \t\r\n", text[at])) comma = text[at] == ',' ? out + at : NULL;
  }
  return out;
}

const char *hr__json_finite(const char *text, size_t bytes, hr_arena *arena) {
  static const char *const words[] = {"-Infinity", "Infinity"};
  char *out = hr__arena_alloc(arena, bytes + 1);
  if (!out) return NULL;
  memcpy(out, text, bytes);
  out[bytes] = 0;
  for (size_t at = 0, end; at < bytes; at = end) {
    end = text[at] == '"' ? string_end(text, bytes, at) : at + 1;
    for (size_t i = 0; i < sizeof words / sizeof *words && text[at] != '"'; i++) {
      size_t length = strlen(words[i]);
      if (bytes - at < length || memcmp(text + at, words[i], length) != 0) continue;
      memset(out + at, ' ', length);
      memcpy(out + at, "null", 4);
      end = at + length;
      break;
    }
  }
  return out;
}
