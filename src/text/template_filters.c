/* Filters of texts and numbers: `value | NAME`. Those of lists and dicts are in template_filters_list.c. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_unicode.h"

#define FILTER(name) static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out)

FILTER(trim) {
  hr_py text;
  HR_TRY(hr__py_str(r, call->self, &text));
  return hr__py_strip(r, text, call->arg[0], true, true, out);
}

static hr_status in_case(hr_render *r, const hr_builtin_call *call, hr_py_letters style, hr_py *out) {
  hr_py text;
  HR_TRY(hr__py_str(r, call->self, &text));
  return hr__py_to_case(r, text, style, out);
}
FILTER(upper) {
  return in_case(r, call, HR_PY_UPPER, out);
}
FILTER(lower) {
  return in_case(r, call, HR_PY_LOWER, out);
}
FILTER(capitalize) {
  return in_case(r, call, HR_PY_CAPITALIZE, out);
}

static bool begins_word(uint32_t c) {
  return hr__py_isspace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Unlike str.title: words are what stands between blanks, - and opening brackets. */
FILTER(title) {
  hr_py text;
  hr_py_text made = {0};
  HR_TRY(hr__py_str(r, call->self, &text));
  size_t bytes;
  for (size_t at = 0; at < text.bytes;) {
    uint32_t c = hr__utf8_decode(text.text + at, &bytes);
    hr_py part = hr__py_string(text.text + at, bytes);
    if (!begins_word(c)) {
      HR_TRY(hr__py_to_case(r, part, HR_PY_UPPER, &part));
      HR_TRY(hr__py_put(r, &made, part.text, part.bytes));
      at += bytes;
      size_t end = at;
      while (end < text.bytes && !begins_word(hr__utf8_decode(text.text + end, &bytes)))
        end += bytes;
      part = hr__py_string(text.text + at, end - at);
      HR_TRY(hr__py_to_case(r, part, HR_PY_LOWER, &part));
      at = end;
    } else {
      at += bytes;
    }
    HR_TRY(hr__py_put(r, &made, part.text, part.bytes));
  }
  *out = hr__py_taken(&made);
  return HR_OK;
}

FILTER(replace) {
  hr_py text, old, with;
  int64_t most;
  HR_TRY(hr__py_str(r, call->self, &text));
  HR_TRY(hr__py_str(r, call->arg[0], &old));
  HR_TRY(hr__py_str(r, call->arg[1], &with));
  HR_TRY(
      hr__argument_integer(r, hr__py_nothing(call->arg[2]) ? (hr_py){.kind = HR_PY_ABSENT} : call->arg[2], -1, &most));
  return hr__py_replace(r, text, old, with, most, out);
}

FILTER(string) {
  return hr__py_str(r, call->self, out);
}

FILTER(safe) {
  HR_TRY(hr__py_str(r, call->self, out));
  out->markup = true;
  return HR_OK;
}

FILTER(escape) { /* as `safe` text joined to it would escape it */
  hr_py text, empty = hr__py_string("", 0);
  HR_TRY(hr__py_str(r, call->self, &text));
  if (text.markup) {
    *out = text;
    return HR_OK;
  }
  empty.markup = true;
  return hr__py_binary(r, HR_T_ADD, empty, text, out);
}

FILTER(fallback) {
  bool falsy = hr__py_given(call->arg[1]) && hr__py_truth(call->arg[1]);
  bool taken = call->self.kind == HR_PY_UNDEFINED || (falsy && !hr__py_truth(call->self));
  (void)r;
  *out = !taken ? call->self : hr__py_given(call->arg[0]) ? call->arg[0] : hr__py_string("", 0);
  return HR_OK;
}

static hr_status indent_text(hr_render *r, hr_py indent, hr_py *out) {
  *out = (hr_py){.kind = HR_PY_ABSENT};
  if (hr__py_nothing(indent)) return HR_OK;
  *out = indent;
  if (indent.kind == HR_PY_STRING) return HR_OK;
  if (!hr__py_integral(indent)) return hr__render_fail(r, "an indent is a number or a str");
  return hr__py_binary(r, HR_T_MULTIPLY, hr__py_string(" ", 1), indent, out);
}

FILTER(tojson) {
  hr_json_style style = {.ascii = hr__py_given(call->arg[0]) && hr__py_truth(call->arg[0]),
                         .sorted = hr__py_given(call->arg[3]) && hr__py_truth(call->arg[3])};
  HR_TRY(indent_text(r, call->arg[1], &style.indent));
  style.item_separator = hr__py_given(style.indent) ? hr__py_string(",", 1) : hr__py_string(", ", 2);
  style.key_separator = hr__py_string(": ", 2);
  if (!hr__py_nothing(call->arg[2])) {
    hr_py_list *both = NULL;
    HR_TRY(hr__py_iterate(r, call->arg[2], &both));
    if (both->count != 2 || both->items[0].kind != HR_PY_STRING || both->items[1].kind != HR_PY_STRING)
      return hr__render_fail(r, "the separators of tojson are two texts");
    style.item_separator = both->items[0];
    style.key_separator = both->items[1];
  }
  hr_py_text text = {0};
  HR_TRY(hr__py_put_json(r, &text, call->self, &style));
  *out = hr__py_taken(&text);
  return HR_OK;
}

FILTER(indent) {
  hr_py by, text = call->self;
  HR_TRY(indent_text(r, hr__py_given(call->arg[0]) ? call->arg[0] : hr__py_int(4), &by));
  if (text.kind != HR_PY_STRING || text.markup) return hr__render_unsupported(r, "indent of anything but a plain text");
  bool first = hr__py_given(call->arg[1]) && hr__py_truth(call->arg[1]);
  bool blank = hr__py_given(call->arg[2]) && hr__py_truth(call->arg[2]);
  const hr_builtin *splitlines = hr__builtin_method(HR_PY_STRING, "splitlines", 10);
  hr_py lines;
  HR_TRY(hr__py_binary(r, HR_T_ADD, text, hr__py_string("\n", 1), &text));
  HR_TRY(hr__builtin_call(r, splitlines, text, &(hr_arguments){0}, &lines));
  hr_py_text made = {0};
  for (size_t i = 0; i < lines.list->count; i++) {
    hr_py line = lines.list->items[i];
    if (i) HR_TRY(hr__py_put(r, &made, "\n", 1));
    if (i ? blank || line.bytes : first) HR_TRY(hr__py_put(r, &made, by.text, by.bytes));
    HR_TRY(hr__py_put(r, &made, line.text, line.bytes));
  }
  *out = hr__py_taken(&made);
  return HR_OK;
}

/* A number written in a text, with blanks around it; false: none that is understood. */
static bool number_in(hr_render *r, hr_py text, bool whole, hr_py *out) {
  char digits[64], *end;
  if (hr__py_strip(r, text, (hr_py){.kind = HR_PY_ABSENT}, true, true, &text) != HR_OK) return false;
  if (!text.bytes || text.bytes >= sizeof digits) return false;
  memcpy(digits, text.text, text.bytes);
  digits[text.bytes] = 0;
  if (strspn(digits, whole ? "+-0123456789" : "+-0123456789.eE") != text.bytes) return false;
  errno = 0;
  if (whole)
    *out = hr__py_int(strtoll(digits, &end, 10));
  else
    *out = hr__py_float(strtod(digits, &end));
  return *end == 0 && end != digits && errno == 0;
}

static bool whole_part(double real, hr_py *out) {
  if (!(real > -9.2e18 && real < 9.2e18)) return false;
  *out = hr__py_int((int64_t)real);
  return true;
}

FILTER(integer) {
  hr_py value = call->self, real;
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  if (hr__py_given(call->arg[1])) return hr__render_unsupported(r, "int with a base");
  *out = hr__py_given(call->arg[0]) ? call->arg[0] : hr__py_int(0);
  if (hr__py_integral(value)) *out = hr__py_int(hr__py_integer(value));
  hr_py found = *out;
  if (value.kind == HR_PY_FLOAT && whole_part(value.real, &found)) *out = found;
  if (value.kind == HR_PY_STRING) {
    if (number_in(r, value, true, &found))
      *out = found;
    else if (number_in(r, value, false, &real) && whole_part(real.real, &found))
      *out = found;
  }
  return HR_OK;
}

FILTER(real_number) {
  hr_py found;
  if (call->self.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, call->self);
  *out = hr__py_given(call->arg[0]) ? call->arg[0] : hr__py_float(0);
  if (hr__py_number(call->self)) *out = hr__py_float(hr__py_real(call->self));
  if (call->self.kind == HR_PY_STRING && number_in(r, call->self, false, &found)) *out = found;
  return HR_OK;
}

FILTER(absolute) {
  bool negative = hr__py_number(call->self) && hr__py_real(call->self) < 0;
  *out = call->self.kind == HR_PY_BOOL ? hr__py_int(call->self.truth) : call->self;
  if (hr__py_number(call->self) && !negative) return HR_OK;
  return hr__py_negate(r, call->self, out);
}

FILTER(format) {
  const hr_arguments *given = call->all;
  hr_py text, values = {.kind = HR_PY_TUPLE};
  HR_TRY(hr__py_str(r, call->self, &text));
  if (given->positional && given->positional < given->count)
    return hr__render_fail(r, "format takes values by position or by name, not both");
  if (given->count && !given->positional) {
    values.kind = HR_PY_DICT;
    HR_TRY(hr__py_dict_new(r, &values.dict));
    for (size_t i = 0; i < given->count; i++)
      HR_TRY(hr__py_dict_set(r, values.dict, hr__py_string(given->names[i]->text, given->names[i]->bytes),
                             given->values[i]));
  } else {
    HR_TRY(hr__py_list_new(r, given->count, &values.list));
    for (size_t i = 0; i < given->count; i++)
      HR_TRY(hr__py_list_add(r, values.list, given->values[i]));
  }
  return hr__py_percent(r, text, values, out);
}

static const hr_builtin rows[] = {
    {"trim", trim, "| chars"},
    {"upper", upper, ""},
    {"lower", lower, ""},
    {"capitalize", capitalize, ""},
    {"title", title, ""},
    {"replace", replace, "old new | count"},
    {"string", string, ""},
    {"safe", safe, ""},
    {"e", escape, ""},
    {"escape", escape, ""},
    {"default", fallback, "| default_value boolean"},
    {"d", fallback, "| default_value boolean"},
    {"tojson", tojson, "| ensure_ascii indent separators sort_keys"},
    {"indent", indent, "| width first blank"},
    {"int", integer, "| default base"},
    {"float", real_number, "| default"},
    {"abs", absolute, ""},
    {"format", format, "*"},
    {"attr", NULL, "*"},
    {"center", NULL, "*"},
    {"filesizeformat", NULL, "*"},
    {"forceescape", NULL, "*"},
    {"pprint", NULL, "*"},
    {"round", NULL, "*"},
    {"striptags", NULL, "*"},
    {"truncate", NULL, "*"},
    {"urlencode", NULL, "*"},
    {"urlize", NULL, "*"},
    {"wordcount", NULL, "*"},
    {"wordwrap", NULL, "*"},
    {"xmlattr", NULL, "*"},
};

const hr_builtin *hr__builtin_filter(const char *name, size_t bytes) {
  const hr_builtin *row = hr__builtin_find(rows, sizeof rows / sizeof rows[0], name, bytes);
  return row ? row : hr__builtin_list_filter(name, bytes);
}
