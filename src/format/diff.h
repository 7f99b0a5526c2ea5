/* Two texts as a unified diff, as `diff -u` writes it and `patch` reads it. */
#ifndef HR_FORMAT_DIFF_H
#define HR_FORMAT_DIFF_H

#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"

/* Empty text where nothing differs. `from` and `to` are the names in the head. */
hr_status hr__diff(const char *from, const char *old, size_t old_bytes, const char *to, const char *new,
                   size_t new_bytes, hr_arena *arena, const char **text, size_t *bytes, hr_error *err);

#endif
