/* Equality, order, membership and sorting, as Python has them. */
#include <string.h>

#include "base/sort.h"
#include "text/template_render.h"
#include "text/template_unicode.h"

static hr_status lists_equal(hr_render *r, const hr_py_list *a, const hr_py_list *b, bool *out) {
  *out = a->count == b->count;
  for (size_t i = 0; *out && i < a->count; i++)
    HR_TRY(hr__py_equal(r, a->items[i], b->items[i], out));
  return HR_OK;
}

static hr_status dicts_equal(hr_render *r, const hr_py_dict *a, const hr_py_dict *b, bool *out) {
  *out = a->count == b->count;
  for (size_t i = 0; *out && i < a->count; i++) {
    hr_py *other = NULL;
    HR_TRY(hr__py_dict_find(r, b, a->entries[i].key, &other));
    *out = other != NULL;
    if (other) HR_TRY(hr__py_equal(r, a->entries[i].value, *other, out));
  }
  return HR_OK;
}

static bool numbers_equal(hr_py a, hr_py b) {
  if (hr__py_integral(a) && hr__py_integral(b)) return hr__py_integer(a) == hr__py_integer(b);
  return hr__py_real(a) == hr__py_real(b);
}

static hr_status equal(hr_render *r, hr_py a, hr_py b, bool *out) {
  *out = false;
  if (hr__py_number(a) && hr__py_number(b)) {
    *out = numbers_equal(a, b);
    return HR_OK;
  }
  if (a.kind != b.kind) return HR_OK;
  switch (a.kind) {
  case HR_PY_UNDEFINED:
  case HR_PY_NONE:
    *out = true;
    return HR_OK;
  case HR_PY_STRING:
    *out = a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
    return hr__render_work(r, *out ? a.bytes / 64 : 0);
  case HR_PY_LIST:
  case HR_PY_TUPLE:
  case HR_PY_RANGE:
    return lists_equal(r, a.list, b.list, out);
  case HR_PY_DICT:
    return dicts_equal(r, a.dict, b.dict, out);
  case HR_PY_CALLABLE:
    *out = a.callable == b.callable;
    return HR_OK;
  case HR_PY_LOOP:
    *out = a.loop == b.loop;
    return HR_OK;
  case HR_PY_NAMESPACE:
    *out = a.dict == b.dict;
    return HR_OK;
  default:
    *out = a.list == b.list;
    return HR_OK;
  }
}

hr_status hr__py_equal(hr_render *r, hr_py a, hr_py b, bool *out) {
  HR_TRY(hr__render_work(r, 1));
  if (++r->depth > HR_TEMPLATE_DEPTH) return hr__render_fail(r, "values nested more than %d deep", HR_TEMPLATE_DEPTH);
  hr_status status = equal(r, a, b, out);
  r->depth--;
  return status;
}

hr_status hr__py_contains(hr_render *r, hr_py holder, hr_py item, bool *out) {
  *out = false;
  if (holder.kind == HR_PY_STRING) {
    if (item.kind != HR_PY_STRING)
      return hr__render_fail(r, "'in' looks for a str in a str, not for a value of type %s", hr__py_type(item));
    HR_TRY(hr__render_work(r, holder.bytes / 64));
    *out = memmem(holder.text, holder.bytes, item.text, item.bytes) != NULL;
    return HR_OK;
  }
  if (holder.kind == HR_PY_DICT) {
    hr_py *found = NULL;
    HR_TRY(hr__py_dict_find(r, holder.dict, item, &found));
    *out = found != NULL;
    return HR_OK;
  }
  hr_py_list *items = NULL;
  HR_TRY(hr__py_iterate(r, holder, &items));
  for (size_t i = 0; i < items->count && !*out; i++)
    HR_TRY(hr__py_equal(r, items->items[i], item, out));
  return HR_OK;
}

/* -1, 0 or 1; 2: neither (NaN). */
static int order_numbers(hr_py a, hr_py b) {
  if (hr__py_integral(a) && hr__py_integral(b)) {
    int64_t x = hr__py_integer(a), y = hr__py_integer(b);
    return (x > y) - (x < y);
  }
  double x = hr__py_real(a), y = hr__py_real(b);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static int order_strings(hr_py a, hr_py b) { /* UTF-8 has the order of its characters */
  size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
  int order = bytes ? memcmp(a.text, b.text, bytes) : 0;
  if (order) return order < 0 ? -1 : 1;
  return (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static hr_status order(hr_render *r, hr_py a, hr_py b, int *out) {
  if (a.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, a);
  if (b.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, b);
  if (hr__py_number(a) && hr__py_number(b)) {
    *out = order_numbers(a, b);
    return HR_OK;
  }
  if (a.kind == HR_PY_STRING && b.kind == HR_PY_STRING) {
    *out = order_strings(a, b);
    return hr__render_work(r, a.bytes / 64);
  }
  if (a.kind != b.kind || (a.kind != HR_PY_LIST && a.kind != HR_PY_TUPLE))
    return hr__render_fail(r, "values of types %s and %s have no order", hr__py_type(a), hr__py_type(b));
  HR_TRY(hr__render_work(r, 1));
  for (size_t i = 0; i < a.list->count && i < b.list->count; i++) {
    bool same;
    HR_TRY(hr__py_equal(r, a.list->items[i], b.list->items[i], &same));
    if (!same) return order(r, a.list->items[i], b.list->items[i], out);
  }
  *out = (a.list->count > b.list->count) - (a.list->count < b.list->count);
  return HR_OK;
}

hr_status hr__py_compare(hr_render *r, hr_template_operation operation, hr_py a, hr_py b, bool *out) {
  int which = 0;
  switch (operation) {
  case HR_T_EQUAL:
  case HR_T_UNEQUAL:
    HR_TRY(hr__py_equal(r, a, b, out));
    *out = *out == (operation == HR_T_EQUAL);
    return HR_OK;
  case HR_T_IN:
  case HR_T_NOT_IN:
    HR_TRY(hr__py_contains(r, b, a, out));
    *out = *out == (operation == HR_T_IN);
    return HR_OK;
  default:
    HR_TRY(order(r, a, b, &which));
    *out = operation == HR_T_LESS         ? which == -1
           : operation == HR_T_LESS_EQUAL ? which == -1 || which == 0
           : operation == HR_T_GREATER    ? which == 1
                                          : which == 1 || which == 0;
    return HR_OK;
  }
}

static int key_order(const void *a, const void *b) {
  const hr_py *x = a, *y = b;
  int which = x->kind == HR_PY_STRING ? order_strings(*x, *y) : order_numbers(*x, *y);
  return which == 2 ? 0 : which;
}
static int key_order_down(const void *a, const void *b) {
  return key_order(b, a);
}

hr_status hr__py_sort(hr_render *r, hr_py *keys, hr_py *items, size_t count, bool descending) {
  HR_TRY(hr__render_work(r, 2 * count));
  bool alike = true; /* nothing to sort: Python compares items for equality first */
  for (size_t i = 1; i < count && alike; i++)
    alike = keys[i].kind == keys[0].kind && (keys[0].kind == HR_PY_UNDEFINED || keys[0].kind == HR_PY_NONE);
  if (alike) return HR_OK;
  for (size_t i = 0; i < count; i++) {
    bool strings = keys[i].kind == HR_PY_STRING && keys[0].kind == HR_PY_STRING;
    if (strings || (hr__py_number(keys[i]) && hr__py_number(keys[0]))) continue;
    if (keys[i].kind == HR_PY_UNDEFINED) return hr__render_undefined(r, keys[i]);
    if (keys[i].kind == keys[0].kind && (keys[0].kind == HR_PY_LIST || keys[0].kind == HR_PY_TUPLE))
      return hr__render_unsupported(r, "sorting lists by their items");
    return hr__render_fail(r, "values of types %s and %s have no order", hr__py_type(keys[0]), hr__py_type(keys[i]));
  }
  const void **at = NULL;
  hr_py *sorted = NULL;
  HR_TRY(hr__render_room(r, 2 * count, sizeof *at, &at));
  HR_TRY(hr__render_room(r, 2 * count, sizeof *sorted, &sorted));
  for (size_t i = 0; i < count; i++)
    at[i] = &keys[i];
  hr__sort(at, count, at + count, descending ? key_order_down : key_order);
  for (size_t i = 0; i < count; i++) {
    size_t from = (size_t)((const hr_py *)at[i] - keys);
    sorted[i] = keys[from];
    sorted[count + i] = items[from];
  }
  memcpy(keys, sorted, count * sizeof *keys);
  memcpy(items, sorted + count, count * sizeof *items);
  return HR_OK;
}
