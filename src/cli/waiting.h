/* A line at the terminal of a person who waits for planning: what is done, for how long, how far it is, and the best so
 * far. It comes after a second and is gone when the waiting ends; pipes, --quiet and --json never see it.
 *
 * It is drawn by a thread of its own, so that it goes on while one plan takes long. Whoever writes to the terminal ends
 * the waiting first.
 */
#ifndef HR_CLI_WAITING_H
#define HR_CLI_WAITING_H

#include "base/line.h"
#include "base/ticker.h"
#include "cli/cli.h"
#include "fit/search.h"

typedef struct hr_waiting {
  hr_line line;
  const char *what;
  double begun;
  hr_ticker *ticker; /* draws; NULL: nobody does */
  hr_search_state search;
} hr_waiting;

/* `what`: "planning". It stays where it is until the end: a thread reads it. */
void hr__waiting_begin(hr_waiting *waiting, const hr_cli *cli, const char *what);
void hr__waiting_end(hr_waiting *waiting);

/* How far the search is that is waited for: as hr_job_watch wants it, with the waiting as user. */
void hr__waiting_search(void *user, const hr_search_state *state);

#endif
