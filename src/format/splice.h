/* The bytes of an edited config, and the proof that they say what was meant. */
#ifndef HR_FORMAT_SPLICE_H
#define HR_FORMAT_SPLICE_H

#include "format/edit.h"

/* The text with the splices of all edits that are written or inserted; they must not overlap. */
hr_status hr__splice(const hr_config *config, const hr_edit *edits, size_t count, hr_arena *arena, const char **text,
                     size_t *bytes, hr_error *err);

/* Parses the new text and compares it with the old tree, key by key and through aliases: HR_FAILURE unless exactly the
 * edited keys differ and have the values that were meant. */
hr_status hr__splice_check(const hr_config *config, const hr_edit *edits, size_t count, const char *text, size_t bytes,
                           hr_error *err);

#endif
