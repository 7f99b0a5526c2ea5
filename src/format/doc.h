/* A parsed document: YAML (format/yaml.c) and JSON (format/json.c) give the same tree, with source positions.
 *
 * Everything read from a document is hostile text: sizes, depth and counts are capped by the parsers.
 */
#ifndef HR_FORMAT_DOC_H
#define HR_FORMAT_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef enum hr_doc_kind { HR_DOC_SCALAR, HR_DOC_MAP, HR_DOC_LIST } hr_doc_kind;

typedef enum hr_doc_style {
  HR_DOC_PLAIN,  /* scalar without quotes */
  HR_DOC_SINGLE, /* 'scalar' */
  HR_DOC_DOUBLE, /* "scalar" */
  HR_DOC_FLOW,   /* map or list in brackets */
  HR_DOC_BLOCK   /* map or list by indentation; scalar behind | or > */
} hr_doc_style;

typedef struct hr_doc_node hr_doc_node;
struct hr_doc_node {
  hr_doc_kind kind;
  const char *text;         /* scalar: its value, NUL-terminated UTF-8 without NUL inside */
  bool quoted;              /* scalar was a quoted string (never a number, boolean or null) */
  const char *key;          /* name under which the parent map holds this node; NULL in lists and at the root */
  int line, column;         /* of the value, from 1, column in characters; 0 when unknown */
  int key_line, key_column; /* of the key; the same as line, column where there is no key */
  size_t begin, end;        /* byte range of the value in the source, without anchor and tag */
  size_t key_begin;         /* first byte of the key; `begin` where there is no key */
  hr_doc_style style;
  hr_doc_node *child; /* first child of a map or list, in source order */
  hr_doc_node *next;  /* next sibling */
  /* Only from hr__yaml_parse_any: */
  const char *anchor, *tag; /* behind `&`; as written, resolved by %TAG; NULL: none */
  int aliases;              /* aliases that name this node */
  /* An alias: the node it names, whose kind, text and children this one has too (so that a tree with aliases is read
   * like any other, and one node is reached in several ways); begin and end are those of `*name`. */
  const hr_doc_node *target;
};

enum { HR_DOC_MAX_BYTES = 16 << 20, HR_DOC_MAX_DEPTH = 64, HR_DOC_MAX_NODES = 1 << 20, HR_DOC_MAX_ANCHORS = 1000 };

/* `name` (file name or "--set ...") is put into error places. The tree lives in `arena`; `text` is not kept. Repeated
 * keys, anchors/aliases/tags, several documents and invalid UTF-8 are HR_BAD_INPUT with line and column. An empty
 * document gives an empty map. */
hr_status hr__yaml_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                         hr_error *err);
/* The same for a document that is not ours: anchors, aliases to nodes that are complete, and tags stay in the tree.
 * What is reached through aliases is not counted, so a walk over all of it needs a limit of its own. */
hr_status hr__yaml_parse_any(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                             hr_error *err);
hr_status hr__json_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                         hr_error *err);

/* "name:line:column" of a node for hr__fail (its key where `at_key`), or "name" when unknown; returns `out`. */
enum { HR_DOC_PLACE = 256 };
const char *hr__doc_place(const char *name, const hr_doc_node *node, bool at_key, char out[HR_DOC_PLACE]);

/* Offset of the first byte that is not part of well-formed UTF-8, or `bytes` when all is well. */
size_t hr__utf8_check(const char *text, size_t bytes);

hr_doc_node *hr__doc_get(const hr_doc_node *map, const char *key); /* NULL when absent or not a map */

/* A scalar's meaning by YAML 1.2 core rules (plain scalars only). */
bool hr__doc_is_null(const hr_doc_node *node); /* plain `null`, `~` or empty */
bool hr__doc_int(const hr_doc_node *node, int64_t *out);
bool hr__doc_float(const hr_doc_node *node, double *out); /* integers too; `.inf`, `.nan` give false */
bool hr__doc_bool(const hr_doc_node *node, bool *out);

#endif
