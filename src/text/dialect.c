/* A pattern for Oniguruma or Rust, rewritten for PCRE2 (with UTF, UCP and MULTILINE).
 *
 * What differs: \s has no U+180E; \h is a hexadecimal digit; \w goes by Alphabetic; X{1,3}+ repeats in Oniguruma and is
 * possessive elsewhere; \p{...} is Unicode 16, which PCRE2's tables may not have yet, so that newer characters are
 * added to the class. Signs that have no equal in PCRE2 are refused by name.
 */
#include <stdio.h>
#include <string.h>

#include "text/regex.h"
#include "text/unicode.h"

static const char space_set[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
                                "\\x{202f}\\x{205f}\\x{3000}";
static const char no_space_set[] = "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"
                                   "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"
                                   "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
static const char word_set[] = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
                               "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
static const char hex_set[] = "0-9A-Fa-f";

typedef struct writer {
  const char *at, *end;
  hr_dialect dialect;
  bool in_class;
  size_t atom; /* where the last thing that can be repeated begins in `out` */
  size_t groups[64];
  int depth;
  hr_string *out;
  hr_error *err;
} writer;

static hr_status put(writer *w, const char *text) {
  return hr__string_add(w->out, text, strlen(text), w->err);
}

static hr_status refuse(writer *w, const char *what) {
  return hr__fail(w->err, HR_BAD_INPUT, NULL, NULL, "regular expression: %s is not supported", what);
}

/* A set of characters: inside of a class as it is, elsewhere as a class of its own. */
static hr_status set_put(writer *w, const char *set, bool negated) {
  if (w->in_class) return negated ? refuse(w, "a negated set inside of brackets") : put(w, set);
  HR_TRY(put(w, negated ? "[^" : "["));
  HR_TRY(put(w, set));
  return put(w, "]");
}

static const char *const category_names[HR_CATEGORIES] = {
    [HR_LU] = "Lu", [HR_LL] = "Ll", [HR_LT] = "Lt", [HR_LM] = "Lm", [HR_LO] = "Lo", [HR_MN] = "Mn", [HR_MC] = "Mc",
    [HR_ME] = "Me", [HR_ND] = "Nd", [HR_NL] = "Nl", [HR_NO] = "No", [HR_PC] = "Pc", [HR_PD] = "Pd", [HR_PS] = "Ps",
    [HR_PE] = "Pe", [HR_PI] = "Pi", [HR_PF] = "Pf", [HR_PO] = "Po", [HR_SM] = "Sm", [HR_SC] = "Sc", [HR_SK] = "Sk",
    [HR_SO] = "So", [HR_ZS] = "Zs", [HR_ZL] = "Zl", [HR_ZP] = "Zp", [HR_CC] = "Cc", [HR_CF] = "Cf", [HR_CO] = "Co"};

static const struct {
  uint32_t first, last;
  hr_category category;
} newer[] = {
#define HR_NEWER(first, last, category)   {first, last, HR_##category},
#define HR_CHANGED(first, last, category) {first, last, HR_##category},
#include "text/unicode.def"
#undef HR_NEWER
#undef HR_CHANGED
};

/* \p{NAME} of a category (one or two letters), with the characters that came after Unicode 14. */
static hr_status category_put(writer *w, const char *name, size_t bytes, bool negated) {
  char text[64];
  if (w->in_class && negated) { /* PCRE2's own tables then */
    snprintf(text, sizeof text, "\\P{%.*s}", (int)bytes, name);
    return put(w, text);
  }
  if (!w->in_class) HR_TRY(put(w, negated ? "[^" : "["));
  snprintf(text, sizeof text, "\\p{%.*s}", (int)bytes, name);
  HR_TRY(put(w, text));
  for (size_t i = 0; bytes <= 2 && i < sizeof newer / sizeof *newer; i++)
    if (category_names[newer[i].category] && memcmp(category_names[newer[i].category], name, bytes) == 0) {
      snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", newer[i].first, newer[i].last);
      HR_TRY(put(w, text));
    }
  return w->in_class ? HR_OK : put(w, "]");
}

/* Behind "\p" or "\P". */
static hr_status property(writer *w, bool negated) {
  const char *name = w->at;
  size_t bytes = 1;
  if (w->at < w->end && *w->at == '{') {
    const char *close = memchr(w->at, '}', (size_t)(w->end - w->at));
    if (!close) return refuse(w, "\\p without its closing bracket");
    name = w->at + 1;
    bytes = (size_t)(close - name);
    w->at = close + 1;
    if (bytes > 0 && *name == '^') {
      negated = !negated;
      name++;
      bytes--;
    }
  } else if (w->at < w->end) {
    w->at++;
  }
  if (bytes == 0 || bytes > 40) return refuse(w, "\\p{...} with this name");
  return category_put(w, name, bytes, negated);
}

/* \uHHHH */
static hr_status code_point(writer *w) {
  char text[16];
  if (w->end - w->at < 4) return refuse(w, "\\u with fewer than four digits");
  snprintf(text, sizeof text, "\\x{%.4s}", w->at);
  w->at += 4;
  return put(w, text);
}

static hr_status escape(writer *w) {
  if (w->at == w->end) return refuse(w, "a backslash at the end");
  char c = *w->at++;
  char as_is[3] = {'\\', c, 0};
  switch (c) {
  case 's':
    return set_put(w, space_set, false);
  case 'S':
    return set_put(w, no_space_set, false);
  case 'w':
  case 'W':
    return set_put(w, word_set, c == 'W');
  case 'd':
  case 'D':
    return category_put(w, "Nd", 2, c == 'D');
  case 'h':
  case 'H':
    if (w->dialect == HR_DIALECT_RUST) return refuse(w, "\\h");
    return set_put(w, hex_set, c == 'H');
  case 'p':
  case 'P':
    return property(w, c == 'P');
  case 'u':
    return code_point(w);
  case 'C':
  case 'g':
  case 'k':
  case 'K':
  case 'Q':
  case 'E':
    return refuse(w, as_is);
  default:
    break;
  }
  if (c >= '1' && c <= '9') return refuse(w, "a reference to a group");
  return put(w, as_is);
}

/* Of a repetition that has just been written: what follows it. */
static hr_status braces(writer *w) {
  const char *close = memchr(w->at, '}', (size_t)(w->end - w->at));
  size_t bytes = close ? (size_t)(close - w->at) + 1 : 0;
  bool counted = close && bytes > 2 && strspn(w->at + 1, "0123456789,") == bytes - 2;
  if (!counted) { /* an ordinary sign */
    w->at++;
    w->atom = w->out->count;
    return put(w, "\\{");
  }
  HR_TRY(hr__string_add(w->out, w->at, bytes, w->err));
  w->at += bytes;
  if (w->dialect != HR_DIALECT_ONIGURUMA || w->at == w->end || *w->at != '+') return HR_OK;
  w->at++; /* repeated once more, not possessive */
  HR_TRY(hr__string_room(w->out, 8, w->err));
  char *atom = w->out->data + w->atom;
  memmove(atom + 3, atom, w->out->count - w->atom);
  memcpy(atom, "(?:", 3);
  w->out->count += 3;
  return put(w, ")+");
}

static hr_status class_begin(writer *w) {
  w->atom = w->out->count;
  w->in_class = true;
  HR_TRY(put(w, "["));
  if (w->at < w->end && *w->at == '^') {
    w->at++;
    HR_TRY(put(w, "^"));
  }
  if (w->at < w->end && *w->at == ']') {
    w->at++;
    HR_TRY(put(w, "\\]"));
  }
  return HR_OK;
}

static hr_status in_class(writer *w) {
  char c = *w->at++;
  if (c == '\\') return escape(w);
  if (c == '&' && w->at < w->end && *w->at == '&') return refuse(w, "&& inside of brackets");
  if (c == '[') {
    const char *close = w->at < w->end && *w->at == ':' ? memchr(w->at, ']', (size_t)(w->end - w->at)) : NULL;
    if (!close) return refuse(w, "a bracket inside of brackets");
    HR_TRY(hr__string_add(w->out, w->at - 1, (size_t)(close - w->at) + 2, w->err)); /* [:alpha:] */
    w->at = close + 1;
    return HR_OK;
  }
  if (c == ']') w->in_class = false;
  return hr__string_add(w->out, &c, 1, w->err);
}

/* What may stand behind "(?". */
static bool group_known(const writer *w) {
  static const char *const known[] = {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:", "?i)", "?-i:"};
  if (w->at == w->end || *w->at != '?') return w->at < w->end && *w->at != '*';
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if ((size_t)(w->end - w->at) >= strlen(known[i]) && memcmp(w->at, known[i], strlen(known[i])) == 0) return true;
  return false;
}

static hr_status outside(writer *w) {
  char c = *w->at;
  if (c == '{') return braces(w);
  w->at++;
  switch (c) {
  case '[':
    return class_begin(w);
  case '\\':
    w->atom = w->out->count;
    return escape(w);
  case '(':
    if (!group_known(w)) return refuse(w, "this kind of group");
    if (w->depth == 64) return refuse(w, "groups more than 64 deep");
    w->groups[w->depth++] = w->out->count;
    break;
  case ')':
    if (w->depth == 0) return refuse(w, "a closing bracket without an opening one");
    w->atom = w->groups[--w->depth];
    break;
  case '*':
  case '+':
  case '?':
  case '|':
    break;
  default:
    if (((unsigned char)c & 0xc0) != 0x80) w->atom = w->out->count; /* the first byte of a character */
  }
  return hr__string_add(w->out, &c, 1, w->err);
}

hr_status hr__dialect_write(const char *pattern, size_t bytes, hr_dialect dialect, hr_string *out, hr_error *err) {
  writer w = {.at = pattern, .end = pattern + bytes, .dialect = dialect, .out = out, .err = err};
  out->count = 0;
  while (w.at < w.end)
    HR_TRY(w.in_class ? in_class(&w) : outside(&w));
  HR_TRY(hr__string_add(out, "", 1, err));
  out->count--;
  return HR_OK;
}
