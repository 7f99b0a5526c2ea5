/* Filters of lists and dicts: `value | NAME`. */
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_unicode.h"

#define FILTER(name) static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out)

static hr_py iterator(hr_py_list *list) {
  list->shown = "generator";
  return hr__py_list(list, HR_PY_ITERATOR);
}

/* item.a.b for "a.b", numbers as indices; `otherwise` where something on the way is undefined. */
static hr_status follow(hr_render *r, hr_py item, hr_py path, hr_py otherwise, hr_py *out) {
  *out = item;
  if (hr__py_nothing(path)) return HR_OK;
  if (path.kind != HR_PY_STRING) return hr__py_item(r, item, path, out);
  for (size_t at = 0; at <= path.bytes;) {
    const char *dot = memchr(path.text + at, '.', path.bytes - at);
    size_t bytes = dot ? (size_t)(dot - path.text) - at : path.bytes - at;
    hr_py key = hr__py_string(path.text + at, bytes);
    int64_t number = 0;
    size_t digits = 0;
    for (; digits < bytes && digits < 18 && key.text[digits] >= '0' && key.text[digits] <= '9'; digits++)
      number = 10 * number + (key.text[digits] - '0');
    if (bytes && digits == bytes) key = hr__py_int(number);
    HR_TRY(hr__py_item(r, *out, key, out));
    if (out->kind == HR_PY_UNDEFINED && !hr__py_nothing(otherwise)) *out = otherwise;
    at += bytes + 1;
  }
  return HR_OK;
}

/* What texts are compared by, unless case matters. */
static hr_status without_case(hr_render *r, hr_py value, hr_py case_sensitive, hr_py *out) {
  *out = value;
  bool matters = hr__py_given(case_sensitive) && hr__py_truth(case_sensitive);
  return matters || value.kind != HR_PY_STRING ? HR_OK : hr__py_to_case(r, value, HR_PY_LOWER, out);
}

FILTER(length) {
  int64_t count;
  HR_TRY(hr__py_length(r, call->self, &count));
  *out = hr__py_int(count);
  return HR_OK;
}

FILTER(list) {
  hr_py_list *items = NULL;
  HR_TRY(hr__py_iterate(r, call->self, &items));
  *out = hr__py_list(items, HR_PY_LIST);
  return HR_OK;
}

FILTER(first) {
  hr_py_list *items = NULL;
  if (call->self.kind == HR_PY_ITERATOR && call->self.list->next < call->self.list->count) {
    *out = call->self.list->items[call->self.list->next++];
    return HR_OK;
  }
  HR_TRY(hr__py_iterate(r, call->self, &items));
  *out = items->count ? items->items[0] : hr__py_undefined("the first item", 14);
  return HR_OK;
}

FILTER(last) {
  hr_py_list *items = NULL;
  if (call->self.kind == HR_PY_ITERATOR) return hr__render_fail(r, "a generator has no last item");
  HR_TRY(hr__py_iterate(r, call->self, &items));
  *out = items->count ? items->items[items->count - 1] : hr__py_undefined("the last item", 13);
  return HR_OK;
}

FILTER(join) {
  hr_py_list *items = NULL, *shown = NULL;
  hr_py separator = hr__py_string("", 0), none = {.kind = HR_PY_ABSENT};
  HR_TRY(hr__py_iterate(r, call->self, &items));
  HR_TRY(hr__py_list_new(r, items->count, &shown));
  if (hr__py_given(call->arg[0])) HR_TRY(hr__py_str(r, call->arg[0], &separator));
  for (size_t i = 0; i < items->count; i++) {
    hr_py item;
    HR_TRY(follow(r, items->items[i], call->arg[1], none, &item));
    HR_TRY(hr__py_list_add(r, shown, item));
  }
  return hr__py_join(r, separator, shown, out);
}

FILTER(reverse) {
  if (call->self.kind == HR_PY_STRING)
    return hr__py_slice(r, call->self, hr__py_none(), hr__py_none(), hr__py_int(-1), out);
  hr_py_list *items = NULL, *reversed = NULL;
  HR_TRY(hr__py_iterate(r, call->self, &items));
  HR_TRY(hr__py_list_new(r, items->count, &reversed));
  for (size_t i = items->count; i > 0; i--)
    HR_TRY(hr__py_list_add(r, reversed, items->items[i - 1]));
  *out = iterator(reversed);
  return HR_OK;
}

FILTER(items_of) {
  hr_py_list *pairs = NULL;
  HR_TRY(hr__py_list_new(r, 0, &pairs));
  if (call->self.kind == HR_PY_DICT)
    for (size_t i = 0; i < call->self.dict->count; i++) {
      hr_py pair;
      HR_TRY(hr__py_pair(r, call->self.dict->entries[i].key, call->self.dict->entries[i].value, &pair));
      HR_TRY(hr__py_list_add(r, pairs, pair));
    }
  else if (call->self.kind != HR_PY_UNDEFINED)
    return hr__render_fail(r, "items are of a dict, not of a value of type %s", hr__py_type(call->self));
  *out = iterator(pairs);
  return HR_OK;
}

FILTER(dictsort) {
  if (call->self.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, call->self);
  if (call->self.kind != HR_PY_DICT)
    return hr__render_fail(r, "dictsort sorts a dict, not a value of type %s", hr__py_type(call->self));
  const hr_py_dict *dict = call->self.dict;
  bool by_value = hr__py_is(call->arg[1], "value");
  if (hr__py_given(call->arg[1]) && !by_value && !hr__py_is(call->arg[1], "key"))
    return hr__render_fail(r, "dictsort sorts by 'key' or 'value'");
  hr_py_list *pairs = NULL;
  hr_py *keys = NULL;
  HR_TRY(hr__py_list_new(r, dict->count, &pairs));
  HR_TRY(hr__render_room(r, dict->count, sizeof *keys, &keys));
  for (size_t i = 0; i < dict->count; i++) {
    hr_py pair, key = by_value ? dict->entries[i].value : dict->entries[i].key;
    HR_TRY(without_case(r, key, call->arg[0], &keys[i]));
    HR_TRY(hr__py_pair(r, dict->entries[i].key, dict->entries[i].value, &pair));
    HR_TRY(hr__py_list_add(r, pairs, pair));
  }
  HR_TRY(hr__py_sort(r, keys, pairs->items, pairs->count, hr__py_given(call->arg[2]) && hr__py_truth(call->arg[2])));
  *out = hr__py_list(pairs, HR_PY_LIST);
  return HR_OK;
}

/* Items with what they are compared by. */
static hr_status keyed(hr_render *r, const hr_builtin_call *call, hr_py case_sensitive, hr_py path, hr_py **keys,
                       hr_py_list **items) {
  hr_py_list *given = NULL;
  hr_py none = {.kind = HR_PY_ABSENT};
  if (path.kind == HR_PY_STRING && memchr(path.text, ',', path.bytes))
    return hr__render_unsupported(r, "'%s' by several attributes", call->row->name);
  HR_TRY(hr__py_iterate(r, call->self, &given));
  HR_TRY(hr__py_list_new(r, given->count, items));
  HR_TRY(hr__render_room(r, given->count, sizeof **keys, keys));
  for (size_t i = 0; i < given->count; i++) {
    hr_py key;
    HR_TRY(follow(r, given->items[i], path, none, &key));
    HR_TRY(without_case(r, key, case_sensitive, &(*keys)[i]));
    HR_TRY(hr__py_list_add(r, *items, given->items[i]));
  }
  return HR_OK;
}

FILTER(sort) {
  hr_py *keys = NULL;
  hr_py_list *items = NULL;
  HR_TRY(keyed(r, call, call->arg[1], call->arg[2], &keys, &items));
  HR_TRY(hr__py_sort(r, keys, items->items, items->count, hr__py_given(call->arg[0]) && hr__py_truth(call->arg[0])));
  *out = hr__py_list(items, HR_PY_LIST);
  return HR_OK;
}

FILTER(unique) {
  hr_py *keys = NULL;
  hr_py_list *items = NULL, *kept = NULL, *seen = NULL;
  HR_TRY(keyed(r, call, call->arg[0], call->arg[1], &keys, &items));
  HR_TRY(hr__py_list_new(r, 0, &kept));
  HR_TRY(hr__py_list_new(r, 0, &seen));
  for (size_t i = 0; i < items->count; i++) {
    bool there;
    if (keys[i].kind == HR_PY_LIST || keys[i].kind == HR_PY_DICT)
      return hr__render_fail(r, "unique cannot compare values of type %s", hr__py_type(keys[i]));
    HR_TRY(hr__py_contains(r, hr__py_list(seen, HR_PY_LIST), keys[i], &there));
    if (there) continue;
    HR_TRY(hr__py_list_add(r, seen, keys[i]));
    HR_TRY(hr__py_list_add(r, kept, items->items[i]));
  }
  *out = iterator(kept);
  return HR_OK;
}

static hr_status extreme(hr_render *r, const hr_builtin_call *call, hr_template_operation operation, hr_py *out) {
  hr_py *keys = NULL;
  hr_py_list *items = NULL;
  HR_TRY(keyed(r, call, call->arg[0], call->arg[1], &keys, &items));
  size_t best = 0;
  for (size_t i = 1; i < items->count; i++) {
    bool better;
    HR_TRY(hr__py_compare(r, operation, keys[i], keys[best], &better));
    if (better) best = i;
  }
  *out = items->count ? items->items[best] : hr__py_undefined("of no items one", 15);
  return HR_OK;
}
FILTER(smallest) {
  return extreme(r, call, HR_T_LESS, out);
}
FILTER(largest) {
  return extreme(r, call, HR_T_GREATER, out);
}

FILTER(sum) {
  hr_py_list *items = NULL;
  hr_py none = {.kind = HR_PY_ABSENT}, total = hr__py_given(call->arg[1]) ? call->arg[1] : hr__py_int(0);
  HR_TRY(hr__py_iterate(r, call->self, &items));
  for (size_t i = 0; i < items->count; i++) {
    hr_py item;
    HR_TRY(follow(r, items->items[i], call->arg[0], none, &item));
    HR_TRY(hr__py_binary(r, HR_T_ADD, total, item, &total));
  }
  *out = total;
  return HR_OK;
}

/* Arguments without the first `skipped` by position. */
static hr_arguments behind(const hr_arguments *all, size_t skipped) {
  return (hr_arguments){.values = all->values + skipped,
                        .names = all->names + skipped,
                        .count = all->count - skipped,
                        .positional = all->positional - skipped};
}

static hr_py named(const hr_arguments *all, const char *name) {
  for (size_t i = all->positional; i < all->count; i++)
    if (strcmp(all->names[i]->text, name) == 0) return all->values[i];
  return (hr_py){.kind = HR_PY_ABSENT};
}

/* map('filter', ...) or map(attribute='path', default=value). */
FILTER(map) {
  hr_py_list *items = NULL, *mapped = NULL;
  const hr_arguments *all = call->all;
  HR_TRY(hr__py_list_new(r, 0, &mapped));
  *out = iterator(mapped);
  if (!hr__py_truth(call->self)) return HR_OK;
  hr_py path = named(all, "attribute"), otherwise = named(all, "default");
  bool by_path = !all->positional && hr__py_given(path);
  if (!by_path && !all->positional) return hr__render_fail(r, "map takes the name of a filter or attribute='name'");
  hr_arguments rest = by_path ? (hr_arguments){0} : behind(all, 1);
  HR_TRY(hr__py_iterate(r, call->self, &items));
  for (size_t i = 0; i < items->count; i++) {
    hr_py item = items->items[i];
    HR_TRY(by_path ? follow(r, item, path, otherwise, &item)
                   : hr__builtin_apply_filter(r, all->values[0], item, &rest, &item));
    HR_TRY(hr__py_list_add(r, mapped, item));
  }
  return HR_OK;
}

/* select, reject: by a test with its arguments, or by truth; selectattr, rejectattr: of an attribute. */
static hr_status choose(hr_render *r, const hr_builtin_call *call, bool wanted, bool of_attribute, hr_py *out) {
  hr_py_list *items = NULL, *kept = NULL;
  const hr_arguments *all = call->all;
  hr_py none = {.kind = HR_PY_ABSENT};
  size_t test = of_attribute ? 1 : 0;
  HR_TRY(hr__py_list_new(r, 0, &kept));
  *out = iterator(kept);
  if (!hr__py_truth(call->self)) return HR_OK;
  if (all->positional < test) return hr__render_fail(r, "'%s' takes the name of an attribute", call->row->name);
  bool tested = all->positional > test;
  hr_arguments rest = tested ? behind(all, test + 1) : (hr_arguments){0};
  HR_TRY(hr__py_iterate(r, call->self, &items));
  for (size_t i = 0; i < items->count; i++) {
    hr_py value;
    HR_TRY(follow(r, items->items[i], of_attribute ? all->values[0] : none, none, &value));
    bool holds = hr__py_truth(value);
    if (tested) HR_TRY(hr__builtin_apply_test(r, all->values[test], value, &rest, &holds));
    if (holds == wanted) HR_TRY(hr__py_list_add(r, kept, items->items[i]));
  }
  return HR_OK;
}
FILTER(select_items) {
  return choose(r, call, true, false, out);
}
FILTER(reject) {
  return choose(r, call, false, false, out);
}
FILTER(selectattr) {
  return choose(r, call, true, true, out);
}
FILTER(rejectattr) {
  return choose(r, call, false, true, out);
}

static const hr_builtin rows[] = {
    {"length", length, ""},
    {"count", length, ""},
    {"list", list, ""},
    {"first", first, ""},
    {"last", last, ""},
    {"join", join, "| d attribute"},
    {"reverse", reverse, ""},
    {"items", items_of, ""},
    {"dictsort", dictsort, "| case_sensitive by reverse"},
    {"sort", sort, "| reverse case_sensitive attribute"},
    {"unique", unique, "| case_sensitive attribute"},
    {"min", smallest, "| case_sensitive attribute"},
    {"max", largest, "| case_sensitive attribute"},
    {"sum", sum, "| attribute start"},
    {"map", map, "*"},
    {"select", select_items, "*"},
    {"reject", reject, "*"},
    {"selectattr", selectattr, "*"},
    {"rejectattr", rejectattr, "*"},
    {"batch", NULL, "*"},
    {"groupby", NULL, "*"},
    {"random", NULL, "*"},
    {"slice", NULL, "*"},
};

const hr_builtin *hr__builtin_list_filter(const char *name, size_t bytes) {
  return hr__builtin_find(rows, sizeof rows / sizeof rows[0], name, bytes);
}
