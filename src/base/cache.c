/* See cache.h. */
#include "base/cache.h"

#include <stdbool.h>
#include <stdlib.h>

hr_status hr__cache_path(hr_arena *arena, const char *file, const char **path, hr_error *err) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool given = cache && cache[0] == '/';
  if (!given && !(home && home[0] == '/'))
    return hr__fail(err, HR_IO, file, "set HOME or XDG_CACHE_HOME to a full path",
                    "there is no cache folder to keep it in");
  *path = hr__arena_format(arena, "%s%s/headroom/%s", given ? cache : home, given ? "" : "/.cache", file);
  return *path ? HR_OK : hr__nomem(err);
}
