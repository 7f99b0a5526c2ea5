/* Texts with places for values, as Python has them: `text % values`, with %s %r %d %i %f %x, flags, width, precision
 * and names in brackets; and text.format(...), with {}, {0}, {name}, {name:d} and {name:s}. */
#include <stdio.h>
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_unicode.h"

typedef struct spec {
  bool left, zero, plus, space;
  int width, precision; /* precision -1: not given */
  char kind;
} spec;

static hr_status put_padded(hr_render *r, hr_py_text *to, const spec *s, hr_py string) {
  size_t characters = hr__utf8_count(string.text, string.bytes);
  size_t blanks = s->width > 0 && (size_t)s->width > characters ? (size_t)s->width - characters : 0;
  for (size_t i = 0; !s->left && i < blanks; i++)
    HR_TRY(hr__py_put(r, to, " ", 1));
  HR_TRY(hr__py_put(r, to, string.text, string.bytes));
  for (size_t i = 0; s->left && i < blanks; i++)
    HR_TRY(hr__py_put(r, to, " ", 1));
  return HR_OK;
}

static hr_status put_number(hr_render *r, hr_py_text *to, const spec *s, hr_py value) {
  if (!hr__py_number(value))
    return hr__render_fail(r, "%%%c formats a number, not a value of type %s", s->kind, hr__py_type(value));
  char format[24], digits[512];
  bool real = s->kind == 'f', hex = s->kind == 'x';
  if (hex && (value.kind == HR_PY_FLOAT || hr__py_integer(value) < 0))
    return hr__render_unsupported(r, "%%x of a number that is negative or a float");
  if (!real && value.kind == HR_PY_FLOAT && !(value.real > -9e18 && value.real < 9e18))
    return hr__render_fail(r, "%%d of a number with more than 64 bits");
  snprintf(format, sizeof format, "%%%s%s%s%s*.*%s", s->left ? "-" : "", s->zero ? "0" : "", s->plus ? "+" : "",
           s->space ? " " : "",
           real  ? "f"
           : hex ? "llx"
                 : "lld");
  int precision = s->precision >= 0 ? s->precision : real ? 6 : -1, length;
  if (real)
    length = snprintf(digits, sizeof digits, format, s->width, precision, hr__py_real(value));
  else
    length = snprintf(digits, sizeof digits, format, s->width, precision,
                      value.kind == HR_PY_FLOAT ? (long long)value.real : (long long)hr__py_integer(value));
  if (length < 0 || (size_t)length >= sizeof digits) return hr__render_unsupported(r, "a number of so many digits");
  return hr__py_put(r, to, digits, (size_t)length);
}

static hr_status put_value(hr_render *r, hr_py_text *to, const spec *s, hr_py value) {
  if (s->kind != 's' && s->kind != 'r') return put_number(r, to, s, value);
  hr_py_text shown = {0};
  HR_TRY(s->kind == 's' ? hr__py_put_str(r, &shown, value) : hr__py_put_repr(r, &shown, value));
  hr_py string = hr__py_taken(&shown);
  if (s->precision >= 0) string.bytes = hr__utf8_offset(string.text, string.bytes, (size_t)s->precision);
  return put_padded(r, to, s, string);
}

static int digits_read(const char *text, size_t bytes, size_t *at) {
  int value = 0;
  for (; *at < bytes && text[*at] >= '0' && text[*at] <= '9'; (*at)++)
    value = value < 10000 ? 10 * value + (text[*at] - '0') : value;
  return value;
}

/* What stands behind %; *at goes behind it. */
static hr_status spec_read(hr_render *r, hr_py format, size_t *at, spec *out, hr_py *name) {
  *out = (spec){.precision = -1};
  *name = (hr_py){.kind = HR_PY_ABSENT};
  if (*at < format.bytes && format.text[*at] == '(') {
    const char *close = memchr(format.text + *at, ')', format.bytes - *at);
    if (!close) return hr__render_fail(r, "a name behind %%( is not closed");
    size_t begin = *at + 1;
    *at = (size_t)(close - format.text) + 1;
    *name = hr__py_string(format.text + begin, *at - 1 - begin);
  }
  for (; *at < format.bytes && memchr("-0+ ", format.text[*at], 4); (*at)++) {
    out->left |= format.text[*at] == '-';
    out->zero |= format.text[*at] == '0';
    out->plus |= format.text[*at] == '+';
    out->space |= format.text[*at] == ' ';
  }
  out->width = digits_read(format.text, format.bytes, at);
  if (*at < format.bytes && format.text[*at] == '.') {
    (*at)++;
    out->precision = digits_read(format.text, format.bytes, at);
  }
  if (*at == format.bytes) return hr__render_fail(r, "a format ends behind %%");
  char kind = format.text[(*at)++];
  out->kind = kind == 'i' || kind == 'u' ? 'd' : kind == 'F' ? 'f' : kind;
  if (!memchr("srdfx%", out->kind, 6)) return hr__render_unsupported(r, "the format %%%c", kind);
  return HR_OK;
}

hr_status hr__py_percent(hr_render *r, hr_py format, hr_py values, hr_py *out) {
  if (format.markup) return hr__render_unsupported(r, "formatting a |safe text");
  hr_py_text text = {0};
  bool several = values.kind == HR_PY_TUPLE;
  size_t next = 0, count = several ? values.list->count : 1, plain = 0;
  for (size_t at = 0; at < format.bytes;) {
    if (format.text[at] != '%') {
      at++;
      continue;
    }
    HR_TRY(hr__py_put(r, &text, format.text + plain, at - plain));
    HR_TRY(hr__render_work(r, 1));
    at++;
    spec s;
    hr_py name, value;
    HR_TRY(spec_read(r, format, &at, &s, &name));
    plain = at;
    if (s.kind == '%') {
      HR_TRY(hr__py_put(r, &text, "%", 1));
      continue;
    }
    if (hr__py_given(name)) {
      hr_py *found = NULL;
      if (values.kind != HR_PY_DICT) return hr__render_fail(r, "a format with names needs a dict");
      HR_TRY(hr__py_dict_find(r, values.dict, name, &found));
      if (!found) return hr__render_fail(r, "the dict of a format lacks '%.*s'", (int)(name.bytes % 100), name.text);
      value = *found;
      next = count;
    } else {
      if (next >= count) return hr__render_fail(r, "a format has more places than values");
      value = several ? values.list->items[next] : values;
      next++;
    }
    HR_TRY(put_value(r, &text, &s, value));
  }
  if (next < count && values.kind != HR_PY_DICT && values.kind != HR_PY_LIST)
    return hr__render_fail(r, "a format has fewer places than values");
  HR_TRY(hr__py_put(r, &text, format.text + plain, format.bytes - plain));
  *out = hr__py_taken(&text);
  return HR_OK;
}

/* Fields of str.format so far: counted by themselves or by the template, not both. */
typedef struct fields {
  size_t next;
  bool numbered;
} fields;

/* Which value a field of str.format names: a number, a name, or the next one. */
static hr_status field_value(hr_render *r, const hr_arguments *given, const char *name, size_t bytes, fields *seen,
                             hr_py *out) {
  size_t index = 0;
  bool number = bytes > 0;
  for (size_t i = 0; i < bytes; i++) {
    number = number && name[i] >= '0' && name[i] <= '9' && index < 1000;
    if (number) index = 10 * index + (size_t)(name[i] - '0');
    if (memchr(".[!", name[i], 3)) return hr__render_unsupported(r, "format with more than a name in {}");
  }
  seen->numbered |= number;
  if (!bytes) index = seen->next++;
  if (seen->numbered && seen->next) return hr__render_fail(r, "format has both {} and {%zu}", index);
  if (!bytes || number) {
    if (index >= given->positional) return hr__render_fail(r, "format lacks a value for {%zu}", index);
    *out = given->values[index];
    return HR_OK;
  }
  for (size_t i = given->positional; i < given->count; i++)
    if (given->names[i]->bytes == bytes && memcmp(given->names[i]->text, name, bytes) == 0) {
      *out = given->values[i];
      return HR_OK;
    }
  return hr__render_fail(r, "format lacks a value for {%.*s}", (int)(bytes > 60 ? 60 : bytes), name);
}

/* One field, {name} or {name:kind}, where kind is d or s. */
static hr_status field_put(hr_render *r, const hr_arguments *given, const char *field, size_t bytes, fields *seen,
                           hr_py_text *to) {
  const char *colon = memchr(field, ':', bytes);
  hr_py value, kind = hr__py_string(colon ? colon + 1 : "", colon ? (size_t)(field + bytes - colon) - 1 : 0);
  HR_TRY(field_value(r, given, field, colon ? (size_t)(colon - field) : bytes, seen, &value));
  bool digits = hr__py_is(kind, "d"), text = hr__py_is(kind, "s");
  if (kind.bytes && !digits && !text) return hr__render_unsupported(r, "format with a width or precision");
  if ((digits && value.kind != HR_PY_INT) || (text && value.kind != HR_PY_STRING))
    return hr__render_fail(r, "format has no :%.1s for a value of type %s", kind.text, hr__py_type(value));
  return hr__py_put_str(r, to, value);
}

hr_status hr__py_format(hr_render *r, hr_py self, const hr_arguments *given, hr_py *out) {
  hr_py_text text = {0};
  fields seen = {0};
  if (self.markup) return hr__render_unsupported(r, "formatting a |safe text");
  for (size_t at = 0; at < self.bytes; at++) {
    char c = self.text[at];
    bool doubled = at + 1 < self.bytes && self.text[at + 1] == c;
    if ((c != '{' && c != '}') || doubled) {
      HR_TRY(hr__py_put(r, &text, &c, 1));
      at += (c == '{' || c == '}') && doubled;
      continue;
    }
    const char *close = c == '{' ? memchr(self.text + at, '}', self.bytes - at) : NULL;
    if (!close) return hr__render_fail(r, "a single %c in a text for format", c);
    size_t begin = at + 1;
    at = (size_t)(close - self.text);
    HR_TRY(field_put(r, given, self.text + begin, at - begin, &seen, &text));
  }
  *out = hr__py_taken(&text);
  return HR_OK;
}
