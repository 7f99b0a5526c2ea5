/* Where the values of a JSON text stand: jansson does not say.
 *
 * The text is one that jansson has accepted and the tree is made from it, so its shape is known to be right: the walk
 * only has to follow it. The tree's depth is capped (format/doc.h), and so is the recursion.
 */
#include <stdbool.h>
#include <string.h>

#include "format/cursor.h"
#include "format/json.h"

static bool among(const hr_cursor *at, const char *set) {
  return at->byte < at->bytes && at->text[at->byte] && strchr(set, at->text[at->byte]);
}

/* Moves over what is in `set`, or up to it. */
static void skip(hr_cursor *at, const char *set, bool inside) {
  while (at->byte < at->bytes && among(at, set) == inside)
    hr__cursor_step(at);
}

static void step(hr_cursor *at) {
  if (at->byte < at->bytes) hr__cursor_step(at);
}

/* Most of a file is texts. They hold no line break, so that places are counted without looking for one. */
static void string_skip(hr_cursor *at) {
  step(at);
  size_t byte = at->byte, characters = 0;
  for (; byte < at->bytes && at->text[byte] != '"'; byte++) {
    bool escape = at->text[byte] == '\\' && byte + 1 < at->bytes;
    byte += escape;
    characters += escape;
    characters += ((unsigned char)at->text[byte] & 0xc0) != 0x80;
  }
  at->byte = byte;
  at->index += characters;
  at->column += (int)characters;
  step(at);
}

static const char space[] = " \t\r\n", between[] = ", \t\r\n", behind_key[] = ": \t\r\n";

static void place(hr_cursor *at, hr_doc_node *node) {
  node->line = at->line;
  node->column = at->column;
  node->begin = at->byte;
  bool map = node->kind == HR_DOC_MAP;
  if (node->kind != HR_DOC_SCALAR) {
    node->style = HR_DOC_FLOW;
    step(at);
    for (hr_doc_node *child = node->child; child; child = child->next) {
      skip(at, between, true);
      hr_cursor key = *at;
      if (map) {
        string_skip(at);
        skip(at, behind_key, true);
      }
      place(at, child);
      child->key_begin = key.byte;
      child->key_line = key.line;
      child->key_column = key.column;
    }
    skip(at, space, true);
    step(at);
  } else if (node->quoted) {
    node->style = HR_DOC_DOUBLE;
    string_skip(at);
  } else {
    skip(at, ",]} \t\r\n", false);
  }
  node->end = at->byte;
}

void hr__json_places(const char *text, size_t bytes, hr_json_start start, hr_doc_node *root) {
  hr_cursor at = hr__cursor(text, bytes);
  at.line = start.line;
  at.column = start.column;
  skip(&at, space, true);
  root->key_line = at.line;
  root->key_column = at.column;
  root->key_begin = at.byte;
  place(&at, root);
}

/* Moves over one value, whatever it holds. */
static void value_skip(hr_cursor *at) {
  if (among(at, "\"")) {
    string_skip(at);
  } else if (!among(at, "[{")) {
    skip(at, ",]} \t\r\n", false);
  } else {
    size_t depth = 0;
    do {
      if (among(at, "\"")) {
        string_skip(at);
        continue;
      }
      if (among(at, "[{"))
        depth++;
      else if (among(at, "]}"))
        depth--;
      step(at);
    } while (depth > 0 && at->byte < at->bytes);
  }
}

/* From the opening bracket of a value to the member that the step names; false: there is none. */
static bool member_find(hr_cursor *at, const hr_json_step *wanted) {
  bool map = among(at, "{");
  if (!map && !among(at, "[")) return false;
  step(at);
  size_t length = wanted->key ? strlen(wanted->key) : 0;
  for (size_t i = 0;; i++) {
    skip(at, between, true);
    if (at->byte >= at->bytes || among(at, "]}")) return false;
    bool found = !wanted->key && i == wanted->index;
    if (map) {
      size_t begin = at->byte + 1;
      string_skip(at);
      found = wanted->key && at->byte - begin == length + 1 && memcmp(at->text + begin, wanted->key, length) == 0;
      skip(at, behind_key, true);
    }
    if (found) return true;
    value_skip(at);
  }
}

void hr__json_find(const char *text, size_t bytes, const hr_json_step *steps, size_t count, int *line, int *column) {
  hr_cursor at = hr__cursor(text, bytes);
  skip(&at, space, true);
  hr_cursor found = at;
  for (size_t i = 0; i < count && member_find(&at, &steps[i]); i++)
    found = at;
  *line = found.line;
  *column = found.column;
}
