/* Runs below a folder: folders with a log.jsonl that begins as one of ours. */
#ifndef HR_WATCH_FIND_H
#define HR_WATCH_FIND_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_FIND_DEPTH = 4, HR_FIND_FOLDERS = 4096 }; /* how deep, and how many folders are looked into */

typedef struct hr_run_folders {
  const char **folders; /* in order of name */
  size_t count, capacity;
  size_t looked; /* folders so far */
} hr_run_folders;

/* Whether a folder is a run's. */
bool hr__find_is_run(const char *folder);
/* Adds `folder` itself, or else all that lie below it; names in `arena`. Folders that begin with a dot, links and
 * checkpoints are not looked into; one that cannot be read is passed over. HR_NOMEM is the only failure. */
hr_status hr__find_runs(const char *folder, hr_arena *arena, hr_run_folders *found, hr_error *err);

#endif
