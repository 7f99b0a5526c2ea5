/* What YAML and JSON trees have in common: lookup, places, meaning of plain scalars (YAML 1.2 core schema). */
#include "format/doc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hr__doc_place(const char *name, const hr_doc_node *node, bool at_key, char out[HR_DOC_PLACE]) {
  int line = at_key ? node->key_line : node->line, column = at_key ? node->key_column : node->column;
  if (line)
    snprintf(out, HR_DOC_PLACE, "%.200s:%d:%d", name, line, column);
  else
    snprintf(out, HR_DOC_PLACE, "%.255s", name);
  return out;
}

size_t hr__utf8_check(const char *text, size_t bytes) {
  const unsigned char *at = (const unsigned char *)text;
  for (size_t i = 0; i < bytes;) {
    unsigned char lead = at[i];
    if (lead < 0x80) {
      i++;
      continue;
    }
    size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
    if (!length || length > bytes - i) return i;
    /* The second byte excludes overlong forms, surrogates and what lies above U+10FFFF. */
    unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[i + 1] < least || at[i + 1] > most) return i;
    for (size_t k = 2; k < length; k++)
      if ((at[i + k] & 0xc0) != 0x80) return i;
    i += length;
  }
  return bytes;
}

hr_doc_node *hr__doc_get(const hr_doc_node *map, const char *key) {
  if (!map || map->kind != HR_DOC_MAP) return NULL;
  for (hr_doc_node *child = map->child; child; child = child->next)
    if (strcmp(child->key, key) == 0) return child;
  return NULL;
}

static bool plain(const hr_doc_node *node) {
  return node && node->kind == HR_DOC_SCALAR && !node->quoted;
}

static bool one_of(const char *text, const char *a, const char *b, const char *c) {
  return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

bool hr__doc_is_null(const hr_doc_node *node) {
  return plain(node) && (!*node->text || strcmp(node->text, "~") == 0 || one_of(node->text, "null", "Null", "NULL"));
}

bool hr__doc_bool(const hr_doc_node *node, bool *out) {
  if (!plain(node)) return false;
  bool yes = one_of(node->text, "true", "True", "TRUE");
  if (!yes && !one_of(node->text, "false", "False", "FALSE")) return false;
  *out = yes;
  return true;
}

bool hr__doc_int(const hr_doc_node *node, int64_t *out) {
  if (!plain(node)) return false;
  const char *text = node->text;
  int base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o')) {
    base = text[1] == 'x' ? 16 : 8;
    text += 2;
  }
  const char *digits = text + (base == 10 && (*text == '-' || *text == '+'));
  const char *allowed = base == 16 ? "0123456789abcdefABCDEF" : base == 8 ? "01234567" : "0123456789";
  if (!*digits || strspn(digits, allowed) != strlen(digits)) return false;
  errno = 0;
  long long value = strtoll(text, NULL, base);
  if (errno) return false;
  *out = value;
  return true;
}

/* [-+]? ( \. digits | digits ( \. digits? )? ) ( [eE] [-+]? digits )? */
static bool float_shaped(const char *text) {
  static const char digits[] = "0123456789";
  text += *text == '-' || *text == '+';
  size_t whole = strspn(text, digits), part = 0;
  text += whole;
  if (*text == '.') {
    part = strspn(++text, digits);
    text += part;
  }
  if (!whole && !part) return false;
  if (*text == 'e' || *text == 'E') {
    text++;
    text += *text == '-' || *text == '+';
    size_t exponent = strspn(text, digits);
    if (!exponent) return false;
    text += exponent;
  }
  return !*text;
}

bool hr__doc_float(const hr_doc_node *node, double *out) {
  int64_t whole;
  if (!plain(node)) return false;
  if (float_shaped(node->text)) {
    double value = strtod(node->text, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
  }
  if (!hr__doc_int(node, &whole)) return false; /* 0x10 and 0o7 */
  *out = (double)whole;
  return true;
}
