/* Operations on strings that filters and methods share. */
#include <string.h>

#include "text/template_render.h"
#include "text/template_unicode.h"

/* Whether a character is one of a set given as a string, or whitespace where none is given. */
static bool in_set(uint32_t character, hr_py set) {
  if (!hr__py_given(set)) return hr__py_isspace(character);
  size_t bytes;
  for (size_t at = 0; at < set.bytes; at += bytes)
    if (hr__utf8_decode(set.text + at, &bytes) == character) return true;
  return false;
}

hr_status hr__py_strip(hr_render *r, hr_py string, hr_py characters, bool left, bool right, hr_py *out) {
  if (characters.kind == HR_PY_NONE) characters = (hr_py){.kind = HR_PY_ABSENT};
  if (hr__py_given(characters) && characters.kind != HR_PY_STRING)
    return hr__render_fail(r, "what is stripped is a str, not a value of type %s", hr__py_type(characters));
  size_t begin = 0, end = string.bytes, bytes;
  while (left && begin < end && in_set(hr__utf8_decode(string.text + begin, &bytes), characters))
    begin += bytes;
  while (right && end > begin &&
         in_set(hr__utf8_decode(string.text + end - hr__utf8_last(string.text, end), &bytes), characters))
    end -= bytes;
  *out = hr__py_string(string.text + begin, end - begin);
  out->markup = string.markup;
  return hr__render_work(r, (string.bytes - out->bytes) / 16 * (1 + (hr__py_given(characters) ? characters.bytes : 0)));
}

/* A capital sigma at the end of a word has a small letter of its own: behind a letter, and before none. */
static bool final_sigma(hr_py string, size_t at, size_t bytes) {
  size_t before = at, behind = at + bytes, length;
  bool letter = false;
  while (before > 0 && !letter) {
    before -= hr__utf8_last(string.text, before);
    uint32_t c = hr__utf8_decode(string.text + before, &length);
    if (hr__py_case_ignorable(c)) continue;
    if (!hr__py_cased(c)) return false;
    letter = true;
  }
  for (; letter && behind < string.bytes; behind += length) {
    uint32_t c = hr__utf8_decode(string.text + behind, &length);
    if (hr__py_case_ignorable(c)) continue;
    return !hr__py_cased(c);
  }
  return letter;
}

hr_status hr__py_to_case(hr_render *r, hr_py string, hr_py_letters style, hr_py *out) {
  enum { SIGMA = 0x3a3, LAST_SIGMA = 0x3c2 };
  hr_py_text text = {0};
  bool inside = false; /* of a word, for titles */
  size_t bytes;
  HR_TRY(hr__render_work(r, string.bytes / 16));
  for (size_t at = 0; at < string.bytes; at += bytes) {
    uint32_t c = hr__utf8_decode(string.text + at, &bytes), to[HR_CASE_MAX];
    hr_case which = style == HR_PY_UPPER                                                          ? HR_CASE_UPPER
                    : (style == HR_PY_CAPITALIZE && at == 0) || (style == HR_PY_TITLE && !inside) ? HR_CASE_TITLE
                                                                                                  : HR_CASE_LOWER;
    size_t count = hr__py_case(c, which, to);
    if (c == SIGMA && which == HR_CASE_LOWER && final_sigma(string, at, bytes)) to[0] = LAST_SIGMA;
    for (size_t i = 0; i < count; i++)
      HR_TRY(hr__py_put_character(r, &text, to[i]));
    inside = hr__py_cased(c);
  }
  *out = hr__py_taken(&text);
  out->markup = string.markup;
  return HR_OK;
}

/* `old` empty: `with` goes before every character and to the end. */
static hr_status insert_between(hr_render *r, hr_py string, hr_py with, int64_t most, hr_py_text *text) {
  size_t at = 0, bytes = 0;
  for (; at < string.bytes && most != 0; at += bytes, most--) {
    hr__utf8_decode(string.text + at, &bytes);
    HR_TRY(hr__render_work(r, 1));
    HR_TRY(hr__py_put(r, text, with.text, with.bytes));
    HR_TRY(hr__py_put(r, text, string.text + at, bytes));
  }
  HR_TRY(hr__py_put(r, text, string.text + at, string.bytes - at));
  return most != 0 ? hr__py_put(r, text, with.text, with.bytes) : HR_OK;
}

hr_status hr__py_replace(hr_render *r, hr_py string, hr_py old, hr_py with, int64_t most, hr_py *out) {
  if (string.markup) return hr__render_unsupported(r, "replacing in a |safe text");
  hr_py_text text = {0};
  HR_TRY(hr__render_work(r, string.bytes / 64));
  if (!old.bytes) {
    HR_TRY(insert_between(r, string, with, most, &text));
    *out = hr__py_taken(&text);
    return HR_OK;
  }
  size_t at = 0;
  for (; most != 0; most--) {
    const char *found = memmem(string.text + at, string.bytes - at, old.text, old.bytes);
    if (!found) break;
    HR_TRY(hr__render_work(r, 1));
    HR_TRY(hr__py_put(r, &text, string.text + at, (size_t)(found - string.text) - at));
    HR_TRY(hr__py_put(r, &text, with.text, with.bytes));
    at = (size_t)(found - string.text) + old.bytes;
  }
  HR_TRY(hr__py_put(r, &text, string.text + at, string.bytes - at));
  *out = hr__py_taken(&text);
  return HR_OK;
}

hr_status hr__py_join(hr_render *r, hr_py separator, const hr_py_list *strings, hr_py *out) {
  hr_py_text text = {0};
  for (size_t i = 0; i < strings->count; i++) {
    HR_TRY(hr__render_work(r, 1));
    if (i) HR_TRY(hr__py_put(r, &text, separator.text, separator.bytes));
    HR_TRY(hr__py_put_str(r, &text, strings->items[i]));
  }
  *out = hr__py_taken(&text);
  return HR_OK;
}
