/* See doc_text.h. */
#include "doc_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demand.h"

/* Everything that is not printable ASCII as an escape that both formats read alike. */
static void string_put(FILE *out, const char *text, bool yaml) {
  const unsigned char *at = (const unsigned char *)text;
  fputc('"', out);
  while (*at) {
    uint32_t code = *at;
    int more = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : code >= 0xc0 ? 1 : 0;
    if (more) code &= 0x3fu >> more;
    at++;
    for (int i = 0; i < more; i++)
      code = code << 6 | (*at++ & 0x3fu);
    if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (char)code);
    else if (code >= 0x20 && code < 0x7f)
      fputc((int)code, out);
    else if (code < 0x10000)
      fprintf(out, "\\u%04x", code);
    else if (yaml)
      fprintf(out, "\\U%08x", code);
    else
      fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
  }
  fputc('"', out);
}

static void node_put(FILE *out, const hr_doc_node *node, bool yaml) {
  if (node->kind == HR_DOC_SCALAR) {
    string_put(out, node->text, yaml);
    return;
  }
  bool map = node->kind == HR_DOC_MAP;
  fputc(map ? '{' : '[', out);
  for (const hr_doc_node *child = node->child; child; child = child->next) {
    if (map) {
      if (yaml) fputs("? ", out); /* keys longer than 1024 characters are read only so */
      string_put(out, child->key, yaml);
      fputs(yaml ? " : " : ":", out);
    }
    node_put(out, child, yaml);
    if (child->next) fputs(yaml ? ", " : ",", out);
  }
  fputc(map ? '}' : ']', out);
}

char *doc_text(const hr_doc_node *root, bool yaml) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  DEMAND(out);
  node_put(out, root, yaml);
  DEMAND(fclose(out) == 0 && text);
  return text;
}

void doc_same(const hr_doc_node *a, const hr_doc_node *b) {
  DEMAND(a->kind == b->kind && !a->key == !b->key && (!a->key || strcmp(a->key, b->key) == 0));
  if (a->kind == HR_DOC_SCALAR) DEMAND(strcmp(a->text, b->text) == 0);
  const hr_doc_node *x = a->child, *y = b->child;
  for (; x && y; x = x->next, y = y->next)
    doc_same(x, y);
  DEMAND(!x && !y);
}
