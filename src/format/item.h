/* Values of a large JSON file, each with the way to it, so that an error names file, line and column.
 *
 * Tokenizer files hold millions of values: they stay jansson's tree (format/json.h), and a place is looked for in the
 * text only when something is wrong. A item is a value on the caller's stack that points to the item it lies in.
 */
#ifndef HR_FORMAT_ITEM_H
#define HR_FORMAT_ITEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_ITEM_MAX_BYTES = 256 << 20 };

typedef struct hr_item_file {
  const char *name; /* for places */
  const char *text;
  size_t bytes;
  json_t *root; /* lives in the arena that it was opened with */
} hr_item_file;

typedef struct hr_item hr_item;
struct hr_item {
  const hr_item_file *file;
  const hr_item *parent; /* NULL: the whole file */
  const char *key;       /* in an object; NULL: in a list */
  size_t index;          /* in a list */
  json_t *value;         /* NULL: absent */
};

/* Reads and parses a file; texts may hold U+0000. Syntax errors have line and column. */
hr_status hr__item_open(const char *path, hr_arena *arena, hr_item_file *out, hr_error *err);
/* The same of a text that is kept by the caller. */
hr_status hr__item_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_item_file *out,
                         hr_error *err);

hr_item hr__item_root(const hr_item_file *file);
hr_item hr__item_get(const hr_item *parent, const char *key); /* null counts as absent */
hr_item hr__item_at(const hr_item *list, size_t index);
size_t hr__item_count(const hr_item *list); /* 0 for what is no list */

/* HR_BAD_INPUT at the item's line; an absent item is said to be missing in its parent. */
__attribute__((format(printf, 4, 5))) hr_status hr__item_fail(const hr_item *item, hr_error *err, const char *remedy,
                                                              const char *format, ...);

/* Values of the type that is meant, anything else is an error. With `optional` an absent one leaves *out. */
hr_status hr__item_text(const hr_item *item, bool optional, const char **text, size_t *bytes, hr_error *err);
hr_status hr__item_bool(const hr_item *item, bool optional, bool *out, hr_error *err);
hr_status hr__item_int(const hr_item *item, bool optional, int64_t least, int64_t most, int64_t *out, hr_error *err);
hr_status hr__item_list(const hr_item *item, hr_error *err);   /* it is one */
hr_status hr__item_object(const hr_item *item, hr_error *err); /* it is one */

#endif
