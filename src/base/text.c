/* Text for people: see base/text.h. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const char *hr__size_text(uint64_t bytes, char out[HR_SIZE_TEXT]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(out, HR_SIZE_TEXT, "%u B", (unsigned)bytes);
    return out;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  for (; value >= 1023.995 && unit < sizeof units / sizeof units[0] - 1; unit++)
    value /= 1024;
  snprintf(out, HR_SIZE_TEXT, "%.2f %s", value, units[unit]);
  return out;
}

const char *hr__seconds_text(double seconds, char out[HR_SIZE_TEXT]) {
  if (seconds >= 100)
    snprintf(out, HR_SIZE_TEXT, "%.0f s", seconds);
  else if (seconds >= 1)
    snprintf(out, HR_SIZE_TEXT, "%.2f s", seconds);
  else if (seconds >= 1e-3)
    snprintf(out, HR_SIZE_TEXT, "%.1f ms", seconds * 1e3);
  else
    snprintf(out, HR_SIZE_TEXT, "%.1f us", seconds * 1e6);
  return out;
}

/* Bytes per unit; 0 when `text` is no unit. Case does not matter: nobody means bits or milli. */
static uint64_t unit_bytes(const char *text) {
  static const char letters[] = "KMGTPE";
  if (!*text || strcasecmp(text, "B") == 0) return 1;
  const char *letter = strchr(letters, *text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text);
  if (!letter) return 0;
  bool decimal = strcasecmp(text + 1, "B") == 0;
  if (!decimal && text[1] && strcasecmp(text + 1, "i") != 0 && strcasecmp(text + 1, "iB") != 0) return 0;
  uint64_t bytes = 1;
  for (const char *at = letters; at <= letter; at++)
    bytes *= decimal ? 1000 : 1024;
  return bytes;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool hr__size_parse(const char *text, uint64_t *bytes) {
  const uint64_t limit = (uint64_t)1 << 62;
  const char *at = text;
  while (*at == ' ' || *at == '\t')
    at++;
  if (!is_digit(*at)) return false;
  unsigned __int128 number = 0; /* all digits without the point; at most 20 + 9 of them count: below 2^97 */
  uint64_t scale = 1;
  for (; is_digit(*at); at++) {
    number = number * 10 + (unsigned)(*at - '0');
    if (number > limit) return false;
  }
  if (*at == '.') {
    if (!is_digit(*++at)) return false;
    for (; is_digit(*at); at++) {
      if (scale == 1000000000) {
        if (*at != '0') return false; /* finer than a billionth: surely a mistake */
        continue;
      }
      number = number * 10 + (unsigned)(*at - '0');
      scale *= 10;
    }
  }
  while (*at == ' ' || *at == '\t')
    at++;
  char unit[8] = {0};
  size_t length = strlen(at);
  while (length && (at[length - 1] == ' ' || at[length - 1] == '\t' || at[length - 1] == '\n'))
    length--;
  if (length >= sizeof unit) return false;
  memcpy(unit, at, length);
  uint64_t per_unit = unit_bytes(unit);
  if (!per_unit) return false;
  if (per_unit == 1 && number % scale) return false; /* half a byte */
  if (number > ((unsigned __int128)limit * scale) / per_unit) return false;
  *bytes = (uint64_t)(number * per_unit / scale);
  return true;
}

/* Length of the UTF-8 character at text[0..bytes), 0 when it is not one, or when it is one that moves or hides other
 * text (C0, DEL, C1 controls, line and paragraph separators, direction overrides). */
static size_t printable_length(const unsigned char *text, size_t bytes) {
  unsigned char lead = text[0];
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f;
  size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  if (!length || length > bytes) return 0;
  uint32_t code = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3fu);
  }
  if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10ffff) return 0;
  if (code >= 0xd800 && code <= 0xdfff) return 0;
  bool hides = code < 0xa0 || (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
               (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
  return hides ? 0 : length;
}

void hr__text_escape(const char *text, size_t bytes, char *out, size_t capacity) {
  static const char digits[] = "0123456789abcdef";
  if (!capacity) return;
  const unsigned char *from = (const unsigned char *)text;
  size_t used = 0;
  for (size_t i = 0; i < bytes;) {
    size_t length = printable_length(from + i, bytes - i);
    size_t needed = length ? length : 4;
    if (capacity - used <= needed) break;
    if (length) {
      memcpy(out + used, from + i, length);
      i += length;
    } else {
      out[used] = '\\';
      out[used + 1] = 'x';
      out[used + 2] = digits[from[i] >> 4];
      out[used + 3] = digits[from[i] & 15];
      i++;
    }
    used += needed;
  }
  out[used] = '\0';
}

/* Whether `pattern` covers a beginning of `name` that ends where a component ends. On a mismatch the last `*` takes one
 * more character, so the time is at most the product of both lengths. */
static bool pattern_covers(const char *name, const char *pattern) {
  const char *star = NULL, *resume = NULL;
  for (;;) {
    if (*pattern == '*') {
      star = ++pattern;
      resume = name;
    } else if (*pattern == '\0' && (*name == '\0' || *name == '.')) {
      return true;
    } else if (*pattern != '\0' && *pattern == *name) {
      pattern++;
      name++;
    } else if (star && *resume != '\0') {
      pattern = star;
      name = ++resume;
    } else {
      return false;
    }
  }
}

bool hr__name_matches(const char *name, const char *pattern) {
  if (!*pattern) return false;
  for (const char *at = name; at; at = strchr(at, '.')) {
    at += *at == '.';
    if (pattern_covers(at, pattern)) return true;
  }
  return false;
}

void hr__path_clean(char *path) {
  bool here = path[0] == '.' && path[1] == '/'; /* says that it is a path and no name: that stays */
  size_t rooted = here ? 2 : *path == '/';
  char *to = path + rooted;
  for (const char *part = path; *part;) {
    size_t length = strcspn(part, "/");
    bool said = length > 0 && !(length == 1 && *part == '.');
    if (said) {
      if (to > path + rooted) *to++ = '/';
      memmove(to, part, length);
      to += length;
    }
    part += length + (part[length] == '/');
  }
  if (here && to == path + rooted) to = path;
  if (to == path && *path) *to++ = '.';
  *to = '\0';
}

bool hr__text_ends(const char *text, const char *ending) {
  size_t length = strlen(text), of_ending = strlen(ending);
  return length >= of_ending && strcmp(text + length - of_ending, ending) == 0;
}

size_t hr__text_distance(const char *a, const char *b) {
  enum { LONGEST = 128 }; /* what lies beyond counts as wholly different: names are far shorter */
  size_t a_length = strlen(a), b_length = strlen(b);
  size_t beyond = (a_length > LONGEST ? a_length - LONGEST : 0) + (b_length > LONGEST ? b_length - LONGEST : 0);
  if (a_length > LONGEST) a_length = LONGEST;
  if (b_length > LONGEST) b_length = LONGEST;
  size_t row[LONGEST + 1]; /* row[j] = distance of a[0..i) and b[0..j) */
  for (size_t j = 0; j <= b_length; j++)
    row[j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      size_t change = diagonal + (a[i - 1] != b[j - 1]);
      size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
      diagonal = row[j];
      row[j] = change < shorter + 1 ? change : shorter + 1;
    }
  }
  return row[b_length] + beyond;
}

bool hr__text_colors(hr_color_mode mode, FILE *stream) {
  if (mode != HR_COLOR_AUTO) return mode == HR_COLOR_ALWAYS;
  const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
  if ((no_color && *no_color) || !terminal || strcmp(terminal, "dumb") == 0) return false;
  return isatty(fileno(stream)) == 1;
}
