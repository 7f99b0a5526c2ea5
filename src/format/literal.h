/* A value as text, in the style of the one it takes the place of. */
#ifndef HR_FORMAT_LITERAL_H
#define HR_FORMAT_LITERAL_H

#include "format/edit.h"

/* `old` is the value so far (NULL: a new key). NULL: out of memory. */
const char *hr__literal_text(const hr_literal *literal, const hr_doc_node *old, bool json, hr_arena *arena);

/* Text of a key in a flow map, quoted where `quoted` or where it needs it. */
const char *hr__literal_key(const char *key, bool quoted, hr_arena *arena);

/* Whether a value means the literal: numbers by value, true/yes/on alike, quotes aside; or is one of the words `same`
 * ("a,b", may be NULL). Maps and lists never do. */
bool hr__literal_means(const hr_literal *literal, const char *same, const hr_doc_node *node);

/* Whether a node that was parsed from hr__literal_text is that literal and nothing else. */
bool hr__literal_is(const hr_literal *literal, const hr_doc_node *node);

#endif
