#include "format/item.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "format/doc.h"
#include "format/file.h"
#include "format/json.h"

hr_status hr__item_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_item_file *out,
                         hr_error *err) {
  *out = (hr_item_file){.name = name, .text = text, .bytes = bytes};
  json_error_t fault;
  hr_status status = hr__json_load_any(text, bytes, arena, &out->root, &fault, err);
  if (status != HR_BAD_INPUT) return status;
  char place[HR_DOC_PLACE];
  hr_doc_node at = {.line = fault.line, .column = fault.column};
  return hr__fail(err, status, hr__doc_place(name, &at, false, place), NULL, "not valid JSON: %s", fault.text);
}

hr_status hr__item_open(const char *path, hr_arena *arena, hr_item_file *out, hr_error *err) {
  char *text;
  size_t bytes;
  HR_TRY(hr__file_read(path, HR_ITEM_MAX_BYTES, arena, &text, &bytes, err));
  return hr__item_parse(path, text, bytes, arena, out, err);
}

hr_item hr__item_root(const hr_item_file *file) {
  return (hr_item){.file = file, .value = file->root};
}

hr_item hr__item_get(const hr_item *parent, const char *key) {
  json_t *value = json_object_get(parent->value, key);
  return (hr_item){.file = parent->file, .parent = parent, .key = key, .value = json_is_null(value) ? NULL : value};
}

hr_item hr__item_at(const hr_item *list, size_t index) {
  return (hr_item){.file = list->file, .parent = list, .index = index, .value = json_array_get(list->value, index)};
}

size_t hr__item_count(const hr_item *list) {
  return json_array_size(list->value);
}

/* Where the item begins in the text; what is absent is looked for in what it should be in. */
static void place_write(const hr_item *item, char out[HR_DOC_PLACE]) {
  hr_json_step steps[HR_JSON_STEPS];
  size_t count = 0;
  while (item->parent && !item->value)
    item = item->parent;
  const hr_item *at = item;
  for (; at->parent && count < HR_JSON_STEPS; at = at->parent)
    count++;
  at = item;
  for (size_t i = count; i-- > 0; at = at->parent)
    steps[i] = (hr_json_step){.key = at->key, .index = at->index};
  hr_doc_node node = {0};
  hr__json_find(item->file->text, item->file->bytes, steps, count, &node.line, &node.column);
  hr__doc_place(item->file->name, &node, false, out);
}

hr_status hr__item_fail(const hr_item *item, hr_error *err, const char *remedy, const char *format, ...) {
  char place[HR_DOC_PLACE], message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  place_write(item, place);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, "%s", message);
}

/* "'merges'" or "item 3 of 'merges'", for messages. */
static const char *name_write(const hr_item *item, char out[160]) {
  if (item->key)
    snprintf(out, 160, "'%.60s'", item->key);
  else if (item->parent && item->parent->key)
    snprintf(out, 160, "item %zu of '%.60s'", item->index, item->parent->key);
  else
    snprintf(out, 160, "%s", item->parent ? "an item" : "the file");
  return out;
}

static hr_status type_fail(const hr_item *item, const char *type, hr_error *err) {
  char name[160];
  if (item->value) return hr__item_fail(item, err, NULL, "%s should be %s", name_write(item, name), type);
  return hr__item_fail(item, err, NULL, "%s is missing; it should be %s", name_write(item, name), type);
}

hr_status hr__item_text(const hr_item *item, bool optional, const char **text, size_t *bytes, hr_error *err) {
  if (!item->value && optional) return HR_OK;
  if (!json_is_string(item->value)) return type_fail(item, "text", err);
  *text = json_string_value(item->value);
  if (bytes) *bytes = json_string_length(item->value);
  return HR_OK;
}

hr_status hr__item_bool(const hr_item *item, bool optional, bool *out, hr_error *err) {
  if (!item->value && optional) return HR_OK;
  if (!json_is_boolean(item->value)) return type_fail(item, "true or false", err);
  *out = json_is_true(item->value);
  return HR_OK;
}

hr_status hr__item_int(const hr_item *item, bool optional, int64_t least, int64_t most, int64_t *out, hr_error *err) {
  if (!item->value && optional) return HR_OK;
  char type[96];
  snprintf(type, sizeof type, "a whole number from %" PRId64 " to %" PRId64, least, most);
  if (!json_is_integer(item->value)) return type_fail(item, type, err);
  int64_t value = json_integer_value(item->value);
  if (value < least || value > most) return type_fail(item, type, err);
  *out = value;
  return HR_OK;
}

hr_status hr__item_list(const hr_item *item, hr_error *err) {
  return json_is_array(item->value) ? HR_OK : type_fail(item, "a list", err);
}

hr_status hr__item_object(const hr_item *item, hr_error *err) {
  return json_is_object(item->value) ? HR_OK : type_fail(item, "an object", err);
}
