/* tojson: what Python's json.dumps writes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template_render.h"
#include "text/template_unicode.h"

static hr_status put_text(hr_render *r, hr_py_text *to, const char *text) {
  return hr__py_put(r, to, text, strlen(text));
}

static hr_status put_escaped(hr_render *r, hr_py_text *to, uint32_t unit) {
  char escape[8];
  snprintf(escape, sizeof escape, "\\u%04x", (unsigned)unit);
  return put_text(r, to, escape);
}

static hr_status put_string(hr_render *r, hr_py_text *to, hr_py value, bool ascii) {
  static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  HR_TRY(put_text(r, to, "\""));
  size_t bytes, plain = 0; /* from here on nothing needs an escape */
  for (size_t at = 0; at < value.bytes; at += bytes) {
    uint32_t c = hr__utf8_decode(value.text + at, &bytes);
    if (c >= 0x20 && c != '"' && c != '\\' && !(ascii && c >= 0x7f)) continue;
    HR_TRY(hr__py_put(r, to, value.text + plain, at - plain));
    plain = at + bytes;
    const char *name = NULL;
    for (size_t i = 0; i + 1 < sizeof named && !name; i += 2)
      if (c == (unsigned char)named[i]) name = &named[i + 1];
    if (name) {
      HR_TRY(hr__py_put(r, to, (char[]){'\\', *name}, 2));
    } else if (c < 0x10000) {
      HR_TRY(put_escaped(r, to, c));
    } else {
      HR_TRY(put_escaped(r, to, 0xd800 + ((c - 0x10000) >> 10)));
      HR_TRY(put_escaped(r, to, 0xdc00 + ((c - 0x10000) & 0x3ff)));
    }
  }
  HR_TRY(hr__py_put(r, to, value.text + plain, value.bytes - plain));
  return put_text(r, to, "\"");
}

static hr_status put_scalar(hr_render *r, hr_py_text *to, hr_py value) {
  if (value.kind == HR_PY_NONE) return put_text(r, to, "null");
  if (value.kind == HR_PY_BOOL) return put_text(r, to, value.truth ? "true" : "false");
  if (value.kind == HR_PY_FLOAT && !isfinite(value.real))
    return put_text(r, to, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
  if (value.kind == HR_PY_INT || value.kind == HR_PY_FLOAT) return hr__py_put_str(r, to, value);
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  return hr__render_fail(r, "tojson cannot write a value of type %s", hr__py_type(value));
}

static hr_status put_break(hr_render *r, hr_py_text *to, const hr_json_style *style, int depth) {
  if (!hr__py_given(style->indent)) return HR_OK;
  HR_TRY(put_text(r, to, "\n"));
  for (int i = 0; i < depth; i++)
    HR_TRY(hr__py_put(r, to, style->indent.text, style->indent.bytes));
  return HR_OK;
}

static hr_status put_value(hr_render *r, hr_py_text *to, hr_py value, const hr_json_style *style, int depth);

static hr_status put_list(hr_render *r, hr_py_text *to, const hr_py_list *list, const hr_json_style *style, int depth) {
  if (!list->count) return put_text(r, to, "[]");
  HR_TRY(put_text(r, to, "["));
  for (size_t i = 0; i < list->count; i++) {
    if (i) HR_TRY(hr__py_put_str(r, to, style->item_separator));
    HR_TRY(put_break(r, to, style, depth + 1));
    HR_TRY(put_value(r, to, list->items[i], style, depth + 1));
  }
  HR_TRY(put_break(r, to, style, depth));
  return put_text(r, to, "]");
}

/* Keys that are no strings are written as such. */
static hr_status put_key(hr_render *r, hr_py_text *to, hr_py key, const hr_json_style *style) {
  if (key.kind == HR_PY_STRING) return put_string(r, to, key, style->ascii);
  HR_TRY(put_text(r, to, "\""));
  HR_TRY(put_scalar(r, to, key));
  return put_text(r, to, "\"");
}

static hr_status put_dict(hr_render *r, hr_py_text *to, const hr_py_dict *dict, const hr_json_style *style, int depth) {
  if (!dict->count) return put_text(r, to, "{}");
  hr_py *keys = NULL, *values = NULL;
  HR_TRY(hr__render_room(r, dict->count, sizeof *keys, &keys));
  HR_TRY(hr__render_room(r, dict->count, sizeof *values, &values));
  for (size_t i = 0; i < dict->count; i++) {
    keys[i] = dict->entries[i].key;
    values[i] = dict->entries[i].value;
  }
  if (style->sorted) HR_TRY(hr__py_sort(r, keys, values, dict->count, false));
  HR_TRY(put_text(r, to, "{"));
  for (size_t i = 0; i < dict->count; i++) {
    if (i) HR_TRY(hr__py_put_str(r, to, style->item_separator));
    HR_TRY(put_break(r, to, style, depth + 1));
    HR_TRY(put_key(r, to, keys[i], style));
    HR_TRY(hr__py_put_str(r, to, style->key_separator));
    HR_TRY(put_value(r, to, values[i], style, depth + 1));
  }
  HR_TRY(put_break(r, to, style, depth));
  return put_text(r, to, "}");
}

static hr_status put_value(hr_render *r, hr_py_text *to, hr_py value, const hr_json_style *style, int depth) {
  HR_TRY(hr__render_work(r, 1));
  if (depth > HR_TEMPLATE_DEPTH) return hr__render_fail(r, "values nested more than %d deep", HR_TEMPLATE_DEPTH);
  if (value.kind == HR_PY_STRING) return put_string(r, to, value, style->ascii);
  if (value.kind == HR_PY_LIST || value.kind == HR_PY_TUPLE) return put_list(r, to, value.list, style, depth);
  if (value.kind == HR_PY_DICT) return put_dict(r, to, value.dict, style, depth);
  return put_scalar(r, to, value);
}

hr_status hr__py_put_json(hr_render *r, hr_py_text *to, hr_py value, const hr_json_style *style) {
  return put_value(r, to, value, style, 0);
}
