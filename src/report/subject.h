/* What a page is about: a plan, or a run with its plan. A page has one subject, or several that are looked at in turn:
 * two that are compared, the stages of a recipe. */
#ifndef HR_REPORT_SUBJECT_H
#define HR_REPORT_SUBJECT_H

#include <jansson.h>

#include "job/job.h"

/* {"name", "stage", "plan": the object of `plan --json`, "layout": see layout.h}. `stage` may be NULL. `changes` are
 * what would fit. */
hr_status hr__subject_plan(const hr_job *job, const char *name, const char *stage, const hr_change *changes,
                           int n_changes, json_t **out, hr_error *err);

/* {"name", "stage", "run": see run.h, "plan", "layout", "remarks"}: a run, with the plan that its settings come to here
 * (`job` NULL: `why` says why there is none). */
hr_status hr__subject_run(const char *folder, const hr_job *job, const hr_error *why, json_t **out, hr_error *err);

/* {"schema", "version", "subjects", "differences"}; takes over both. `differences` may be NULL. NULL: out of memory. */
json_t *hr__subjects_json(json_t *subjects, json_t *differences);

#endif
