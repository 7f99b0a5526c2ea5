/* Progress of a run for a person who waits: one line that is redrawn on a terminal; nothing anywhere else. At small
 * widths step, loss, rate and time left stay longest. */
#ifndef HR_TRAIN_PROGRESS_H
#define HR_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/line.h"
#include "train/reports.h"

typedef struct hr_progress {
  hr_line line;
  double begun;
  int64_t first; /* step at which this process began */
} hr_progress;

typedef struct hr_progress_state {
  int64_t step, steps;
  double loss;
  double tokens_per_second, samples_per_second; /* the first is 0 where the model has no tokens */
  const hr_reports *reports;                    /* (optional) losses and metrics */
  uint64_t memory_bytes;                        /* held by the process; 0: not known */
} hr_progress_state;

void hr__progress_begin(hr_progress *progress, FILE *to, int64_t first);
bool hr__progress_due(const hr_progress *progress); /* whether a drawing would be seen */
void hr__progress_draw(hr_progress *progress, const hr_progress_state *state);
void hr__progress_clear(hr_progress *progress); /* before anything else is written to the terminal */
void hr__progress_end(hr_progress *progress);

#endif
