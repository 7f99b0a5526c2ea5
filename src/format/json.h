/* jansson, held in one place: its allocator, and parsing that survives lack of memory. */
#ifndef HR_FORMAT_JSON_H
#define HR_FORMAT_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"
#include "format/doc.h"

/* Makes jansson allocate through hr__alloc; call before any other use of jansson (cheap to repeat, thread-safe). */
void hr__json_init(void);

/* Parses text into jansson's tree inside `arena`: the tree lives as long as the arena and must not be given to
 * json_decref. Duplicate keys are errors. A syntax error gives HR_BAD_INPUT with jansson's own description in *fault
 * and leaves the message to the caller; HR_NOMEM is complete. */
hr_status hr__json_load(const char *text, size_t bytes, hr_arena *arena, json_t **out, json_error_t *fault,
                        hr_error *err);

/* The same; texts may hold U+0000 (json_string_length tells how long they are). */
hr_status hr__json_load_any(const char *text, size_t bytes, hr_arena *arena, json_t **out, json_error_t *fault,
                            hr_error *err);

/* The text of a value, NUL-terminated in `arena`; `flags` are jansson's. NULL as value counts as out of memory, which
 * is the only way to fail. */
hr_status hr__json_text(const json_t *value, size_t flags, hr_arena *arena, char **text, size_t *bytes, hr_error *err);

/* A JSON string of any text. Names of files need not be UTF-8, JSON has to be: text that is not is escaped (\xNN).
 * NULL: out of memory. */
json_t *hr__json_string(const char *text);

/* The text of a config without its comments (//, #, and between slash and star) and without commas before a closing
 * bracket, all of which become spaces: places stay the same. NULL: out of memory. */
const char *hr__json_strict(const char *text, size_t bytes, hr_arena *arena);
/* The same text with null for Infinity and -Infinity, which Python's own writer leaves in files, at the same places.
 * NULL: out of memory. */
const char *hr__json_finite(const char *text, size_t bytes, hr_arena *arena);

/* Where a text begins in its file: lines and columns of its values count from there. */
typedef struct hr_json_start {
  int line, column;
} hr_json_start;

/* hr__json_parse (doc.h) of a text that is a part of a file; byte ranges count from the text's own beginning. */
hr_status hr__json_parse_from(const char *name, hr_json_start start, const char *text, size_t bytes, hr_arena *arena,
                              hr_doc_node **out, hr_error *err);

/* Fills in lines, columns and byte ranges of a tree made from `text`, which jansson has accepted. */
void hr__json_places(const char *text, size_t bytes, hr_json_start start, hr_doc_node *root);

/* Line and column of one value, found by its way from the root: a key, or (key NULL) a number in a list. A way that
 * the text does not have ends where it leaves it. */
enum { HR_JSON_STEPS = 32 };
typedef struct hr_json_step {
  const char *key;
  size_t index;
} hr_json_step;
void hr__json_find(const char *text, size_t bytes, const hr_json_step *steps, size_t count, int *line, int *column);

#endif
