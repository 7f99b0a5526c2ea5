/* What a run reports of its losses and metrics, as text: for log.jsonl, the bar, and JSON. A model with a single loss
 * has nothing to add to that. */
#ifndef HR_TRAIN_REPORTS_H
#define HR_TRAIN_REPORTS_H

#include "model/losses.h"

typedef struct hr_reports {
  const hr_reported *list;
  int count;
  double values[HR_REPORTED]; /* in the order of the list */
} hr_reports;

enum { HR_REPORTS_TEXT = HR_REPORTED * 96 }; /* room for names of 32 characters and any number of f32 */
/* ,"PREFIXlosses":{"a":1.5},"PREFIXmetrics":{"b":2} ; empty for a single loss. */
const char *hr__reports_json_text(const hr_reports *reports, const char *prefix, char out[HR_REPORTS_TEXT]);
/* " (a 1.5000, b 2.0000)"; empty for a single loss. */
const char *hr__reports_text(const hr_reports *reports, char out[HR_REPORTS_TEXT]);
/* Before sums are added up: 0, and NaN for what training, or evaluations, do not report. */
void hr__reports_clear(hr_reports *reports, bool eval);
/* Takes over the metrics that only evaluations make, where another has them. */
void hr__reports_keep(hr_reports *reports, const hr_reports *from);
/* Sum of the losses by weight. */
double hr__reports_loss(const hr_reports *reports);

#endif
