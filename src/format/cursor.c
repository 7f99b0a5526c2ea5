/* Places in a text: see format/cursor.h. */
#include "format/cursor.h"

#include <stdbool.h>

hr_cursor hr__cursor(const char *text, size_t bytes) {
  return (hr_cursor){.text = text, .bytes = bytes, .line = 1, .column = 1};
}

static bool continuation(const hr_cursor *at) {
  return at->byte < at->bytes && ((unsigned char)at->text[at->byte] & 0xc0) == 0x80;
}

void hr__cursor_step(hr_cursor *at) {
  char c = at->text[at->byte++];
  while (continuation(at))
    at->byte++;
  at->index++;
  bool breaks = c == '\n' || (c == '\r' && !(at->byte < at->bytes && at->text[at->byte] == '\n'));
  at->line += breaks;
  at->column = breaks ? 1 : at->column + 1;
}

void hr__cursor_to_index(hr_cursor *at, size_t index) {
  if (index < at->index) *at = hr__cursor(at->text, at->bytes);
  while (at->index < index && at->byte < at->bytes)
    hr__cursor_step(at);
}

void hr__cursor_to_byte(hr_cursor *at, size_t byte) {
  if (byte < at->byte) *at = hr__cursor(at->text, at->bytes);
  while (at->byte < byte && at->byte < at->bytes)
    hr__cursor_step(at);
}
