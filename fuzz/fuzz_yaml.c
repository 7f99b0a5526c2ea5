/* YAML documents. What is accepted has sound positions, and comes back the same through YAML and through JSON. */
#include <string.h>

#include "demand.h"
#include "doc_text.h"

/* Ranges lie inside the source and inside their parent, in order; a plain scalar on one line is its own text. */
static void spans_check(const hr_doc_node *node, const char *source, size_t begin, size_t end) {
  DEMAND(begin <= node->begin && node->begin <= node->end && node->end <= end);
  DEMAND(node->line >= 1 && node->column >= 1 && node->key_line >= 1 && node->key_column >= 1);
  size_t length = node->end - node->begin;
  if (node->kind == HR_DOC_SCALAR) {
    bool breaks = false;
    for (size_t i = node->begin; i < node->end; i++)
      breaks = breaks || (unsigned char)source[i] < 0x20;
    if (!node->quoted && !breaks && !memmem(source + node->begin, length, "\xc2\x85", 2) &&
        !memmem(source + node->begin, length, "\xe2\x80", 2)) /* U+0085, U+2028, U+2029 fold lines for libyaml */
      DEMAND(strlen(node->text) == length && memcmp(source + node->begin, node->text, length) == 0);
    int64_t whole;
    double real;
    bool yes;
    if (hr__doc_int(node, &whole)) DEMAND(hr__doc_float(node, &real));
    DEMAND(hr__doc_is_null(node) + hr__doc_bool(node, &yes) + hr__doc_float(node, &real) <= 1);
    return;
  }
  size_t from = node->begin;
  for (const hr_doc_node *child = node->child; child; child = child->next) {
    spans_check(child, source, from, node->end);
    from = child->end;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  hr_arena arena = {0};
  hr_doc_node *root = NULL, *again = NULL;
  hr_error err = {0};
  hr_status status = hr__yaml_parse("input", (const char *)data, size, &arena, &root, &err);
  DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0] && err.place[0] && !root));
  if (status == HR_OK) {
    if (root->child || root->kind != HR_DOC_MAP) spans_check(root, (const char *)data, 0, size);
    char *text = doc_text(root, true);
    DEMAND(hr__yaml_parse("again", text, strlen(text), &arena, &again, &err) == HR_OK);
    doc_same(root, again);
    free(text);
    if (root->kind != HR_DOC_SCALAR) { /* our JSON is an object or a list */
      text = doc_text(root, false);
      DEMAND(hr__json_parse("again", text, strlen(text), &arena, &again, &err) == HR_OK);
      doc_same(root, again);
      free(text);
    }
  }
  hr__arena_fini(&arena);
  return 0;
}
