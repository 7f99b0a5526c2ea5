/* Values as text: see format/flow.h. */
#include "format/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json.h"

const char *hr__real_text(double number, hr_arena *arena) {
  char digits[40];
  for (int precision = 6; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, number);
    if (!(strtod(digits, NULL) < number) && !(strtod(digits, NULL) > number)) break;
  }
  int head = (int)strcspn(digits, "e");
  bool bare = digits[head] && !memchr(digits, '.', (size_t)head);
  return hr__arena_format(arena, "%.*s%s%s", head, digits, bare ? ".0" : "", digits + head);
}

static const char *scalar_text(const json_t *value, hr_arena *arena) {
  char *text;
  size_t bytes;
  if (json_is_real(value)) return hr__real_text(json_real_value(value), arena);
  return hr__json_text(value, JSON_ENCODE_ANY, arena, &text, &bytes, NULL) == HR_OK ? text : NULL;
}

/* The parsers cap the depth of a document, and so of the recursion. */
const char *hr__flow_text(const json_t *value, const char *gap, hr_arena *arena) {
  if (!value || (!json_is_object(value) && !json_is_array(value))) return scalar_text(value, arena);
  bool map = json_is_object(value);
  const char *text = map ? "{" : "[", *key = "", *colon = "";
  json_t *object = (json_t *)(uintptr_t)value; /* jansson's iterators take no const */
  void *at = map ? json_object_iter(object) : NULL;
  for (size_t i = 0; text && key && (map ? at != NULL : i < json_array_size(value)); i++) {
    const json_t *one = map ? json_object_iter_value(at) : json_array_get(value, i);
    if (map) {
      json_t *name = json_string(json_object_iter_key(at));
      key = scalar_text(name, arena);
      json_decref(name);
      colon = ":";
      at = json_object_iter_next(object, at);
    }
    const char *inner = hr__flow_text(one, gap, arena);
    if (!key || !inner) return NULL;
    text =
        hr__arena_format(arena, "%s%s%s%s%s%s%s", text, i ? "," : "", i ? gap : "", key, colon, map ? gap : "", inner);
  }
  return text ? hr__arena_format(arena, "%s%s", text, map ? "}" : "]") : NULL;
}
