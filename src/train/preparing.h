/* A line on a terminal while data is made ready for a run: comes when that takes longer than a second. */
#ifndef HR_TRAIN_PREPARING_H
#define HR_TRAIN_PREPARING_H

#include "base/line.h"
#include "base/ticker.h"
#include "data/watch.h"

typedef struct hr_preparing {
  hr_line line;
  hr_ticker *ticker; /* NULL: nothing is shown */
  double begun;
  uint64_t done, all; /* bytes */
} hr_preparing;

/* `to` may be NULL, and need not be a terminal: then nothing is drawn. */
void hr__preparing_begin(hr_preparing *preparing, FILE *to);
hr_data_watch hr__preparing_watch(hr_preparing *preparing);
void hr__preparing_end(hr_preparing *preparing);

#endif
