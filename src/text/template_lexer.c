#include "text/template_lexer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_unicode.h"

typedef struct lexer {
  const char *name, *text;
  size_t bytes, at;
  int line;
  hr_arena *arena;
  hr_tokens *out;
  char open[256]; /* brackets that are open inside a tag: its end is not looked for before they are closed */
  size_t open_count;
  hr_error *err;
} lexer;

hr_status hr__template_fail(hr_error *err, hr_status status, const char *name, int line, const char *format, ...) {
  char place[256], message[512];
  snprintf(place, sizeof place, "%s:%d", name, line);
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return hr__fail(err, status, place, NULL, "%s", message);
}

#define REFUSE(l, ...) hr__template_fail((l)->err, HR_BAD_INPUT, (l)->name, (l)->line, __VA_ARGS__)

static hr_status token_add(lexer *l, hr_token token) {
  hr_tokens *tokens = l->out;
  if (hr__arena_grow(l->arena, (void **)&tokens->items, &tokens->capacity, tokens->count, sizeof token) != 0)
    return hr__nomem(l->err);
  tokens->items[tokens->count++] = token;
  return HR_OK;
}

static hr_status token_put(lexer *l, hr_token_kind kind, const char *text, size_t bytes) {
  return token_add(l, (hr_token){.kind = kind, .line = l->line, .text = text, .bytes = bytes});
}

/* Goes on to `at`, counting lines. */
static void advance(lexer *l, size_t at) {
  for (; l->at < at; l->at++)
    l->line += l->text[l->at] == '\n';
}

static bool follows(const lexer *l, size_t at, const char *text) {
  size_t bytes = strlen(text);
  return bytes <= l->bytes - at && memcmp(l->text + at, text, bytes) == 0;
}

static size_t behind_space(const lexer *l, size_t at) {
  size_t bytes;
  while (at < l->bytes && hr__py_isspace(hr__utf8_decode(l->text + at, &bytes)))
    at += bytes;
  return at;
}

/* The end of the text before a tag at `end`, whose sign says what is stripped of it. */
static size_t data_end(const lexer *l, size_t begin, size_t end, char sign, bool print) {
  if (sign == '+' || (print && sign != '-')) return end;
  size_t at = end, bytes;
  while (at > begin && hr__py_isspace(hr__utf8_decode(l->text + at - hr__utf8_last(l->text, at), &bytes))) {
    if (sign != '-' && l->text[at - 1] == '\n') return at;
    at -= bytes;
  }
  bool line_begins = at == 0 || (at == begin && l->text[at - 1] == '\n');
  return sign == '-' || line_begins ? at : end;
}

/* Behind the end of a tag at `at` with the sign before it, if there is one; 0: none. A newline is dropped with it
 * (blocks and comments). */
static size_t tag_end(const lexer *l, size_t at, const char *mark, bool drops_newline) {
  if (follows(l, at, mark)) {
    at += strlen(mark);
    return drops_newline && at < l->bytes && l->text[at] == '\n' ? at + 1 : at;
  }
  if (at >= l->bytes || !follows(l, at + 1, mark)) return 0;
  if (l->text[at] == '-') return behind_space(l, at + 1 + strlen(mark));
  return l->text[at] == '+' && drops_newline ? at + 1 + strlen(mark) : 0;
}

static hr_status comment_skip(lexer *l) {
  for (size_t at = l->at; at < l->bytes; at++) {
    size_t behind = tag_end(l, at, "#}", true);
    if (!behind) continue;
    advance(l, behind);
    return HR_OK;
  }
  return REFUSE(l, "a comment ({#) is not closed by #}");
}

/* Behind {% raw %} at `at`, or 0. */
static size_t raw_begin(const lexer *l, size_t at) {
  at += 2;
  if (at < l->bytes && (l->text[at] == '-' || l->text[at] == '+')) at++;
  at = behind_space(l, at);
  if (!follows(l, at, "raw")) return 0;
  at = behind_space(l, at + 3);
  if (follows(l, at, "%}")) return at + 2;
  return follows(l, at, "-%}") ? behind_space(l, at + 3) : 0;
}

static hr_status raw_read(lexer *l, size_t begin) {
  advance(l, begin);
  for (size_t at = begin; at < l->bytes; at++) {
    if (!follows(l, at, "{%")) continue;
    size_t word = at + 2;
    char sign = word < l->bytes ? l->text[word] : 0;
    if (sign == '-' || sign == '+') word++;
    word = behind_space(l, word);
    if (!follows(l, word, "endraw")) continue;
    size_t behind = tag_end(l, behind_space(l, word + 6), "%}", true);
    if (!behind) continue;
    HR_TRY(token_put(l, HR_TOKEN_DATA, l->text + begin, data_end(l, begin, at, sign, false) - begin));
    advance(l, behind);
    return HR_OK;
  }
  return REFUSE(l, "{%% raw %%} is not closed by {%% endraw %%}");
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool in_name(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* Digits with single underscores between them from `at`; where they end. */
static size_t digits_end(const lexer *l, size_t at) {
  while (at < l->bytes && (is_digit(l->text[at]) || (l->text[at] == '_' && at + 1 < l->bytes && at > l->at &&
                                                     is_digit(l->text[at - 1]) && is_digit(l->text[at + 1]))))
    at++;
  return at;
}

static hr_status number_read(lexer *l) {
  size_t begin = l->at, end = digits_end(l, begin);
  bool real = false, behind_dot = begin > 0 && l->text[begin - 1] == '.'; /* a.0.1: two numbers */
  if (!behind_dot) {
    if (end + 1 < l->bytes && l->text[end] == '.' && is_digit(l->text[end + 1])) {
      real = true;
      end = digits_end(l, end + 1);
    }
    if (end < l->bytes && (l->text[end] | 0x20) == 'e') {
      size_t power = end + 1;
      if (power < l->bytes && (l->text[power] == '+' || l->text[power] == '-')) power++;
      if (power < l->bytes && is_digit(l->text[power])) {
        real = true;
        end = digits_end(l, power);
      }
    }
  }
  char digits[64];
  size_t count = 0;
  for (size_t i = begin; i < end; i++) {
    if (l->text[i] == '_') continue;
    if (count + 1 == sizeof digits) return REFUSE(l, "a number of more than %zu digits", sizeof digits - 1);
    digits[count++] = l->text[i];
  }
  digits[count] = 0;
  hr_token token = {
      .kind = real ? HR_TOKEN_FLOAT : HR_TOKEN_INTEGER, .line = l->line, .text = l->text + begin, .bytes = end - begin};
  if (real) {
    token.real = strtod(digits, NULL);
  } else {
    if (digits[0] == '0' && strspn(digits, "0") != count) return REFUSE(l, "a number with leading zeros: %s", digits);
    if (digits[0] == '0' && end < l->bytes && in_name(l->text[end]))
      return hr__template_fail(l->err, HR_UNSUPPORTED, l->name, l->line, "numbers of another base are not supported");
    errno = 0;
    token.integer = strtoll(digits, NULL, 10);
    if (errno) return REFUSE(l, "the number %s has more than 64 bits", digits);
  }
  l->at = end;
  return token_add(l, token);
}

/* Hexadecimal digits of an escape; false: not as many. */
static bool hex_read(const char *text, size_t bytes, size_t digits, uint32_t *out) {
  *out = 0;
  if (digits > bytes) return false;
  for (size_t i = 0; i < digits; i++) {
    char c = text[i];
    int value = is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
    if (value < 0) return false;
    *out = *out << 4 | (uint32_t)value;
  }
  return true;
}

/* The escape behind a backslash at text[0]: what it stands for goes to `out`; bytes read, 0: malformed. */
static size_t escape_read(const char *text, size_t bytes, char *out, size_t *written) {
  static const char letters[] = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
  *written = 1;
  for (size_t i = 0; i + 1 < sizeof letters; i += 2)
    if (text[0] == letters[i]) {
      out[0] = letters[i + 1];
      return 1;
    }
  *written = 0;
  if (text[0] == '\n') return 1;
  uint32_t character = 0;
  size_t digits = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0, read = 1 + digits;
  if (digits && !hex_read(text + 1, bytes - 1, digits, &character)) return 0;
  if (!digits && text[0] >= '0' && text[0] <= '7') {
    for (read = 0; read < 3 && read < bytes && text[read] >= '0' && text[read] <= '7'; read++)
      character = character << 3 | (uint32_t)(text[read] - '0');
    digits = read;
  }
  if (!digits) { /* none that Python knows: the backslash stays */
    out[0] = '\\';
    *written = 1;
    return text[0] == 'N' ? 0 : SIZE_MAX;
  }
  if (character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff)) return 0;
  *written = hr__utf8_encode(character, out);
  return read;
}

static hr_status string_read(lexer *l) {
  size_t begin = l->at + 1, end = begin;
  char quote = l->text[l->at];
  while (end < l->bytes && l->text[end] != quote)
    end += l->text[end] == '\\' ? 2 : 1;
  if (end >= l->bytes) return REFUSE(l, "a text that begins with %c is not closed", quote);
  char *value = hr__arena_room(l->arena, end - begin + 1, 1); /* an escape is never shorter than what it stands for */
  if (!value) return hr__nomem(l->err);
  size_t bytes = 0;
  for (size_t at = begin; at < end;) {
    if (l->text[at] != '\\') {
      value[bytes++] = l->text[at++];
      continue;
    }
    char escaped[4];
    size_t written, read = escape_read(l->text + at + 1, end - at - 1, escaped, &written);
    if (!read) return REFUSE(l, "an escape in a text that is not supported: \\%c", l->text[at + 1]);
    memcpy(value + bytes, escaped, written);
    bytes += written;
    at += read == SIZE_MAX ? 1 : 1 + read;
  }
  HR_TRY(token_put(l, HR_TOKEN_STRING, value, bytes));
  advance(l, end + 1);
  return HR_OK;
}

static hr_status sign_read(lexer *l) {
  static const char *const signs[] = {"//", "**", "==", "!=", "<=", ">=", "+", "-", "/", "*", "%", "~", "[",
                                      "]",  "(",  ")",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"};
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
    if (!follows(l, l->at, signs[i])) continue;
    char c = signs[i][0];
    if (c == '(' || c == '[' || c == '{') {
      if (l->open_count == sizeof l->open) return REFUSE(l, "more than %zu brackets are open", sizeof l->open);
      l->open[l->open_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (!l->open_count) return REFUSE(l, "'%c' closes nothing", c);
      char expected = l->open[--l->open_count];
      if (c != expected) return REFUSE(l, "'%c' where '%c' is expected", c, expected);
    }
    HR_TRY(token_put(l, HR_TOKEN_SIGN, signs[i], strlen(signs[i])));
    l->at += strlen(signs[i]);
    return HR_OK;
  }
  size_t bytes;
  hr__utf8_decode(l->text + l->at, &bytes);
  return REFUSE(l, "'%.*s' is not expected here", (int)bytes, l->text + l->at);
}

/* What stands inside {% %} or {{ }}, its end included. */
static hr_status tag_read(lexer *l, bool print) {
  const char *mark = print ? "}}" : "%}";
  int begun = l->line;
  for (;;) {
    advance(l, behind_space(l, l->at));
    if (l->at >= l->bytes)
      return hr__template_fail(l->err, HR_BAD_INPUT, l->name, begun, "%s is not closed by %s", print ? "{{" : "{%",
                               mark);
    size_t end = l->open_count ? 0 : tag_end(l, l->at, mark, !print);
    if (end) {
      HR_TRY(token_put(l, print ? HR_TOKEN_PRINT_END : HR_TOKEN_BLOCK_END, mark, 2));
      advance(l, end);
      return HR_OK;
    }
    char c = l->text[l->at];
    if (is_digit(c)) {
      HR_TRY(number_read(l));
    } else if (in_name(c)) {
      size_t stop = l->at;
      while (stop < l->bytes && in_name(l->text[stop]))
        stop++;
      HR_TRY(token_put(l, HR_TOKEN_NAME, l->text + l->at, stop - l->at));
      l->at = stop;
    } else {
      HR_TRY(c == '\'' || c == '"' ? string_read(l) : sign_read(l));
    }
  }
}

/* The next {{, {% or {#; the end of the text where there is none. */
static size_t tag_find(const lexer *l) {
  for (size_t at = l->at; at + 1 < l->bytes; at++)
    if (l->text[at] == '{' && (l->text[at + 1] == '{' || l->text[at + 1] == '%' || l->text[at + 1] == '#')) return at;
  return l->bytes;
}

static hr_status all_read(lexer *l) {
  while (l->at < l->bytes) {
    size_t tag = tag_find(l), begin = l->at;
    char kind = tag < l->bytes ? l->text[tag + 1] : 0, sign = tag + 2 < l->bytes ? l->text[tag + 2] : 0;
    size_t end = kind ? data_end(l, begin, tag, sign, kind == '{') : tag;
    if (end > begin) HR_TRY(token_put(l, HR_TOKEN_DATA, l->text + begin, end - begin));
    advance(l, tag);
    if (!kind) break;
    size_t raw = kind == '%' ? raw_begin(l, tag) : 0;
    if (raw) {
      HR_TRY(raw_read(l, raw));
      continue;
    }
    if (kind != '#') HR_TRY(token_put(l, kind == '{' ? HR_TOKEN_PRINT_BEGIN : HR_TOKEN_BLOCK_BEGIN, NULL, 0));
    l->at += sign == '-' || sign == '+' ? 3 : 2;
    HR_TRY(kind == '#' ? comment_skip(l) : tag_read(l, kind == '{'));
  }
  return token_put(l, HR_TOKEN_END, "", 0);
}

/* CR LF and CR become LF; the last newline goes. */
static const char *newlines_settle(const char *text, size_t *bytes, hr_arena *arena) {
  char *out = hr__arena_room(arena, *bytes + 1, 1);
  if (!out) return NULL;
  size_t length = 0;
  for (size_t i = 0; i < *bytes; i++) {
    if (text[i] == '\r' && i + 1 < *bytes && text[i + 1] == '\n') continue;
    out[length++] = text[i] == '\r' ? '\n' : text[i];
  }
  if (length && out[length - 1] == '\n') length--;
  out[length] = 0;
  *bytes = length;
  return out;
}

hr_status hr__template_tokens(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_tokens *out,
                              hr_error *err) {
  const char *settled = newlines_settle(text, &bytes, arena);
  if (!settled) return hr__nomem(err);
  lexer l = {.name = name, .text = settled, .bytes = bytes, .line = 1, .arena = arena, .out = out, .err = err};
  return all_read(&l);
}
