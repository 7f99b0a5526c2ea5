/* A plan's layout as a page takes it: every buffer, memory over the nodes of each program, the streams of each. All
 * numbers are of the functions that `plan --json` and `dump` print from (plan/tenants.h, usage.h, timeline.h). */
#ifndef HR_REPORT_LAYOUT_H
#define HR_REPORT_LAYOUT_H

#include <jansson.h>

#include "job/job.h"

hr_status hr__layout_json(const hr_job *job, json_t **out, hr_error *err);

#endif
