/* JSON by jansson, turned into the document tree of format/doc.h.
 *
 * jansson ignores failures to grow its token buffer (lex_save in its load.c, 2.14) and then reads past the end of a
 * token that lost its closing quote. While it parses, therefore, a failed allocation does not return to it: memory
 * comes from an arena and lack of it leaves the parser by longjmp. Nothing of jansson's is left behind, since all it
 * had lies in that arena.
 */
#include "format/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

typedef struct parse {
  hr_arena *arena;
  jmp_buf out_of_memory;
} parse;

static _Thread_local parse *current; /* the parse this thread is in; NULL outside hr__json_load */

static void *json_take(size_t bytes) {
  if (!current) return hr__alloc(bytes);
  void *memory = hr__arena_alloc(current->arena, bytes);
  if (!memory) longjmp(current->out_of_memory, 1);
  return memory;
}

static void json_give(void *memory) {
  if (!current) hr__free(memory);
}

static void allocator_install(void) {
  json_set_alloc_funcs(json_take, json_give);
  json_object_seed(0); /* random, against hash flooding; needs no memory, but must not happen inside a parse */
}

void hr__json_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, allocator_install);
}

static hr_status load(const char *text, size_t bytes, size_t flags, hr_arena *arena, json_t **out, json_error_t *fault,
                      hr_error *err) {
  hr__json_init();
  parse here = {.arena = arena};
  if (setjmp(here.out_of_memory)) {
    current = NULL;
    return hr__nomem(err);
  }
  current = &here;
  json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | flags, fault);
  current = NULL;
  if (!root) return HR_BAD_INPUT;
  *out = root;
  return HR_OK;
}

hr_status hr__json_load(const char *text, size_t bytes, hr_arena *arena, json_t **out, json_error_t *fault,
                        hr_error *err) {
  return load(text, bytes, 0, arena, out, fault, err);
}

hr_status hr__json_load_any(const char *text, size_t bytes, hr_arena *arena, json_t **out, json_error_t *fault,
                            hr_error *err) {
  return load(text, bytes, JSON_ALLOW_NUL, arena, out, fault, err);
}

/* Text that grows in an arena. */
typedef struct text_buffer {
  hr_arena *arena;
  char *text;
  size_t bytes, capacity;
  bool failed; /* remembered: jansson ignores what the callback says about keys (do_dump in its dump.c, 2.14) */
} text_buffer;

static int text_append(const char *data, size_t bytes, void *arg) {
  text_buffer *buffer = arg;
  if (buffer->bytes + bytes + 1 > buffer->capacity) {
    size_t capacity = 2 * (buffer->bytes + bytes) + 64;
    char *text = hr__arena_alloc(buffer->arena, capacity);
    buffer->failed = buffer->failed || !text;
    if (!text) return -1;
    if (buffer->bytes > 0) memcpy(text, buffer->text, buffer->bytes);
    buffer->text = text;
    buffer->capacity = capacity;
  }
  memcpy(buffer->text + buffer->bytes, data, bytes);
  buffer->bytes += bytes;
  buffer->text[buffer->bytes] = 0;
  return 0;
}

hr_status hr__json_text(const json_t *value, size_t flags, hr_arena *arena, char **text, size_t *bytes, hr_error *err) {
  text_buffer buffer = {.arena = arena};
  if (!value || json_dump_callback(value, text_append, &buffer, flags) != 0 || buffer.failed) return hr__nomem(err);
  *text = buffer.text;
  *bytes = buffer.bytes;
  return HR_OK;
}

json_t *hr__json_string(const char *text) {
  size_t bytes = strlen(text);
  if (hr__utf8_check(text, bytes) == bytes) return json_string(text);
  char *shown = hr__alloc(4 * bytes + 1);
  if (!shown) return NULL;
  hr__text_escape(text, bytes, shown, 4 * bytes + 1);
  json_t *string = json_string(shown);
  hr__free(shown);
  return string;
}

typedef struct conversion {
  const char *name;
  hr_arena *arena;
  size_t nodes;
} conversion;

static const char *scalar_text(const json_t *value, hr_arena *arena) {
  switch (json_typeof(value)) {
  case JSON_STRING:
    return hr__arena_text(arena, json_string_value(value));
  case JSON_INTEGER:
    return hr__arena_format(arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  case JSON_REAL: {
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", json_real_value(value));
    bool whole = !strpbrk(digits, ".e"); /* 2.0 stays a float */
    return hr__arena_format(arena, "%s%s", digits, whole ? ".0" : "");
  }
  default:
    return json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null";
  }
}

static hr_status convert(conversion *c, const json_t *value, int depth, hr_doc_node **out, hr_error *err);

/* Appends a child; `tail` is where the next one is linked. */
static hr_status convert_child(conversion *c, const json_t *value, const char *key, int depth, hr_doc_node ***tail,
                               hr_error *err) {
  hr_doc_node *child = NULL;
  HR_TRY(convert(c, value, depth + 1, &child, err));
  if (key && !(child->key = hr__arena_text(c->arena, key))) return hr__nomem(err);
  **tail = child;
  *tail = &child->next;
  return HR_OK;
}

static hr_status convert(conversion *c, const json_t *value, int depth, hr_doc_node **out, hr_error *err) {
  bool holds_others = json_is_object(value) || json_is_array(value); /* scalars do not nest */
  if (depth > HR_DOC_MAX_DEPTH && holds_others)
    return hr__fail(err, HR_BAD_INPUT, c->name, NULL, "nested more than %d deep", HR_DOC_MAX_DEPTH);
  if (++c->nodes > HR_DOC_MAX_NODES)
    return hr__fail(err, HR_BAD_INPUT, c->name, NULL, "more than %d values", HR_DOC_MAX_NODES);
  hr_doc_node *node = hr__arena_alloc(c->arena, sizeof *node);
  if (!node) return hr__nomem(err);
  hr_doc_node **tail = &node->child;
  if (json_is_object(value)) {
    node->kind = HR_DOC_MAP;
    json_t *object = (json_t *)(uintptr_t)value; /* jansson's iterators take no const */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
      HR_TRY(convert_child(c, json_object_iter_value(at), json_object_iter_key(at), depth, &tail, err));
  } else if (json_is_array(value)) {
    node->kind = HR_DOC_LIST;
    for (size_t i = 0; i < json_array_size(value); i++)
      HR_TRY(convert_child(c, json_array_get(value, i), NULL, depth, &tail, err));
  } else {
    node->kind = HR_DOC_SCALAR;
    node->quoted = json_is_string(value);
    node->text = scalar_text(value, c->arena);
    if (!node->text) return hr__nomem(err);
  }
  *out = node;
  return HR_OK;
}

hr_status hr__json_parse_from(const char *name, hr_json_start start, const char *text, size_t bytes, hr_arena *arena,
                              hr_doc_node **out, hr_error *err) {
  if (bytes > HR_DOC_MAX_BYTES)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "more than %d bytes of JSON", HR_DOC_MAX_BYTES);
  hr_arena work = {0}; /* jansson's tree, gone when ours stands */
  json_t *root = NULL;
  json_error_t fault;
  hr_status status = hr__json_load(text, bytes, &work, &root, &fault, err);
  if (status == HR_BAD_INPUT) {
    char place[HR_DOC_PLACE];
    bool first = fault.line <= 1;
    hr_doc_node at = {.line = fault.line + start.line - 1, .column = fault.column + (first ? start.column - 1 : 0)};
    hr__fail(err, status, hr__doc_place(name, &at, false, place), NULL, "not valid JSON: %s", fault.text);
  }
  conversion c = {.name = name, .arena = arena};
  if (status == HR_OK) status = convert(&c, root, 1, out, err);
  if (status == HR_OK) hr__json_places(text, bytes, start, *out);
  hr__arena_fini(&work);
  return status;
}

hr_status hr__json_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_doc_node **out,
                         hr_error *err) {
  return hr__json_parse_from(name, (hr_json_start){1, 1}, text, bytes, arena, out, err);
}
