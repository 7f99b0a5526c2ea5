/* A person waits for planning: what is done, for how long, how far the search is, and the best so far. Shown as work
 * (base/work.h); --quiet and --json never see it. Whoever writes to the terminal ends the waiting first.
 */
#ifndef HR_CLI_WAITING_H
#define HR_CLI_WAITING_H

#include "base/work.h"
#include "cli/cli.h"
#include "fit/search.h"

typedef struct hr_waiting {
  hr_work work;
} hr_waiting;

/* `what`: "planning". It stays where it is until the end: a thread reads it. */
void hr__waiting_begin(hr_waiting *waiting, const hr_cli *cli, const char *what);
void hr__waiting_end(hr_waiting *waiting);

/* How far the search is that is waited for: as hr_job_watch wants it, with the waiting as user. */
void hr__waiting_search(void *user, const hr_search_state *state);

#endif
