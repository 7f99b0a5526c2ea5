/* jansson, held in one place: its allocator, and parsing that survives lack of memory. */
#ifndef HR_FORMAT_JSON_H
#define HR_FORMAT_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"

/* Makes jansson allocate through hr__alloc; call before any other use of jansson (cheap to repeat, thread-safe). */
void hr__json_init(void);

/* Parses text into jansson's tree inside `arena`: the tree lives as long as the arena and must not be given to
 * json_decref. Duplicate keys are errors. A syntax error gives HR_BAD_INPUT with jansson's own description in *fault
 * and leaves the message to the caller; HR_NOMEM is complete. */
hr_status hr__json_load(const char *text, size_t bytes, hr_arena *arena, json_t **out, json_error_t *fault,
                        hr_error *err);

#endif
