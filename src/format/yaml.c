/* YAML by libyaml's events, turned into the document tree of format/doc.h.
 *
 * What libyaml would accept and a recipe must not hold is refused here: repeated keys, anchors, aliases, tags, keys
 * that are not scalars, several documents, control characters. A document of others' (hr__yaml_parse_any) may have
 * anchors, aliases and tags: they are kept in the tree. Positions: libyaml counts characters, format/cursor.h turns
 * them into bytes, lines and columns.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/sort.h"
#include "format/cursor.h"
#include "format/doc.h"

typedef struct level { /* a map or list that is being filled */
  hr_doc_node *node;
  hr_doc_node **tail; /* where its next child is linked */
  const char *key;    /* map: key read, value expected */
  hr_cursor key_at;
  size_t count; /* children */
  bool flow;    /* written with brackets */
} level;

typedef struct named { /* an anchor */
  const char *name;
  hr_doc_node *node;
} named;

typedef struct reader {
  const char *name;
  const char *text; /* without byte order mark */
  size_t bytes;
  size_t shift; /* bytes of the byte order mark */
  hr_arena *arena;
  hr_cursor at;
  yaml_parser_t parser;
  level levels[HR_DOC_MAX_DEPTH];
  int depth; /* levels in use */
  size_t nodes;
  hr_doc_node *root;
  bool any; /* anchors, aliases and tags are kept */
  named anchors[HR_DOC_MAX_ANCHORS];
  size_t n_anchors;
  hr_error *err;
} reader;

/* Moves to a libyaml mark. Marks of events come nearly in order, so this is linear in all. */
static hr_cursor cursor_seek(reader *r, size_t index) {
  hr__cursor_to_index(&r->at, index);
  return r->at;
}

static hr_cursor cursor_byte(const reader *r, size_t byte) {
  hr_cursor at = hr__cursor(r->text, r->bytes);
  hr__cursor_to_byte(&at, byte);
  return at;
}

__attribute__((format(printf, 4, 5))) static hr_status refuse(reader *r, hr_cursor at, const char *remedy,
                                                              const char *format, ...) {
  char place[HR_DOC_PLACE], message[384];
  snprintf(place, sizeof place, "%.200s:%d:%d", r->name, at.line, at.column);
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return hr__fail(r->err, HR_BAD_INPUT, place, remedy, "%s", message);
}

/* Encoding and control characters, checked before libyaml so that the place is exact. */
static hr_status text_check(reader *r) {
  size_t bad = hr__utf8_check(r->text, r->bytes);
  if (bad < r->bytes) {
    return refuse(r, cursor_byte(r, bad), "save the file as UTF-8", "byte 0x%02x is not valid UTF-8",
                  (unsigned char)r->text[bad]);
  }
  for (size_t i = 0; i < r->bytes; i++) {
    unsigned char c = (unsigned char)r->text[i];
    if ((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' || c == '\t') continue;
    return refuse(r, cursor_byte(r, i), "remove it or write it as an escape in a quoted string",
                  "control character 0x%02x", c);
  }
  return HR_OK;
}

/* What people mostly have done where libyaml gives up; NULL: not known. */
static const char *parser_remedy(const hr_cursor *at, const char *problem) {
  if (at->byte < at->bytes && at->text[at->byte] == '\t') return "indent with spaces: YAML takes no tabs";
  if (strstr(problem, "mapping values")) return "put text that holds \": \" in quotes";
  return strstr(problem, "cannot start any token") ? "put text that begins so in quotes" : NULL;
}

static hr_status parser_failed(reader *r) {
  yaml_parser_t *parser = &r->parser;
  if (parser->error == YAML_MEMORY_ERROR) return hr__nomem(r->err);
  hr_cursor at;
  if (parser->error == YAML_READER_ERROR)
    at = cursor_byte(r, parser->problem_offset);
  else
    at = cursor_seek(r, parser->problem_mark.index);
  const char *problem = parser->problem ? parser->problem : "not valid YAML";
  const char *remedy = parser_remedy(&at, problem);
  if (parser->context) return refuse(r, at, remedy, "%s %s", problem, parser->context);
  return refuse(r, at, remedy, "%s", problem);
}

static int key_order(const void *a, const void *b) {
  const hr_doc_node *first = a, *second = b;
  return strcmp(first->key, second->key);
}

/* Sorts aside: looking each key up would be quadratic in the size of hostile maps. */
static hr_status keys_check(reader *r, const level *map) {
  if (map->count < 2) return HR_OK;
  hr_arena work = {0};
  const void **keys = hr__arena_array(&work, map->count, 2 * sizeof *keys);
  hr_status status = keys ? HR_OK : hr__nomem(r->err);
  if (keys) {
    size_t count = 0;
    for (const hr_doc_node *child = map->node->child; child; child = child->next)
      keys[count++] = child;
    hr__sort(keys, count, keys + count, key_order);
    for (size_t i = 1; i < count && status == HR_OK; i++) {
      const hr_doc_node *first = keys[i - 1], *again = keys[i];
      if (strcmp(first->key, again->key) != 0) continue;
      hr_cursor at = {.line = again->key_line, .column = again->key_column};
      status = refuse(r, at, "keep one of them", "key \"%.100s\" is repeated (first at line %d)", again->key,
                      first->key_line);
    }
  }
  hr__arena_fini(&work);
  return status;
}

/* A new node, linked into its parent. */
static hr_status node_add(reader *r, hr_doc_kind kind, hr_cursor at, hr_doc_node **out) {
  if (++r->nodes > HR_DOC_MAX_NODES) return refuse(r, at, NULL, "more than %d values", HR_DOC_MAX_NODES);
  hr_doc_node *node = hr__arena_alloc(r->arena, sizeof *node);
  if (!node) return hr__nomem(r->err);
  *node = (hr_doc_node){.kind = kind, .line = at.line, .column = at.column, .begin = at.byte + r->shift};
  node->end = node->key_begin = node->begin;
  node->key_line = node->line;
  node->key_column = node->column;
  if (r->depth) {
    level *parent = &r->levels[r->depth - 1];
    if (parent->node->kind == HR_DOC_MAP) {
      node->key = parent->key;
      node->key_line = parent->key_at.line;
      node->key_column = parent->key_at.column;
      node->key_begin = parent->key_at.byte + r->shift;
      parent->key = NULL;
    }
    *parent->tail = node;
    parent->tail = &node->next;
    parent->count++;
  } else {
    r->root = node;
  }
  *out = node;
  return HR_OK;
}

static hr_status text_copy(reader *r, const yaml_char_t *text, const char **out) {
  *out = text ? hr__arena_text(r->arena, (const char *)text) : NULL;
  return text && !*out ? hr__nomem(r->err) : HR_OK;
}

/* Anchor and tag of a new node. Of two anchors with one name aliases mean the later. */
static hr_status properties_read(reader *r, hr_doc_node *node, const yaml_char_t *anchor, const yaml_char_t *tag,
                                 hr_cursor at) {
  HR_TRY(text_copy(r, anchor, &node->anchor));
  HR_TRY(text_copy(r, tag, &node->tag));
  if (!anchor) return HR_OK;
  if (r->n_anchors == HR_DOC_MAX_ANCHORS) return refuse(r, at, NULL, "more than %d anchors", HR_DOC_MAX_ANCHORS);
  r->anchors[r->n_anchors++] = (named){node->anchor, node};
  return HR_OK;
}

static bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* An event's range begins with anchor and tag, in either order; the value follows behind blanks and comments. */
static size_t properties_skip(const reader *r, size_t byte, size_t end) {
  while (byte < end && (r->text[byte] == '&' || r->text[byte] == '!')) {
    while (byte < end && !blank(r->text[byte]))
      byte++;
    for (bool comment = false; byte < end && (comment || blank(r->text[byte]) || r->text[byte] == '#'); byte++)
      comment = r->text[byte] == '#' || (comment && r->text[byte] != '\n' && r->text[byte] != '\r');
  }
  return byte;
}

static hr_doc_style scalar_style(yaml_scalar_style_t style) {
  return style == YAML_PLAIN_SCALAR_STYLE           ? HR_DOC_PLAIN
         : style == YAML_SINGLE_QUOTED_SCALAR_STYLE ? HR_DOC_SINGLE
         : style == YAML_DOUBLE_QUOTED_SCALAR_STYLE ? HR_DOC_DOUBLE
                                                    : HR_DOC_BLOCK;
}

static bool key_expected(const reader *r) {
  const level *parent = r->depth ? &r->levels[r->depth - 1] : NULL;
  return parent && parent->node->kind == HR_DOC_MAP && !parent->key;
}

static hr_status scalar_read(reader *r, const yaml_event_t *event) {
  const char *value = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  hr_cursor at = cursor_seek(r, event->start_mark.index);
  if (memchr(value, 0, length)) return refuse(r, at, NULL, "a string holds a NUL character");
  char *text = hr__arena_alloc(r->arena, length + 1);
  if (!text) return hr__nomem(r->err);
  memcpy(text, value, length);
  if (key_expected(r)) {
    level *parent = &r->levels[r->depth - 1];
    parent->key = text;
    parent->key_at = at;
    return HR_OK;
  }
  hr_doc_node *node = NULL;
  HR_TRY(node_add(r, HR_DOC_SCALAR, at, &node));
  node->text = text;
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  node->style = scalar_style(event->data.scalar.style);
  size_t end = cursor_seek(r, event->end_mark.index).byte;
  node->end = end + r->shift;
  const yaml_char_t *anchor = event->data.scalar.anchor, *tag = event->data.scalar.tag;
  if (anchor || tag) node->begin = properties_skip(r, at.byte, end) + r->shift;
  return properties_read(r, node, anchor, tag, at);
}

static hr_status alias_read(reader *r, const yaml_event_t *event) {
  hr_cursor at = cursor_seek(r, event->start_mark.index);
  if (key_expected(r)) return refuse(r, at, NULL, "a key must be a plain or quoted string");
  const char *name = (const char *)event->data.alias.anchor;
  hr_doc_node *target = NULL;
  for (size_t i = r->n_anchors; i > 0 && !target; i--)
    if (strcmp(r->anchors[i - 1].name, name) == 0) target = r->anchors[i - 1].node;
  if (!target) return refuse(r, at, NULL, "no value with the anchor &%.100s stands before", name);
  for (int i = 0; i < r->depth; i++)
    if (r->levels[i].node == target) return refuse(r, at, NULL, "*%.100s stands inside of itself", name);
  hr_doc_node *node = NULL;
  HR_TRY(node_add(r, target->kind, at, &node));
  node->end = cursor_seek(r, event->end_mark.index).byte + r->shift;
  node->text = target->text;
  node->quoted = target->quoted;
  node->style = target->style;
  node->tag = target->tag;
  node->child = target->child;
  node->target = target;
  target->aliases++;
  return HR_OK;
}

static hr_status level_open(reader *r, const yaml_event_t *event, hr_doc_kind kind, bool flow) {
  hr_cursor at = cursor_seek(r, event->start_mark.index);
  if (key_expected(r)) return refuse(r, at, NULL, "a key must be a plain or quoted string");
  if (r->depth == HR_DOC_MAX_DEPTH) return refuse(r, at, NULL, "nested more than %d deep", HR_DOC_MAX_DEPTH);
  hr_doc_node *node = NULL;
  HR_TRY(node_add(r, kind, at, &node));
  node->style = flow ? HR_DOC_FLOW : HR_DOC_BLOCK;
  r->levels[r->depth++] = (level){.node = node, .tail = &node->child, .flow = flow};
  bool map = kind == HR_DOC_MAP;
  return properties_read(r, node, map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
                         map ? event->data.mapping_start.tag : event->data.sequence_start.tag, at);
}

/* The end mark of a collection without closing bracket lies behind the comments that follow it, so its last child tells
 * where it ends. */
static hr_status level_close(reader *r, const yaml_event_t *event) {
  level *closed = &r->levels[--r->depth];
  hr_doc_node *node = closed->node;
  if (closed->flow && event->end_mark.index > event->start_mark.index)
    node->end = cursor_seek(r, event->end_mark.index).byte + r->shift;
  else
    for (const hr_doc_node *child = node->child; child; child = child->next)
      node->end = child->end;
  return node->kind == HR_DOC_MAP ? keys_check(r, closed) : HR_OK;
}

/* What a recipe must not hold. */
static hr_status event_check(reader *r, const yaml_event_t *event) {
  const yaml_char_t *anchor = NULL, *tag = NULL;
  if (event->type == YAML_SCALAR_EVENT) anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
  if (event->type == YAML_SEQUENCE_START_EVENT)
    anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
  if (event->type == YAML_MAPPING_START_EVENT)
    anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
  if (anchor || tag || event->type == YAML_ALIAS_EVENT)
    return refuse(r, cursor_seek(r, event->start_mark.index), "write the value out",
                  tag && !anchor ? "tags (!...) are not allowed" : "anchors (&) and aliases (*) are not allowed");
  if (event->type == YAML_DOCUMENT_START_EVENT &&
      event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
    return refuse(r, cursor_seek(r, event->start_mark.index), "remove the directive", "%%TAG is not allowed");
  return HR_OK;
}

static hr_status event_read(reader *r, const yaml_event_t *event, bool *done) {
  if (!r->any) HR_TRY(event_check(r, event));
  switch (event->type) {
  case YAML_ALIAS_EVENT:
    return alias_read(r, event);
  case YAML_SCALAR_EVENT:
    return scalar_read(r, event);
  case YAML_SEQUENCE_START_EVENT:
    return level_open(r, event, HR_DOC_LIST, event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
  case YAML_MAPPING_START_EVENT:
    return level_open(r, event, HR_DOC_MAP, event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    return level_close(r, event);
  case YAML_DOCUMENT_START_EVENT:
    if (r->root)
      return refuse(r, cursor_seek(r, event->start_mark.index), "keep one document", "several documents in one file");
    return HR_OK;
  case YAML_STREAM_END_EVENT:
    *done = true;
    return HR_OK;
  default:
    return HR_OK;
  }
}

static hr_status events_read(reader *r) {
  for (bool done = false; !done;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&r->parser, &event)) return parser_failed(r);
    hr_status status = event_read(r, &event, &done);
    yaml_event_delete(&event);
    if (status != HR_OK) return status;
  }
  return HR_OK;
}

static hr_status parse(const char *name, const char *text, size_t bytes, bool any, hr_arena *arena, hr_doc_node **out,
                       hr_error *err) {
  if (bytes > HR_DOC_MAX_BYTES)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "more than %d bytes of YAML", HR_DOC_MAX_BYTES);
  reader *r = hr__alloc_zero(1, sizeof *r);
  if (!r) return hr__nomem(err);
  size_t shift = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  r->name = name;
  r->text = text + shift;
  r->bytes = bytes - shift;
  r->shift = shift;
  r->arena = arena;
  r->any = any;
  r->err = err;
  r->at = hr__cursor(r->text, r->bytes);
  hr_status status = text_check(r);
  if (status == HR_OK && !yaml_parser_initialize(&r->parser)) status = hr__nomem(err);
  if (status == HR_OK) {
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text, r->bytes);
    status = events_read(r);
    yaml_parser_delete(&r->parser);
  }
  bool empty = !r->root || (r->root->kind == HR_DOC_SCALAR && !r->root->quoted && !*r->root->text);
  if (status == HR_OK && empty) {
    hr_doc_node *root = hr__arena_alloc(arena, sizeof *root);
    if (root)
      *root = (hr_doc_node){
          .kind = HR_DOC_MAP, .line = 1, .column = 1, .key_line = 1, .key_column = 1, .style = HR_DOC_BLOCK};
    r->root = root;
    if (!root) status = hr__nomem(err);
  }
  if (status == HR_OK) *out = r->root;
  hr__free(r);
  return status;
}

/* Whether a document is one plain word, such as a value on the command line: letters, digits, and in between what never
 * has a meaning there. */
static bool is_word(const char *text, size_t bytes) {
  bool word = bytes > 0 && isalnum((unsigned char)text[0]);
  for (size_t i = 1; i < bytes && word; i++)
    word = isalnum((unsigned char)text[i]) || (text[i] && strchr("._/-", text[i]));
  return word;
}

static hr_status word_read(const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out, hr_error *err) {
  hr_doc_node *node = hr__arena_alloc(arena, sizeof *node);
  char *copy = hr__arena_alloc(arena, bytes + 1);
  if (!node || !copy) return hr__nomem(err);
  memcpy(copy, text, bytes);
  *node = (hr_doc_node){.kind = HR_DOC_SCALAR,
                        .text = copy,
                        .line = 1,
                        .column = 1,
                        .key_line = 1,
                        .key_column = 1,
                        .end = bytes,
                        .style = HR_DOC_PLAIN};
  *out = node;
  return HR_OK;
}

hr_status hr__yaml_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                         hr_error *err) {
  enum { WORD_MOST = 64 };
  /* a search reads thousands of them, each of which would set up a parser of its own */
  if (bytes <= WORD_MOST && is_word(text, bytes)) return word_read(text, bytes, arena, out, err);
  return parse(name, text, bytes, false, arena, out, err);
}

hr_status hr__yaml_parse_any(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                             hr_error *err) {
  return parse(name, text, bytes, true, arena, out, err);
}
