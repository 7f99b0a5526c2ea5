/* Methods of strings. Those that Python has and this does not are rows too, so that they are told by name. */
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_unicode.h"

#define METHOD(name) static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out)

METHOD(str_strip) {
  return hr__py_strip(r, call->self, call->arg[0], true, true, out);
}
METHOD(str_lstrip) {
  return hr__py_strip(r, call->self, call->arg[0], true, false, out);
}
METHOD(str_rstrip) {
  return hr__py_strip(r, call->self, call->arg[0], false, true, out);
}
METHOD(str_upper) {
  return hr__py_to_case(r, call->self, HR_PY_UPPER, out);
}
METHOD(str_lower) {
  return hr__py_to_case(r, call->self, HR_PY_LOWER, out);
}
METHOD(str_capitalize) {
  return hr__py_to_case(r, call->self, HR_PY_CAPITALIZE, out);
}
METHOD(str_title) {
  return hr__py_to_case(r, call->self, HR_PY_TITLE, out);
}

METHOD(str_replace) {
  int64_t most;
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  HR_TRY(hr__argument_string(r, call, call->arg[1]));
  HR_TRY(hr__argument_integer(r, call->arg[2], -1, &most));
  return hr__py_replace(r, call->self, call->arg[0], call->arg[1], most, out);
}

METHOD(str_join) {
  hr_py_list *items = NULL;
  HR_TRY(hr__py_iterate(r, call->arg[0], &items));
  for (size_t i = 0; i < items->count; i++)
    HR_TRY(hr__argument_string(r, call, items->items[i]));
  return hr__py_join(r, call->self, items, out);
}

/* startswith and endswith: one text, or any of a tuple. */
static hr_status edge(hr_render *r, const hr_builtin_call *call, bool at_end, hr_py *out) {
  hr_py one = call->arg[0];
  const hr_py *wanted = &one;
  size_t count = 1;
  if (hr__py_given(call->arg[1])) return hr__render_unsupported(r, "'%s' with a position", call->row->name);
  if (one.kind == HR_PY_TUPLE) {
    wanted = one.list->items;
    count = one.list->count;
  }
  *out = hr__py_bool(false);
  for (size_t i = 0; i < count && !out->truth; i++) {
    HR_TRY(hr__argument_string(r, call, wanted[i]));
    size_t bytes = wanted[i].bytes;
    out->truth = bytes <= call->self.bytes &&
                 memcmp(call->self.text + (at_end ? call->self.bytes - bytes : 0), wanted[i].text, bytes) == 0;
  }
  return HR_OK;
}
METHOD(str_startswith) {
  return edge(r, call, false, out);
}
METHOD(str_endswith) {
  return edge(r, call, true, out);
}

static hr_status without_edge(hr_render *r, const hr_builtin_call *call, bool at_end, hr_py *out) {
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  hr_py there;
  HR_TRY(edge(r, call, at_end, &there));
  size_t bytes = there.truth ? call->arg[0].bytes : 0;
  *out = hr__py_string(call->self.text + (at_end ? 0 : bytes), call->self.bytes - bytes);
  return HR_OK;
}
METHOD(str_removeprefix) {
  return without_edge(r, call, false, out);
}
METHOD(str_removesuffix) {
  return without_edge(r, call, true, out);
}

static hr_status piece(hr_render *r, hr_py_list *list, hr_py of, size_t begin, size_t end) {
  hr_py part = hr__py_string(of.text + begin, end - begin);
  part.markup = of.markup;
  HR_TRY(hr__render_work(r, 1));
  return hr__py_list_add(r, list, part);
}

/* At runs of whitespace; none at the ends. */
static hr_status split_words(hr_render *r, hr_py string, int64_t most, hr_py_list *list) {
  size_t at = 0, bytes = 0;
  for (;;) {
    while (at < string.bytes && hr__py_isspace(hr__utf8_decode(string.text + at, &bytes)))
      at += bytes;
    if (at == string.bytes) return HR_OK;
    size_t begin = at;
    if (most-- == 0) {
      hr_py rest = hr__py_string(string.text + at, string.bytes - at);
      HR_TRY(hr__py_strip(r, rest, (hr_py){.kind = HR_PY_ABSENT}, false, true, &rest));
      return piece(r, list, string, at, at + rest.bytes);
    }
    while (at < string.bytes && !hr__py_isspace(hr__utf8_decode(string.text + at, &bytes)))
      at += bytes;
    HR_TRY(piece(r, list, string, begin, at));
  }
}

METHOD(str_split) {
  int64_t most;
  hr_py_list *list = NULL;
  HR_TRY(hr__argument_integer(r, call->arg[1], -1, &most));
  HR_TRY(hr__py_list_new(r, 0, &list));
  HR_TRY(hr__render_work(r, call->self.bytes / 64));
  *out = hr__py_list(list, HR_PY_LIST);
  if (hr__py_nothing(call->arg[0])) return split_words(r, call->self, most, list);
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  hr_py by = call->arg[0], self = call->self;
  if (!by.bytes) return hr__render_fail(r, "split takes a separator that is not empty");
  size_t at = 0;
  for (const char *found; most != 0 && (found = memmem(self.text + at, self.bytes - at, by.text, by.bytes)); most--) {
    HR_TRY(piece(r, list, self, at, (size_t)(found - self.text)));
    at = (size_t)(found - self.text) + by.bytes;
  }
  return piece(r, list, self, at, self.bytes);
}

/* The last place of a text before `end`; NULL: none. */
static const char *find_last(hr_py string, size_t end, hr_py what) {
  for (size_t at = end; at >= what.bytes; at--)
    if (memcmp(string.text + at - what.bytes, what.text, what.bytes) == 0) return string.text + at - what.bytes;
  return NULL;
}

METHOD(str_rsplit) {
  int64_t most;
  hr_py_list *list = NULL;
  HR_TRY(hr__argument_integer(r, call->arg[1], -1, &most));
  if (most < 0) return str_split(r, call, out);
  if (hr__py_nothing(call->arg[0])) return hr__render_unsupported(r, "rsplit at whitespace with a number");
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  hr_py by = call->arg[0], self = call->self;
  if (!by.bytes) return hr__render_fail(r, "rsplit takes a separator that is not empty");
  HR_TRY(hr__py_list_new(r, 0, &list));
  HR_TRY(hr__render_work(r, self.bytes / 16));
  size_t end = self.bytes;
  for (const char *found; most > 0 && (found = find_last(self, end, by)); most--) {
    HR_TRY(piece(r, list, self, (size_t)(found - self.text) + by.bytes, end));
    end = (size_t)(found - self.text);
  }
  HR_TRY(piece(r, list, self, 0, end));
  for (size_t i = 0; i < list->count / 2; i++) {
    hr_py other = list->items[list->count - 1 - i];
    list->items[list->count - 1 - i] = list->items[i];
    list->items[i] = other;
  }
  *out = hr__py_list(list, HR_PY_LIST);
  return HR_OK;
}

static bool ends_line(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

METHOD(str_splitlines) {
  bool keep = hr__py_given(call->arg[0]) && hr__py_truth(call->arg[0]);
  hr_py self = call->self;
  hr_py_list *list = NULL;
  HR_TRY(hr__py_list_new(r, 0, &list));
  HR_TRY(hr__render_work(r, self.bytes / 16));
  size_t begin = 0, bytes;
  for (size_t at = 0; at < self.bytes; at += bytes) {
    uint32_t c = hr__utf8_decode(self.text + at, &bytes);
    if (!ends_line(c)) continue;
    size_t end = at;
    if (c == '\r' && at + 1 < self.bytes && self.text[at + 1] == '\n') bytes = 2;
    HR_TRY(piece(r, list, self, begin, keep ? at + bytes : end));
    begin = at + bytes;
  }
  if (begin < self.bytes) HR_TRY(piece(r, list, self, begin, self.bytes));
  *out = hr__py_list(list, HR_PY_LIST);
  return HR_OK;
}

static hr_status find(hr_render *r, const hr_builtin_call *call, bool last, hr_py *out) {
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  if (hr__py_given(call->arg[1])) return hr__render_unsupported(r, "'%s' with a position", call->row->name);
  HR_TRY(hr__render_work(r, call->self.bytes / 16));
  hr_py self = call->self, what = call->arg[0];
  const char *found = last ? find_last(self, self.bytes, what) : memmem(self.text, self.bytes, what.text, what.bytes);
  *out = hr__py_int(found ? (int64_t)hr__utf8_count(self.text, (size_t)(found - self.text)) : -1);
  return HR_OK;
}
METHOD(str_find) {
  return find(r, call, false, out);
}
METHOD(str_rfind) {
  return find(r, call, true, out);
}
METHOD(str_index) {
  HR_TRY(find(r, call, false, out));
  return out->integer < 0 ? hr__render_fail(r, "'index' does not find the text") : HR_OK;
}

METHOD(str_count) {
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  hr_py self = call->self, what = call->arg[0];
  HR_TRY(hr__render_work(r, self.bytes / 16));
  int64_t count = what.bytes ? 0 : (int64_t)hr__utf8_count(self.text, self.bytes) + 1;
  size_t at = 0;
  for (const char *found; what.bytes && (found = memmem(self.text + at, self.bytes - at, what.text, what.bytes));) {
    count++;
    at = (size_t)(found - self.text) + what.bytes;
  }
  *out = hr__py_int(count);
  return HR_OK;
}

METHOD(str_isdigit) {
  bool digits = call->self.bytes > 0;
  for (size_t i = 0; i < call->self.bytes; i++) {
    if ((unsigned char)call->self.text[i] >= 0x80)
      return hr__render_unsupported(r, "isdigit of characters beyond ASCII");
    digits = digits && call->self.text[i] >= '0' && call->self.text[i] <= '9';
  }
  *out = hr__py_bool(digits);
  return HR_OK;
}

METHOD(str_isspace) {
  (void)r;
  size_t bytes, at = 0;
  while (at < call->self.bytes && hr__py_isspace(hr__utf8_decode(call->self.text + at, &bytes)))
    at += bytes;
  *out = hr__py_bool(at == call->self.bytes && at > 0);
  return HR_OK;
}

METHOD(str_format) {
  return hr__py_format(r, call->self, call->all, out);
}

static const hr_builtin rows[] = {
    {"strip", str_strip, "| chars"},
    {"lstrip", str_lstrip, "| chars"},
    {"rstrip", str_rstrip, "| chars"},
    {"upper", str_upper, ""},
    {"lower", str_lower, ""},
    {"capitalize", str_capitalize, ""},
    {"title", str_title, ""},
    {"replace", str_replace, "old new | count"},
    {"join", str_join, "iterable"},
    {"startswith", str_startswith, "prefix | start end"},
    {"endswith", str_endswith, "suffix | start end"},
    {"removeprefix", str_removeprefix, "prefix"},
    {"removesuffix", str_removesuffix, "suffix"},
    {"split", str_split, "| sep maxsplit"},
    {"rsplit", str_rsplit, "| sep maxsplit"},
    {"splitlines", str_splitlines, "| keepends"},
    {"find", str_find, "sub | start end"},
    {"rfind", str_rfind, "sub | start end"},
    {"index", str_index, "sub | start end"},
    {"count", str_count, "sub"},
    {"isdigit", str_isdigit, ""},
    {"isspace", str_isspace, ""},
    {"format", str_format, "*"},
    {"casefold", NULL, "*"},
    {"center", NULL, "*"},
    {"encode", NULL, "*"},
    {"expandtabs", NULL, "*"},
    {"format_map", NULL, "*"},
    {"isalnum", NULL, "*"},
    {"isalpha", NULL, "*"},
    {"isascii", NULL, "*"},
    {"isdecimal", NULL, "*"},
    {"isidentifier", NULL, "*"},
    {"islower", NULL, "*"},
    {"isnumeric", NULL, "*"},
    {"isprintable", NULL, "*"},
    {"istitle", NULL, "*"},
    {"isupper", NULL, "*"},
    {"ljust", NULL, "*"},
    {"maketrans", NULL, "*"},
    {"partition", NULL, "*"},
    {"rindex", NULL, "*"},
    {"rjust", NULL, "*"},
    {"rpartition", NULL, "*"},
    {"swapcase", NULL, "*"},
    {"translate", NULL, "*"},
    {"zfill", NULL, "*"},
};

const hr_builtin *hr__builtin_text_method(const char *name, size_t bytes) {
  return hr__builtin_find(rows, sizeof rows / sizeof rows[0], name, bytes);
}
