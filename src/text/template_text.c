/* Text that grows, and values as text: Python's str() and repr(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "text/template_render.h"
#include "text/template_unicode.h"

hr_status hr__py_put(hr_render *r, hr_py_text *to, const char *text, size_t bytes) {
  size_t needed;
  if (!hr__add_size(to->bytes, bytes, &needed) || needed > r->limits.output_bytes)
    return hr__render_fail(r, "the template makes a text of more than %zu bytes", r->limits.output_bytes);
  HR_TRY(hr__render_work(r, bytes / 64));
  if (needed > to->capacity) {
    size_t capacity = needed < 32 ? 64 : 2 * needed;
    char *grown = NULL;
    HR_TRY(hr__render_room(r, capacity, 1, &grown));
    if (to->bytes) memcpy(grown, to->text, to->bytes);
    to->text = grown;
    to->capacity = capacity;
  }
  if (bytes) memcpy(to->text + to->bytes, text, bytes);
  to->bytes = needed;
  return HR_OK;
}

hr_status hr__py_put_character(hr_render *r, hr_py_text *to, uint32_t character) {
  char bytes[4];
  return hr__py_put(r, to, bytes, hr__utf8_encode(character, bytes));
}

hr_py hr__py_taken(const hr_py_text *text) {
  return hr__py_string(text->bytes ? text->text : "", text->bytes);
}

hr_status hr__py_copy(hr_render *r, const char *text, size_t bytes, hr_py *out) {
  char *copy = NULL;
  HR_TRY(hr__render_room(r, bytes, 1, &copy));
  memcpy(copy, text, bytes);
  *out = hr__py_string(copy, bytes);
  return HR_OK;
}

static hr_status put_text(hr_render *r, hr_py_text *to, const char *text) {
  return hr__py_put(r, to, text, strlen(text));
}

/* The fewest digits that give the same number back, with an exponent below 1e-4 and from 1e16 on. */
void hr__py_float_text(double value, char out[HR_PY_FLOAT_TEXT]) {
  if (isnan(value) || isinf(value)) {
    strcpy(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return;
  }
  char digits[HR_PY_FLOAT_TEXT];
  int precision = 0;
  do
    snprintf(digits, sizeof digits, "%.*e", precision, value);
  while (strtod(digits, NULL) != value && precision++ < 17);
  int exponent = atoi(strchr(digits, 'e') + 1);
  if (exponent >= -4 && exponent < 16) {
    int decimals = precision - exponent;
    snprintf(out, HR_PY_FLOAT_TEXT, "%.*f", decimals > 0 ? decimals : 1, value);
  } else {
    size_t mantissa = (size_t)(strchr(digits, 'e') - digits);
    snprintf(out, HR_PY_FLOAT_TEXT, "%.*se%c%02d", (int)mantissa, digits, exponent < 0 ? '-' : '+', abs(exponent));
  }
}

static hr_status put_quoted(hr_render *r, hr_py_text *to, hr_py value) {
  bool doubled = memchr(value.text, '\'', value.bytes) && !memchr(value.text, '"', value.bytes);
  const char *quote = doubled ? "\"" : "'";
  HR_TRY(put_text(r, to, quote));
  size_t bytes;
  for (size_t at = 0; at < value.bytes; at += bytes) {
    uint32_t c = hr__utf8_decode(value.text + at, &bytes);
    const char *named = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
    char escape[12];
    if (named) {
      HR_TRY(put_text(r, to, named));
    } else if (c == (unsigned char)quote[0]) {
      HR_TRY(hr__py_put(r, to, "\\'", 2)); /* doubled quotes never stand inside of themselves */
    } else if (hr__py_isprintable(c)) {
      HR_TRY(hr__py_put(r, to, value.text + at, bytes));
    } else {
      snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
      HR_TRY(put_text(r, to, escape));
    }
  }
  return put_text(r, to, quote);
}

static hr_status put_items(hr_render *r, hr_py_text *to, const hr_py_list *list, const char *open, const char *close) {
  HR_TRY(put_text(r, to, open));
  for (size_t i = 0; i < list->count; i++) {
    if (i) HR_TRY(put_text(r, to, ", "));
    HR_TRY(hr__py_put_repr(r, to, list->items[i]));
  }
  return put_text(r, to, close);
}

static hr_status put_entries(hr_render *r, hr_py_text *to, const hr_py_dict *dict) {
  HR_TRY(put_text(r, to, "{"));
  for (size_t i = 0; i < dict->count; i++) {
    if (i) HR_TRY(put_text(r, to, ", "));
    HR_TRY(hr__py_put_repr(r, to, dict->entries[i].key));
    HR_TRY(put_text(r, to, ": "));
    HR_TRY(hr__py_put_repr(r, to, dict->entries[i].value));
  }
  return put_text(r, to, "}");
}

static hr_status put_shown(hr_render *r, hr_py_text *to, hr_py value) {
  char digits[HR_PY_FLOAT_TEXT];
  switch (value.kind) {
  case HR_PY_UNDEFINED:
    return put_text(r, to, "Undefined");
  case HR_PY_NONE:
    return put_text(r, to, "None");
  case HR_PY_BOOL:
    return put_text(r, to, value.truth ? "True" : "False");
  case HR_PY_INT:
    snprintf(digits, sizeof digits, "%lld", (long long)value.integer);
    return put_text(r, to, digits);
  case HR_PY_FLOAT:
    hr__py_float_text(value.real, digits);
    return put_text(r, to, digits);
  case HR_PY_STRING:
    if (value.markup) return hr__render_unsupported(r, "a |safe text inside a list or dict that is printed");
    return put_quoted(r, to, value);
  case HR_PY_LIST:
    return put_items(r, to, value.list, "[", "]");
  case HR_PY_TUPLE:
    return put_items(r, to, value.list, "(", value.list->count == 1 ? ",)" : ")");
  case HR_PY_VIEW:
    HR_TRY(put_text(r, to, value.list->shown));
    return put_items(r, to, value.list, "([", "])");
  case HR_PY_RANGE:
    return put_text(r, to, value.list->shown);
  case HR_PY_DICT:
    return put_entries(r, to, value.dict);
  case HR_PY_NAMESPACE:
    HR_TRY(put_text(r, to, "<Namespace "));
    HR_TRY(put_entries(r, to, value.dict));
    return put_text(r, to, ">");
  default:
    return hr__render_unsupported(r, "printing a %s", hr__py_type(value));
  }
}

hr_status hr__py_put_repr(hr_render *r, hr_py_text *to, hr_py value) {
  HR_TRY(hr__render_work(r, 1));
  if (++r->depth > HR_TEMPLATE_DEPTH) return hr__render_fail(r, "values nested more than %d deep", HR_TEMPLATE_DEPTH);
  hr_status status = put_shown(r, to, value);
  r->depth--;
  return status;
}

hr_status hr__py_put_str(hr_render *r, hr_py_text *to, hr_py value) {
  if (value.kind == HR_PY_STRING) return hr__py_put(r, to, value.text, value.bytes);
  return value.kind == HR_PY_UNDEFINED ? HR_OK : hr__py_put_repr(r, to, value);
}

hr_status hr__py_str(hr_render *r, hr_py value, hr_py *out) {
  *out = value;
  if (value.kind == HR_PY_STRING) return HR_OK;
  hr_py_text text = {0};
  HR_TRY(hr__py_put_str(r, &text, value));
  *out = hr__py_taken(&text);
  return HR_OK;
}
