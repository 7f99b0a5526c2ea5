/* Lists and dicts: made, looked into, gone through. */
#include <stdlib.h>
#include <string.h>

#include "text/template_render.h"
#include "text/template_unicode.h"

hr_status hr__py_list_new(hr_render *r, size_t capacity, hr_py_list **out) {
  hr_py_list *list = NULL;
  HR_TRY(hr__render_room(r, 1, sizeof *list, &list));
  *list = (hr_py_list){.capacity = capacity};
  HR_TRY(hr__render_room(r, capacity, sizeof *list->items, &list->items));
  *out = list;
  return HR_OK;
}

/* Room for one more item of an array. */
static hr_status grow(hr_render *r, void *items_pointer, size_t *capacity, size_t count, size_t size) {
  if (count < *capacity) return HR_OK;
  void *old, *grown = NULL;
  memcpy(&old, items_pointer, sizeof old);
  size_t wanted = count < 4 ? 8 : 2 * count;
  HR_TRY(hr__render_room(r, wanted, size, &grown));
  if (count) memcpy(grown, old, count * size);
  memcpy(items_pointer, &grown, sizeof grown);
  *capacity = wanted;
  return HR_OK;
}

hr_status hr__py_list_add(hr_render *r, hr_py_list *list, hr_py value) {
  HR_TRY(grow(r, &list->items, &list->capacity, list->count, sizeof value));
  list->items[list->count++] = value;
  return HR_OK;
}

hr_py hr__py_list(hr_py_list *list, hr_py_kind kind) {
  return (hr_py){.kind = kind, .list = list};
}

hr_status hr__py_pair(hr_render *r, hr_py first, hr_py second, hr_py *out) {
  hr_py_list *pair = NULL;
  HR_TRY(hr__py_list_new(r, 2, &pair));
  HR_TRY(hr__py_list_add(r, pair, first));
  HR_TRY(hr__py_list_add(r, pair, second));
  *out = hr__py_list(pair, HR_PY_TUPLE);
  return HR_OK;
}

hr_status hr__py_dict_new(hr_render *r, hr_py_dict **out) {
  HR_TRY(hr__render_room(r, 1, sizeof **out, out));
  **out = (hr_py_dict){0};
  return HR_OK;
}

hr_status hr__py_dict_add(hr_render *r, hr_py_dict *dict, hr_py key, hr_py value) {
  HR_TRY(grow(r, &dict->entries, &dict->capacity, dict->count, sizeof *dict->entries));
  dict->entries[dict->count++] = (hr_py_entry){.key = key, .value = value};
  return HR_OK;
}

static hr_status hashable(hr_render *r, hr_py key) {
  if (key.kind == HR_PY_LIST || key.kind == HR_PY_DICT)
    return hr__render_fail(r, "a %s cannot be a key", hr__py_type(key));
  for (size_t i = 0; key.kind == HR_PY_TUPLE && i < key.list->count; i++)
    HR_TRY(hashable(r, key.list->items[i]));
  return HR_OK;
}

hr_status hr__py_dict_find(hr_render *r, const hr_py_dict *dict, hr_py key, hr_py **found) {
  *found = NULL;
  HR_TRY(hashable(r, key));
  HR_TRY(hr__render_work(r, dict->count / 16));
  for (size_t i = 0; i < dict->count; i++) {
    const hr_py *there = &dict->entries[i].key;
    bool same = false;
    if (there->kind == HR_PY_STRING && key.kind == HR_PY_STRING)
      same = there->bytes == key.bytes && memcmp(there->text, key.text, key.bytes) == 0;
    else
      HR_TRY(hr__py_equal(r, *there, key, &same));
    if (!same) continue;
    *found = &dict->entries[i].value;
    return HR_OK;
  }
  return HR_OK;
}

hr_status hr__py_dict_set(hr_render *r, hr_py_dict *dict, hr_py key, hr_py value) {
  hr_py *there = NULL;
  HR_TRY(hr__py_dict_find(r, dict, key, &there));
  if (!there) return hr__py_dict_add(r, dict, key, value);
  *there = value;
  return HR_OK;
}

static hr_status characters(hr_render *r, hr_py string, hr_py_list **out) {
  HR_TRY(hr__py_list_new(r, hr__utf8_count(string.text, string.bytes), out));
  size_t bytes;
  for (size_t at = 0; at < string.bytes; at += bytes) {
    hr__utf8_decode(string.text + at, &bytes);
    HR_TRY(hr__py_list_add(r, *out, hr__py_string(string.text + at, bytes)));
  }
  return HR_OK;
}

hr_status hr__py_iterate(hr_render *r, hr_py value, hr_py_list **out) {
  switch (value.kind) {
  case HR_PY_LIST:
  case HR_PY_TUPLE:
  case HR_PY_VIEW:
  case HR_PY_RANGE:
    *out = value.list;
    return hr__render_work(r, value.list->count / 16);
  case HR_PY_ITERATOR:
    HR_TRY(hr__py_list_new(r, 0, out));
    (*out)->items = value.list->items + value.list->next;
    (*out)->count = (*out)->capacity = value.list->count - value.list->next;
    value.list->next = value.list->count;
    return HR_OK;
  case HR_PY_STRING:
    HR_TRY(hr__render_work(r, value.bytes / 16));
    return characters(r, value, out);
  case HR_PY_DICT:
    HR_TRY(hr__render_work(r, value.dict->count / 16));
    HR_TRY(hr__py_list_new(r, value.dict->count, out));
    for (size_t i = 0; i < value.dict->count; i++)
      HR_TRY(hr__py_list_add(r, *out, value.dict->entries[i].key));
    return HR_OK;
  case HR_PY_UNDEFINED:
    return hr__py_list_new(r, 0, out);
  default:
    return hr__render_fail(r, "a value of type %s cannot be gone through item by item", hr__py_type(value));
  }
}

hr_status hr__py_length(hr_render *r, hr_py value, int64_t *out) {
  *out = 0;
  switch (value.kind) {
  case HR_PY_LIST:
  case HR_PY_TUPLE:
  case HR_PY_VIEW:
  case HR_PY_RANGE:
    *out = (int64_t)value.list->count;
    return HR_OK;
  case HR_PY_STRING:
    *out = (int64_t)hr__utf8_count(value.text, value.bytes);
    return hr__render_work(r, value.bytes / 64);
  case HR_PY_DICT:
    *out = (int64_t)value.dict->count;
    return HR_OK;
  case HR_PY_LOOP:
    *out = (int64_t)value.loop->items->count;
    return HR_OK;
  case HR_PY_UNDEFINED:
    return HR_OK;
  default:
    return hr__render_fail(r, "a value of type %s has no length", hr__py_type(value));
  }
}

static hr_py scalar(const hr_doc_node *node) {
  int64_t integer;
  bool truth;
  if (node->quoted) return hr__py_string(node->text, strlen(node->text));
  if (hr__doc_is_null(node)) return hr__py_none();
  if (hr__doc_bool(node, &truth)) return hr__py_bool(truth);
  if (hr__doc_int(node, &integer)) return hr__py_int(integer);
  double real;
  return hr__doc_float(node, &real) ? hr__py_float(real) : hr__py_string(node->text, strlen(node->text));
}

/* Depth is the document's own: at most HR_DOC_MAX_DEPTH. */
hr_status hr__py_document(hr_render *r, const hr_doc_node *node, hr_py *out) {
  HR_TRY(hr__render_work(r, 1));
  if (node->kind == HR_DOC_SCALAR) {
    *out = scalar(node);
    return HR_OK;
  }
  hr_py_list *list = NULL;
  hr_py_dict *dict = NULL;
  bool map = node->kind == HR_DOC_MAP;
  if (map)
    HR_TRY(hr__py_dict_new(r, &dict));
  else
    HR_TRY(hr__py_list_new(r, 0, &list));
  for (const hr_doc_node *child = node->child; child; child = child->next) {
    hr_py value;
    HR_TRY(hr__py_document(r, child, &value));
    if (map)
      HR_TRY(hr__py_dict_add(r, dict, hr__py_string(child->key, strlen(child->key)), value));
    else
      HR_TRY(hr__py_list_add(r, list, value));
  }
  *out = map ? (hr_py){.kind = HR_PY_DICT, .dict = dict} : hr__py_list(list, HR_PY_LIST);
  return HR_OK;
}
