/* Columns that text takes on a terminal, and lines that keep to them: see base/text.h. */
#include "base/text.h"

#include <string.h>

typedef struct range {
  uint32_t first, last;
} range;

/* Characters that stand on the one before them. */
static const range without_width[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x0610, 0x061a},   {0x064b, 0x065f},
    {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0x302a, 0x302d},   {0x3099, 0x309a},   {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef},
};

/* Those that take two: East Asian scripts and their full-width forms, and pictures. */
static const range of_two[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},   {0x2648, 0x2653},
    {0x26aa, 0x26ab},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320},
    {0x1f32d, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
};

static bool has(const range *ranges, size_t count, uint32_t code) {
  for (size_t i = 0; i < count && ranges[i].first <= code; i++)
    if (code <= ranges[i].last) return true;
  return false;
}

/* The character at `text`, and its bytes; of bytes that are no UTF-8 the first, as one. */
static uint32_t character(const unsigned char *text, size_t *bytes) {
  size_t length = text[0] < 0xc2 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 1;
  uint32_t code = length == 1 ? text[0] : text[0] & (0xffu >> (length + 1));
  *bytes = 1;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return text[0];
    code = code << 6 | (text[i] & 0x3fu);
  }
  *bytes = length;
  return code;
}

static size_t columns_of(const char *text, size_t length) {
  size_t columns = 0, bytes;
  const unsigned char *end = (const unsigned char *)text + length;
  for (const unsigned char *at = (const unsigned char *)text; at < end; at += bytes) {
    uint32_t code = character(at, &bytes);
    if (has(without_width, sizeof without_width / sizeof *without_width, code)) continue;
    columns += has(of_two, sizeof of_two / sizeof *of_two, code) ? 2 : 1;
  }
  return columns;
}

size_t hr__text_fit(const char *text, size_t columns) {
  size_t used = 0, bytes;
  const char *at = text;
  for (; *at; at += bytes) {
    (void)character((const unsigned char *)at, &bytes);
    used += columns_of(at, bytes);
    if (used > columns) break;
  }
  return (size_t)(at - text);
}

size_t hr__text_columns(const char *text) {
  return columns_of(text, strlen(text));
}

/* Bytes of the next word, of an option with its value those of both, of a command up to the end of its clause. */
static size_t word_length(const char *text) {
  size_t length = strcspn(text, " \n");
  if (strncmp(text, "headroom ", 9) == 0) {
    length = strcspn(text, ",;\n");
    return length + (text[length] == ',' || text[length] == ';');
  }
  bool option = strncmp(text, "--", 2) == 0 && text[length] == ' ' && !memchr("=),.;:", text[length - 1], 6);
  if (!option || strchr("-(", text[length + 1])) return length;
  return length + 1 + strcspn(text + length + 1, " \n");
}

void hr__text_wrap(const char *text, size_t column, size_t indent, size_t columns, FILE *to) {
  bool first = true; /* of its line */
  while (*text) {
    size_t blanks = strspn(text, " "), length = word_length(text + blanks);
    size_t width = columns_of(text + blanks, length);
    bool broken = text[blanks] == '\n';
    if (broken || (!first && column + blanks + width > columns)) {
      fprintf(to, "\n%*s", (int)indent, "");
      column = indent;
      first = true;
      text += blanks + broken;
      if (broken) continue;
      blanks = 0;
    }
    fprintf(to, "%.*s", (int)(blanks + length), text);
    column += blanks + width;
    text += blanks + length;
    first = false;
  }
}
