/* What a run writes down of itself beside its steps: that it began, what it holds, saves, warnings, how it ended; and
 * the seconds of its phases. All of it are events of log.jsonl (docs/json.md), which say what a monitor and a report
 * show.
 */
#ifndef HR_TRAIN_DIARY_H
#define HR_TRAIN_DIARY_H

#include "run/run.h"
#include "train/log_lines.h"

enum { HR_DIARY_EARLY = 2048 };

typedef struct hr_diary {
  hr_log *log;
  double phases[HR_PHASE_COUNT];
  double next_memory;         /* hr__seconds_now() from which memory is looked at again */
  int statm;                  /* open /proc/self/statm; -1: none */
  bool begun;                 /* the run has told that it began, and is to tell how it ends */
  char early[HR_DIARY_EARLY]; /* warnings from before there is a log, each with its end */
  size_t early_bytes;
} hr_diary;

void hr__diary_open(hr_diary *diary, hr_log *log);
void hr__diary_close(hr_diary *diary);

/* Adds what has passed since `begin` (hr__seconds_now()) to a phase; returns it. */
double hr__diary_phase(hr_diary *diary, hr_run_phase phase, double begin);

/* The log is open, and steps follow. */
void hr__diary_begin(hr_diary *diary, int64_t step, int64_t steps);
void hr__diary_warning(hr_diary *diary, int64_t step, const char *text);
void hr__diary_saved(hr_diary *diary, int64_t step, double seconds, uint64_t bytes);
uint64_t hr__diary_resident(const hr_diary *diary); /* bytes of this process in memory; 0: not known */
/* After a step: what is held of each tier, now and then. It takes at most one part in a hundred of the time. */
void hr__diary_memory(hr_diary *diary, int64_t step, const hr_run *run, hr_device *device);
/* `text`: why, where the status alone does not say. */
void hr__diary_end(hr_diary *diary, int64_t step, hr_status status, const char *text, uint64_t measured_bytes);

#endif
