/* The folder that what can be made again is kept in: XDG_CACHE_HOME/headroom, or ~/.cache/headroom. */
#ifndef HR_BASE_CACHE_H
#define HR_BASE_CACHE_H

#include "base/mem.h"
#include "base/status.h"

/* The full path of a file there, in `arena`; HR_IO where there is no such folder. Neither is made. */
hr_status hr__cache_path(hr_arena *arena, const char *file, const char **path, hr_error *err);

#endif
