/* A run as a page shows it, out of its log.jsonl (train/history.h): curves, what was planned beside what was held,
 * samples, events. Lines that are no records are counted. */
#ifndef HR_REPORT_RUN_H
#define HR_REPORT_RUN_H

#include <jansson.h>

#include "base/status.h"

/* `folder`: of the run. HR_BAD_INPUT where there is no log, or none of its lines is a record. */
hr_status hr__run_json(const char *folder, json_t **out, hr_error *err);

#endif
