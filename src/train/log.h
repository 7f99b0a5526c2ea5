/* log.jsonl: a header object, then one object per line, each written with one write(). Where a run goes on with another
 * plan, a further header says so. Numbers that are not finite are null. history.h reads it.
 *
 * A disk without room for a line does not end a run: lines wait in memory and are written with the next one that finds
 * room. The store's messages tell when that begins, and at the end what is missing. */
#ifndef HR_TRAIN_LOG_H
#define HR_TRAIN_LOG_H

#include <jansson.h>

#include "train/board.h"
#include "train/reports.h"
#include "train/store.h"

typedef struct hr_log {
  int fd; /* -1: no log */
  char path[HR_STORE_PATH];
  const hr_store *store; /* for messages */
  int64_t end;           /* bytes of the file that are whole lines */
  char *waiting;         /* lines without room on the disk, HR_LOG_WAITING bytes */
  size_t waiting_bytes;
  int64_t dropped; /* lines without room there either */
  hr_board *board; /* gets the same, where there is one; NULL: none */
  bool telling;    /* a message of its own is on its way, which is not for the log */
} hr_log;

enum { HR_LOG_WAITING = 1 << 16 }; /* and the longest line */

typedef struct hr_log_header {
  const char *recipe; /* name of the recipe */
  const char *fingerprint;
  const char *resumed; /* plan of the checkpoint that is gone on from; unused at step 0 */
  uint64_t planned_bytes;
  int64_t steps;
  const char *device;  /* its name; NULL: it is not told, nor is what follows */
  const char *kind;    /* of device, as memory.device has it */
  double step_seconds; /* by the plan */
  struct {
    uint64_t planned_bytes, budget_bytes;
  } tiers[HR_TIER_COUNT];
} hr_log_header;

/* Opens the log of a run that goes on after `step` (0: from the beginning): lines of later steps and a torn last line
 * are cut off, and the header is written unless the last one names the same plan. A file that is not the log of this
 * run is left as it is (HR_USAGE): one that goes on has a header with the plan of its checkpoint; one that begins again
 * may write over a log of the same recipe or plan, whose steps it repeats. */
hr_status hr__log_open(hr_log *log, const hr_store *store, int64_t step, const hr_log_header *header, hr_error *err);
void hr__log_close(hr_log *log);

/* A whole line with its line break. */
hr_status hr__log_put(hr_log *log, const char *line, size_t bytes, hr_error *err);
/* Before a checkpoint: the log is never behind it, where there is room for both. */
hr_status hr__log_sync(hr_log *log, hr_error *err);

#endif
