/* A job: one recipe taken through every stage up to its plan. What the command line and include/headroom.h work with.
 */
#ifndef HR_TRAIN_JOB_H
#define HR_TRAIN_JOB_H

#include "fit/choose.h"
#include "fit/suggest.h"
#include "plan/verdict.h"

struct hr_job {
  hr_recipe *recipe;
  hr_facts facts;
  hr_rates rates;
  hr_chosen chosen; /* what `auto` settings came to; owns graph and plan */
  const hr_graph *graph;
  const hr_plan *plan;
  hr_training_shape shape;
  hr_verdict verdict;
};
typedef struct hr_job hr_job;

/* What a job is opened from. */
typedef struct hr_job_source {
  const char *path; /* recipe file or folder with config.json */
  const char *const *overrides;
  size_t n_overrides;
} hr_job_source;

/* Loads, compiles and plans. A plan over its budget is HR_OK: see `verdict` and hr__job_check. */
hr_status hr__job_open(const hr_job_source *source, hr_job **out, hr_error *err);
void hr__job_close(hr_job *job);

/* HR_NO_FIT with the shortfall when the plan is over its budget. */
hr_status hr__job_check(const hr_job *job, hr_error *err);

/* The cheapest changes that would fit, by planning the recipe again with each. */
hr_status hr__job_suggest(const hr_job *job, const hr_job_source *source, hr_change changes[HR_SUGGESTIONS], int *count,
                          hr_error *err);

/* Opens the device the recipe names. */
hr_status hr__job_device(const hr_job *job, hr_device **out, hr_error *err);

#endif
