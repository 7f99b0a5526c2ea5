/* sentencepiece's table of character rewrites: a double array of 32-bit units (as Darts-clone lays it out), then the
 * texts it leads to, each ended by NUL. Every index is checked: the table comes from a file. */
#ifndef HR_TEXT_CHARSMAP_H
#define HR_TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_charsmap {
  uint32_t *units;
  size_t unit_count;
  const char *texts; /* ended by NUL */
  size_t text_bytes;
} hr_charsmap;

/* Copies `data` into `arena`. HR_BAD_INPUT without place when sizes do not agree. */
hr_status hr__charsmap_read(const void *data, size_t bytes, hr_arena *arena, hr_charsmap *out, hr_error *err);

/* What a prefix of the text is rewritten to, the longest or the shortest that there is; NULL: none. *length is that of
 * the prefix. */
const char *hr__charsmap_find(const hr_charsmap *map, const char *text, size_t bytes, bool longest, size_t *length);

/* What a table of a file makes of text is not to be trusted: HR_BAD_INPUT where it is not UTF-8. */
hr_status hr__charsmap_check(const char *text, size_t bytes, hr_error *err);

#endif
