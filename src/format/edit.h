/* Values set in a config of the user's by replacing only their bytes: comments, order, quotes, layout, line ends and
 * byte order mark stay as they are.
 *
 * What must not be touched is left alone, with a reason: interpolations (`${...}`), values that an anchor shares with
 * other keys, tagged values, text blocks, sections. After the splice the text is parsed again: exactly the intended
 * keys may differ, else nothing comes back but an error.
 */
#ifndef HR_FORMAT_EDIT_H
#define HR_FORMAT_EDIT_H

#include "format/doc.h"

typedef struct hr_config {
  const char *name; /* of the file, for messages */
  const char *real; /* (optional) its path without symbolic links: the folders it lies in */
  const char *text;
  size_t bytes;
  bool json; /* else YAML */
  hr_doc_node *root;
} hr_config;

/* `text` must live as long as the config. JSON where the name ends in ".json"; it may have comments, and commas before
 * closing brackets, as lenient readers allow. */
hr_status hr__config_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_config *out,
                           hr_error *err);

/* The node at a dotted path, through aliases; NULL: there is none. A key may hold dots itself. */
const hr_doc_node *hr__config_find(const hr_config *config, const char *path);

typedef enum hr_literal_kind {
  HR_LITERAL_NUMBER,
  HR_LITERAL_BOOL, /* "true" or "false"; written in the way of the value before (True, yes) */
  HR_LITERAL_TEXT, /* quoted as the value before, or where it needs quotes */
  HR_LITERAL_FLOW  /* a map or list as JSON text */
} hr_literal_kind;

typedef struct hr_literal {
  hr_literal_kind kind;
  const char *text;
} hr_literal;

typedef enum hr_edit_outcome {
  HR_EDIT_SAME,     /* the key has that value already */
  HR_EDIT_WRITTEN,  /* in the text that comes back */
  HR_EDIT_INSERTED, /* in it as a new key */
  HR_EDIT_MISSING,  /* there is no such key */
  HR_EDIT_LEFT      /* left alone: `reason` */
} hr_edit_outcome;

typedef struct hr_edit {
  /* asked */
  const char *path;
  const char *label; /* what the value is, for a person; not read here */
  hr_literal value;
  const char *same; /* words, separated by commas, that mean the value as well; may be NULL */
  bool empty;       /* an empty value or null means it too */
  bool insert;      /* a missing key is put into its map, where that is there */
  bool lists;       /* a list (of choices) may be replaced */
  /* answered */
  hr_edit_outcome outcome;
  int line;                /* of the value or, inserted, of the map's last key before; 0: unknown */
  const char *old, *now;   /* bytes that were and that are there; old "" for a value that was empty */
  const char *reason;      /* HR_EDIT_LEFT, HR_EDIT_MISSING: for a person */
  const hr_doc_node *node; /* the value in the old tree; inserted: the map that gets the key */
  size_t begin, end;       /* bytes of the old text that `now`, with what must stand around it, replaces */
  const char *splice;      /* that text */
} hr_edit;

/* Answers all edits and gives the new text; when nothing is written, `*text` is the old one. */
hr_status hr__config_edit(const hr_config *config, hr_edit *edits, size_t count, hr_arena *arena, const char **text,
                          size_t *bytes, hr_error *err);

#endif
