/* What a run has written to its log.jsonl (docs/json.md), line by line: for whatever shows a run.
 *
 * The file is read through a window, so that its length does not matter, and may still grow: when there is no more now,
 * asking again later gives what has come since. A line that is not whole yet is waited for. A line that is no record is
 * counted and skipped. A run that is resumed cuts off lines behind its checkpoint: then the reader says so and begins
 * again. It never writes, and takes no lock.
 *
 * All texts are of a file, and may hold anything: show them through hr__text_escape.
 */
#ifndef HR_TRAIN_HISTORY_H
#define HR_TRAIN_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "dev/device.h"

typedef enum hr_record_kind {
  HR_RECORD_AGAIN,  /* the file was cut off or replaced: forget what came before, all of it comes once more */
  HR_RECORD_HEADER, /* a plan: at the beginning, and where the run went on with another one */
  HR_RECORD_STEP,
  HR_RECORD_EVAL,
  HR_RECORD_SAMPLES, /* what the model generated */
  HR_RECORD_EVENT    /* started, memory, saved, warning, ended; others may come */
} hr_record_kind;

typedef struct hr_record_value {
  const char *name;
  double value; /* NaN: null */
} hr_record_value;

typedef struct hr_record_values {
  hr_record_value *list;
  size_t count;
} hr_record_values;

typedef struct hr_record_sample {
  const char *prompt, *text, *end;
  const char *expected; /* NULL: nothing is */
} hr_record_sample;

/* One line. Everything it points to lies in the reader until the next call. Numbers that the line does not have, or has
 * as null, are NaN; counts 0; texts NULL. */
typedef struct hr_record {
  hr_record_kind kind;
  uint64_t line; /* of the file, from 1 */
  int64_t step;
  double time;    /* seconds since 1970 */
  double seconds; /* that the step, the evaluation, the samples or the event took */

  /* HR_RECORD_STEP; of HR_RECORD_EVAL `loss`, `losses` and `metrics` are those of held-out data */
  double loss, lr, grad_norm, loss_scale;
  int64_t tokens, samples;
  bool skipped;
  hr_record_values losses, metrics; /* of models that have several */

  /* HR_RECORD_SAMPLES */
  hr_record_sample *generated;
  size_t n_generated;

  /* HR_RECORD_HEADER */
  const char *recipe, *fingerprint, *device, *device_kind;
  int64_t steps; /* that the run is to have; of "started" too, where it may be another number than before */
  uint64_t planned_peak_bytes;
  double planned_step_seconds;

  /* HR_RECORD_HEADER: planned and allowed; event "memory": held */
  struct {
    uint64_t planned_bytes, budget_bytes, held_bytes;
  } tiers[HR_TIER_COUNT];

  /* HR_RECORD_EVENT */
  const char *event, *text;
  uint64_t bytes;          /* of a checkpoint; of the process at a "memory"; measured peak at an "ended" */
  bool resumed;            /* "started": from a checkpoint */
  const char *machine;     /* "started": where it runs, */
  int64_t pid;             /* its process there, */
  uint64_t process_start;  /* and when that began, as field 22 of /proc/PID/stat has it: tells it from a later one */
  const char *status;      /* "ended": HR_OK and others of hr_status_name */
  hr_record_values phases; /* "started", "ended": seconds of each so far, in the order in which they come */

  const json_t *fields; /* the whole line */
} hr_record;

/* Its value by name in a list; NaN: it is not there. */
double hr__record_value(const hr_record_values *values, const char *name);

typedef struct hr_history hr_history;

/* `path`: the log.jsonl itself. */
hr_status hr__history_open(const char *path, hr_history **out, hr_error *err);
void hr__history_close(hr_history *history); /* NULL is fine */

/* The next record; *there is false where there is no more now. */
hr_status hr__history_next(hr_history *history, hr_record *record, bool *there, hr_error *err);

uint64_t hr__history_broken(const hr_history *history); /* lines so far that were no records */
/* Bytes of the file read so far, and in all as it was last looked at: how far reading is. */
uint64_t hr__history_read_bytes(const hr_history *history);
uint64_t hr__history_file_bytes(const hr_history *history);

#endif
