/* value.name, value[key] and value[begin:end:step]. */
#include <stdio.h>
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_unicode.h"

static hr_status loop_attribute(hr_render *r, hr_py value, hr_py name, hr_py *out) {
  (void)r;
  const hr_py_loop *loop = value.loop;
  const hr_py_list *items = loop->items;
  int64_t index0 = (int64_t)loop->index0, count = (int64_t)items->count;
  if (hr__py_is(name, "index0")) *out = hr__py_int(index0);
  if (hr__py_is(name, "index")) *out = hr__py_int(index0 + 1);
  if (hr__py_is(name, "revindex0")) *out = hr__py_int(count - index0 - 1);
  if (hr__py_is(name, "revindex")) *out = hr__py_int(count - index0);
  if (hr__py_is(name, "length")) *out = hr__py_int(count);
  if (hr__py_is(name, "first")) *out = hr__py_bool(index0 == 0);
  if (hr__py_is(name, "last")) *out = hr__py_bool(index0 == count - 1);
  if (hr__py_is(name, "depth0")) *out = hr__py_int(loop->depth0);
  if (hr__py_is(name, "depth")) *out = hr__py_int(loop->depth0 + 1);
  if (hr__py_is(name, "previtem") && index0 > 0) *out = items->items[index0 - 1];
  if (hr__py_is(name, "nextitem") && index0 + 1 < count) *out = items->items[index0 + 1];
  return HR_OK;
}

/* What Python's getattr finds; HR_PY_ABSENT: nothing. */
static hr_status own_attribute(hr_render *r, hr_py value, hr_py name, hr_py *out) {
  *out = (hr_py){.kind = HR_PY_ABSENT};
  if (value.kind == HR_PY_LOOP) return loop_attribute(r, value, name, out);
  if (value.kind == HR_PY_NAMESPACE) {
    hr_py *found = NULL;
    HR_TRY(hr__py_dict_find(r, value.dict, name, &found));
    if (found) *out = *found;
    return HR_OK;
  }
  if (hr__builtin_changes(value.kind, name.text, name.bytes)) {
    *out = hr__py_undefined(name.text, name.bytes); /* what the sandbox gives for it: calling it is an error */
    return HR_OK;
  }
  const hr_builtin *method = hr__builtin_method(value.kind, name.text, name.bytes);
  return method ? hr__py_callable(r, method, value, out) : HR_OK;
}

/* Where an index lies, counted from the end where it is negative; `count`: nowhere. */
static size_t position(int64_t index, size_t count) {
  if (index < 0) index += (int64_t)count;
  return index < 0 || index >= (int64_t)count ? count : (size_t)index;
}

/* What Python finds by value[key]; HR_PY_ABSENT: nothing, or it is an error there. */
static hr_status own_item(hr_render *r, hr_py value, hr_py key, hr_py *out) {
  *out = (hr_py){.kind = HR_PY_ABSENT};
  if (value.kind == HR_PY_DICT) {
    hr_py *found = NULL;
    bool hashable = key.kind != HR_PY_LIST && key.kind != HR_PY_DICT;
    if (hashable) HR_TRY(hr__py_dict_find(r, value.dict, key, &found));
    if (found) *out = *found;
  } else if (hr__py_indexed(value) && hr__py_integral(key)) {
    size_t at = position(hr__py_integer(key), value.list->count);
    if (at < value.list->count) *out = value.list->items[at];
  } else if (value.kind == HR_PY_STRING && hr__py_integral(key)) {
    HR_TRY(hr__render_work(r, value.bytes / 32));
    size_t count = hr__utf8_count(value.text, value.bytes), at = position(hr__py_integer(key), count);
    if (at == count) return HR_OK;
    size_t begin = hr__utf8_offset(value.text, value.bytes, at), bytes;
    hr__utf8_decode(value.text + begin, &bytes);
    *out = hr__py_string(value.text + begin, bytes);
    out->markup = value.markup;
  }
  return HR_OK;
}

hr_status hr__py_attribute(hr_render *r, hr_py value, const char *name, size_t bytes, hr_py *out) {
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  HR_TRY(own_attribute(r, value, hr__py_string(name, bytes), out));
  if (!hr__py_given(*out)) HR_TRY(own_item(r, value, hr__py_string(name, bytes), out));
  if (!hr__py_given(*out)) *out = hr__py_undefined(name, bytes);
  return HR_OK;
}

/* What an item that is not there is called in messages. */
static hr_status absent_name(hr_render *r, hr_py key, hr_py *out) {
  if (key.kind == HR_PY_STRING) {
    *out = hr__py_undefined(key.text, key.bytes);
    return HR_OK;
  }
  char shown[40];
  int bytes = hr__py_integral(key) ? snprintf(shown, sizeof shown, "item %lld", (long long)hr__py_integer(key))
                                   : snprintf(shown, sizeof shown, "an item");
  HR_TRY(hr__py_copy(r, shown, (size_t)bytes, out));
  out->kind = HR_PY_UNDEFINED;
  return HR_OK;
}

hr_status hr__py_item(hr_render *r, hr_py value, hr_py key, hr_py *out) {
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  HR_TRY(own_item(r, value, key, out));
  if (!hr__py_given(*out) && key.kind == HR_PY_STRING) HR_TRY(own_attribute(r, value, key, out));
  return hr__py_given(*out) ? HR_OK : absent_name(r, key, out);
}

static hr_status bound(hr_render *r, hr_py value, int64_t otherwise, int64_t count, int64_t lowest, int64_t highest,
                       int64_t *out) {
  *out = otherwise;
  if (hr__py_nothing(value)) return HR_OK;
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  if (!hr__py_integral(value))
    return hr__render_fail(r, "a slice has integers, not a value of type %s", hr__py_type(value));
  int64_t at = hr__py_integer(value);
  if (at < 0) at = at < -count ? lowest : at + count;
  *out = at < lowest ? lowest : at > highest ? highest : at;
  return HR_OK;
}

static hr_status slice_string(hr_render *r, hr_py value, int64_t begin, int64_t end, int64_t step, hr_py *out) {
  if (step == 1) {
    size_t from = hr__utf8_offset(value.text, value.bytes, (size_t)begin);
    size_t length = end > begin ? hr__utf8_offset(value.text + from, value.bytes - from, (size_t)(end - begin)) : 0;
    *out = hr__py_string(value.text + from, length);
  } else {
    hr_py_list *all = NULL;
    hr_py_text text = {0};
    HR_TRY(hr__py_iterate(r, value, &all));
    for (int64_t at = begin; step > 0 ? at < end : at > end; at += step)
      HR_TRY(hr__py_put(r, &text, all->items[at].text, all->items[at].bytes));
    *out = hr__py_taken(&text);
  }
  out->markup = value.markup;
  return HR_OK;
}

hr_status hr__py_slice(hr_render *r, hr_py value, hr_py first, hr_py last, hr_py by, hr_py *out) {
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  if (!hr__py_indexed(value) && value.kind != HR_PY_STRING)
    return hr__render_fail(r, "a value of type %s cannot be sliced", hr__py_type(value));
  int64_t count, begin, end, step;
  HR_TRY(hr__py_length(r, value, &count));
  if (by.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, by);
  if (!hr__py_nothing(by) && !hr__py_integral(by))
    return hr__render_fail(r, "a slice has integers, not a value of type %s", hr__py_type(by));
  step = hr__py_nothing(by) ? 1 : hr__py_integer(by);
  if (step > count + 1 || step < -count - 1) step = step < 0 ? -count - 1 : count + 1; /* beyond that all are alike */
  if (step == 0) return hr__render_fail(r, "the step of a slice cannot be 0");
  HR_TRY(bound(r, first, step < 0 ? count - 1 : 0, count, step < 0 ? -1 : 0, step < 0 ? count - 1 : count, &begin));
  HR_TRY(bound(r, last, step < 0 ? -1 : count, count, step < 0 ? -1 : 0, step < 0 ? count - 1 : count, &end));
  HR_TRY(hr__render_work(r, (size_t)count / 16));
  if (value.kind == HR_PY_STRING) return slice_string(r, value, begin, end, step, out);
  hr_py_list *list = NULL;
  HR_TRY(hr__py_list_new(r, 0, &list));
  for (int64_t at = begin; step > 0 ? at < end : at > end; at += step)
    HR_TRY(hr__py_list_add(r, list, value.list->items[at]));
  *out = hr__py_list(list, value.kind == HR_PY_TUPLE ? HR_PY_TUPLE : HR_PY_LIST);
  return HR_OK;
}
