#include "text/template_unicode.h"

typedef struct case_steps {
  uint32_t first, last, step;
  int32_t distance;
} case_steps;

typedef struct case_special {
  uint32_t from, to_case, to[HR_CASE_MAX];
} case_special;

typedef struct character_range {
  uint32_t first, last;
} character_range;

#include "text/template_unicode.inc"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

uint32_t hr__utf8_decode(const char *text, size_t *bytes) {
  const unsigned char *at = (const unsigned char *)text;
  if (at[0] < 0x80) {
    *bytes = 1;
    return at[0];
  }
  size_t length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  uint32_t character = at[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++)
    character = character << 6 | (at[i] & 0x3fu);
  *bytes = length;
  return character;
}

size_t hr__utf8_encode(uint32_t character, char out[4]) {
  if (character < 0x80) {
    out[0] = (char)character;
    return 1;
  }
  size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, character >>= 6)
    out[i] = (char)(0x80 | (character & 0x3f));
  out[0] = (char)((0xf00u >> length & 0xf0u) | character);
  return length;
}

static bool continues(char byte) {
  return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t hr__utf8_count(const char *text, size_t bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes; i++)
    count += !continues(text[i]);
  return count;
}

size_t hr__utf8_offset(const char *text, size_t bytes, size_t index) {
  size_t at = 0;
  for (; at < bytes; at++)
    if (!continues(text[at]) && index-- == 0) return at;
  return bytes;
}

size_t hr__utf8_last(const char *text, size_t bytes) {
  size_t begin = bytes - 1;
  while (begin > 0 && continues(text[begin]))
    begin--;
  return bytes - begin;
}

static bool in_ranges(const character_range *ranges, size_t count, uint32_t character) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].last < character)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && ranges[low].first <= character;
}

bool hr__py_isspace(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool hr__py_isprintable(uint32_t character) {
  if (character < 0x7f) return character >= 0x20;
  return !in_ranges(unprintable, COUNT(unprintable), character);
}

bool hr__py_cased(uint32_t character) {
  return in_ranges(cased, COUNT(cased), character);
}

bool hr__py_case_ignorable(uint32_t character) {
  return in_ranges(ignorable, COUNT(ignorable), character);
}

static const struct {
  const case_steps *steps;
  size_t count;
} cases[] = {
    [HR_CASE_LOWER] = {lower_steps, COUNT(lower_steps)},
    [HR_CASE_UPPER] = {upper_steps, COUNT(upper_steps)},
    [HR_CASE_TITLE] = {title_steps, COUNT(title_steps)},
};

size_t hr__py_case(uint32_t character, hr_case to, uint32_t out[HR_CASE_MAX]) {
  out[0] = character;
  if (character < 0x80) {
    bool letter = (character | 0x20) >= 'a' && (character | 0x20) <= 'z';
    if (letter) out[0] = to == HR_CASE_LOWER ? character | 0x20 : character & ~0x20u;
    return 1;
  }
  for (size_t i = 0; i < COUNT(case_specials) && case_specials[i].from <= character; i++) {
    const case_special *special = &case_specials[i];
    if (special->from != character || special->to_case != (uint32_t)to) continue;
    size_t count = 0;
    while (count < HR_CASE_MAX && special->to[count]) {
      out[count] = special->to[count];
      count++;
    }
    return count;
  }
  for (size_t i = 0; i < cases[to].count && cases[to].steps[i].first <= character; i++) {
    const case_steps *run = &cases[to].steps[i];
    if (character <= run->last && (character - run->first) % run->step == 0)
      out[0] = (uint32_t)((int32_t)character + run->distance);
  }
  return 1;
}
