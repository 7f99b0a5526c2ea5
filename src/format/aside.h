/* A file that is made beside its place and is there once it is whole: what is found under its name can be read, whoever
 * else makes the same at the same time, and whatever ends the one who makes it. What one that was killed has left in
 * the folder goes when the next file is begun there.
 */
#ifndef HR_FORMAT_ASIDE_H
#define HR_FORMAT_ASIDE_H

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_aside {
  const char *path, *unfinished;
  int fd; /* of the unfinished one, to write and to read; -1: it is not open */
} hr_aside;

/* Begins it, in a folder that is made as well. `number` tells threads apart that make the same; texts lie in `arena`.
 */
hr_status hr__aside_begin(const char *path, size_t number, hr_arena *arena, hr_aside *out, hr_error *err);
/* With HR_OK it is put in its place; with any other status, which is then given back, nothing of it is left. */
hr_status hr__aside_end(hr_aside *aside, hr_status status, hr_error *err);

#endif
