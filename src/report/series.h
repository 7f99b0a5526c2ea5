/* A curve of a run: a number for steps of it. A page has some thousand pixels, a run may have a million steps: of each
 * stretch of steps the least and the most are kept, at their own steps, and the mean; so that no spike is lost. */
#ifndef HR_REPORT_SERIES_H
#define HR_REPORT_SERIES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"

enum { HR_SERIES_NAME = 80, HR_SERIES_STRETCHES = 1000 };

typedef struct hr_series {
  char name[HR_SERIES_NAME];
  const char *kind; /* what it is drawn with: "loss", "metric", "speed", ... */
  bool held_out;    /* of an evaluation */
  int64_t *steps;   /* in the order of the log */
  double *values;   /* NaN: the number was not finite */
  size_t count, capacity;
} hr_series;

hr_status hr__series_add(hr_series *series, int64_t step, double value, hr_error *err);
void hr__series_fini(hr_series *series);

/* {"name", "kind", "held_out", "count", "steps": column of differences, "values": [null where not finite],
 *  "mean": null or [steps, values], "least": [step, value], "most", "last"}; NULL: out of memory. */
json_t *hr__series_json(const hr_series *series);

#endif
