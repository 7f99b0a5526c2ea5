/* Values as text: see format/literal.h. */
#include "format/literal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Words that YAML 1.1 (PyYAML, and so most trainers) takes for true and false, in their three spellings. */
static const char *const bool_words[][2] = {
    {"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"}, {"yes", "no"}, {"Yes", "No"},
    {"YES", "NO"},     {"on", "off"},     {"On", "Off"},     {"ON", "OFF"},
};
enum { BOOL_WORDS = sizeof bool_words / sizeof bool_words[0] };

/* The spelling that `text` has, or -1; *yes is what it says. */
static int bool_spelling(const char *text, bool *yes) {
  for (int i = 0; i < BOOL_WORDS; i++)
    for (int no = 0; no < 2; no++)
      if (strcmp(text, bool_words[i][no]) == 0) {
        *yes = !no;
        return i;
      }
  return -1;
}

/* A number, also with underscores between its digits, which YAML 1.1 has. */
static bool number_of(const char *text, double *out) {
  char digits[64];
  size_t length = 0;
  for (; *text && length + 1 < sizeof digits; text++)
    if (*text != '_' || length == 0) digits[length++] = *text;
  digits[length] = '\0';
  hr_doc_node plain = {.kind = HR_DOC_SCALAR, .text = digits};
  return !*text && hr__doc_float(&plain, out);
}

/* Whether plain text is a string for every reader of YAML, 1.1 or 1.2: a word of harmless characters that cannot be
 * taken for a number, a date, a truth value or null. */
static bool plain_is_text(const char *text) {
  static const char harmless[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
  static const char *const words[] = {"null", "y", "n", "yes", "no", "on", "off", "true", "false"};
  if (!isalnum((unsigned char)text[0]) || strspn(text, harmless) != strlen(text)) return false;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    size_t same = 0;
    while (text[same] && tolower((unsigned char)text[same]) == words[i][same])
      same++;
    if (!text[same] && !words[i][same]) return false;
  }
  /* 0x1f, 0b1, 1e5, 2001-01-01 have no letters but these */
  return isalpha((unsigned char)text[0]) || text[strspn(text, "0123456789abcdefABCDEFxXoO_./-")];
}

/* In double quotes, by escapes that YAML and JSON share. */
static const char *double_quoted(const char *text, hr_arena *arena) {
  char *out = hr__arena_array(arena, strlen(text) + 1, 6);
  if (!out) return NULL;
  char *at = out;
  *at++ = '"';
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      *at++ = '\\', *at++ = (char)c;
    else if (c < 0x20 || c == 0x7f)
      at += sprintf(at, "\\u%04x", c);
    else
      *at++ = (char)c;
  }
  *at++ = '"';
  return out; /* the arena gives zeroed memory */
}

static const char *single_quoted(const char *text, hr_arena *arena) {
  char *out = hr__arena_array(arena, strlen(text) + 2, 2);
  if (!out) return NULL;
  char *at = out;
  *at++ = '\'';
  for (; *text; text++) {
    if (*text == '\'') *at++ = '\'';
    *at++ = *text;
  }
  *at++ = '\'';
  return out;
}

static bool printable(const char *text) {
  while (*text && (unsigned char)*text >= 0x20 && *text != 0x7f)
    text++;
  return !*text;
}

static const char *quoted_like(const char *text, hr_doc_style style, hr_arena *arena) {
  return style == HR_DOC_SINGLE && printable(text) ? single_quoted(text, arena) : double_quoted(text, arena);
}

const char *hr__literal_text(const hr_literal *literal, const hr_doc_node *old, bool json, hr_arena *arena) {
  if (old && old->target) old = NULL; /* an alias has no style of its own */
  bool quoted = old && old->kind == HR_DOC_SCALAR && old->quoted;
  double number;
  bool yes;
  const char *text = literal->text;
  switch (literal->kind) {
  case HR_LITERAL_NUMBER: /* a number that was written as a string stays one; "auto" becomes a number */
    return quoted && number_of(old->text, &number) ? quoted_like(text, old->style, arena) : text;
  case HR_LITERAL_BOOL: {
    int spelling = old && old->kind == HR_DOC_SCALAR ? bool_spelling(old->text, &yes) : -1;
    if (spelling >= 0 && (quoted || !json)) text = bool_words[spelling][strcmp(text, "true") != 0];
    return spelling >= 0 && quoted ? quoted_like(text, old->style, arena) : text;
  }
  case HR_LITERAL_TEXT:
    if (quoted) return quoted_like(text, old->style, arena);
    return !json && plain_is_text(text) ? text : double_quoted(text, arena);
  case HR_LITERAL_FLOW:
    break;
  }
  return text;
}

const char *hr__literal_key(const char *key, bool quoted, hr_arena *arena) {
  return quoted || !plain_is_text(key) ? double_quoted(key, arena) : key;
}

static bool word_in(const char *words, const char *word) {
  size_t length = strlen(word);
  for (; words && length; words = strchr(words, ',')) {
    words += *words == ',';
    if (strncmp(words, word, length) == 0 && (words[length] == ',' || !words[length])) return true;
  }
  return false;
}

bool hr__literal_means(const hr_literal *literal, const char *same, const hr_doc_node *node) {
  if (node->kind != HR_DOC_SCALAR) return false;
  if (word_in(same, node->text)) return true;
  double a, b;
  bool yes;
  switch (literal->kind) {
  case HR_LITERAL_NUMBER:
    return number_of(literal->text, &a) && number_of(node->text, &b) && !(a < b) && !(a > b);
  case HR_LITERAL_BOOL:
    return bool_spelling(node->text, &yes) >= 0 && yes == (strcmp(literal->text, "true") == 0);
  case HR_LITERAL_TEXT:
    return strcmp(node->text, literal->text) == 0 && (node->quoted || !hr__doc_is_null(node));
  case HR_LITERAL_FLOW:
    break;
  }
  return false;
}

bool hr__literal_is(const hr_literal *literal, const hr_doc_node *node) {
  if (node->tag || node->target) return false;
  if (literal->kind == HR_LITERAL_FLOW) return node->kind != HR_DOC_SCALAR;
  if (literal->kind == HR_LITERAL_TEXT && !node->quoted && !plain_is_text(literal->text)) return false;
  return hr__literal_means(literal, NULL, node);
}
