/* Methods of dicts and lists, and which ones a value has. */
#include <string.h>

#include "text/template_builtin.h"

#define METHOD(name) static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out)

METHOD(dict_get) {
  hr_py *found = NULL;
  HR_TRY(hr__py_dict_find(r, call->self.dict, call->arg[0], &found));
  *out = found ? *found : hr__py_given(call->arg[1]) ? call->arg[1] : hr__py_none();
  return HR_OK;
}

static hr_status view(hr_render *r, const hr_builtin_call *call, const char *shown, bool keys, bool values,
                      hr_py *out) {
  const hr_py_dict *dict = call->self.dict;
  hr_py_list *list = NULL;
  HR_TRY(hr__render_work(r, dict->count));
  HR_TRY(hr__py_list_new(r, dict->count, &list));
  for (size_t i = 0; i < dict->count; i++) {
    hr_py item = keys ? dict->entries[i].key : dict->entries[i].value;
    if (keys && values) HR_TRY(hr__py_pair(r, dict->entries[i].key, dict->entries[i].value, &item));
    HR_TRY(hr__py_list_add(r, list, item));
  }
  list->shown = shown;
  *out = hr__py_list(list, HR_PY_VIEW);
  return HR_OK;
}
METHOD(dict_items) {
  return view(r, call, "dict_items", true, true, out);
}
METHOD(dict_keys) {
  return view(r, call, "dict_keys", true, false, out);
}
METHOD(dict_values) {
  return view(r, call, "dict_values", false, true, out);
}
METHOD(copy) { /* nothing changes lists and dicts, so that one is as good as another */
  (void)r;
  *out = call->self;
  return HR_OK;
}

static hr_status occurrences(hr_render *r, const hr_builtin_call *call, bool first, hr_py *out) {
  const hr_py_list *list = call->self.list;
  int64_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    bool same;
    HR_TRY(hr__py_equal(r, list->items[i], call->arg[0], &same));
    count += same;
    *out = hr__py_int((int64_t)i);
    if (first && same) return HR_OK;
  }
  *out = hr__py_int(count);
  return first ? hr__render_fail(r, "'index' does not find the value") : HR_OK;
}
METHOD(list_count) {
  return occurrences(r, call, false, out);
}
METHOD(list_index) {
  return occurrences(r, call, true, out);
}

static const hr_builtin dicts[] = {
    {"get", dict_get, "key | default"}, {"items", dict_items, ""}, {"keys", dict_keys, ""},
    {"values", dict_values, ""},        {"copy", copy, ""},        {"fromkeys", NULL, "*"},
};
static const hr_builtin lists[] = {
    {"count", list_count, "value"},
    {"index", list_index, "value"},
    {"copy", copy, ""}, /* the last: tuples have the others */
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

const hr_builtin *hr__builtin_method(hr_py_kind kind, const char *name, size_t bytes) {
  switch (kind) {
  case HR_PY_STRING:
    return hr__builtin_text_method(name, bytes);
  case HR_PY_DICT:
    return hr__builtin_find(dicts, COUNT(dicts), name, bytes);
  case HR_PY_LIST:
    return hr__builtin_find(lists, COUNT(lists), name, bytes);
  case HR_PY_TUPLE:
    return hr__builtin_find(lists, COUNT(lists) - 1, name, bytes);
  default:
    return NULL;
  }
}

bool hr__builtin_changes(hr_py_kind kind, const char *name, size_t bytes) {
  static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
  static const char *const of_lists[] = {"append", "clear",  "pop",    "reverse", "insert",
                                         "sort",   "extend", "remove", NULL};
  const char *const *names = kind == HR_PY_DICT ? of_dicts : kind == HR_PY_LIST ? of_lists : NULL;
  for (; names && *names; names++)
    if (strlen(*names) == bytes && memcmp(*names, name, bytes) == 0) return true;
  return false;
}
