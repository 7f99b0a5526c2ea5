/* What the files that read a run for a page share. Only they include this. */
#ifndef HR_REPORT_RUNNING_H
#define HR_REPORT_RUNNING_H

#include "report/series.h"
#include "train/history.h"

/* What a page takes at most: events and sets of samples beyond are counted, the newest stay. */
enum { HR_RUN_SERIES = 96, HR_RUN_EVENTS = 400, HR_RUN_SAMPLES = 8, HR_RUN_SET = 8, HR_RUN_TEXT = 2000 };

typedef struct hr_running {
  hr_series curves[HR_RUN_SERIES];
  size_t n_curves;
  json_t *headers, *events, *samples;
  int64_t events_left_out, samples_left_out;
  int64_t step, steps, skipped;
  uint64_t held[HR_TIER_COUNT], process_bytes; /* the most */
  bool measured;
  json_t *phases; /* of the last line that had them; NULL: none */
  json_t *status; /* of "ended"; NULL: it runs, or was killed */
  hr_error *err;
} hr_running;

/* run_records.c. */
hr_status hr__running_take(hr_running *r, const hr_record *record);
hr_status hr__running_begin(hr_running *r); /* empty lists; also to forget everything */
void hr__running_fini(hr_running *r);

#endif
