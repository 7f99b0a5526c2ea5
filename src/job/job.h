/* A job: one recipe taken through every stage up to its plan. What the command line and include/headroom.h work with.
 */
#ifndef HR_JOB_JOB_H
#define HR_JOB_JOB_H

#include "fit/ladder.h"
#include "fit/search.h"
#include "fit/techniques.h"
#include "job/engine.h"
#include "plan/verdict.h"

/* What a job is opened from. */
typedef struct hr_job_source {
  const char *path; /* recipe file or folder with config.json; "": there is none, overrides are all of it */
  const char *const *overrides;
  size_t n_overrides;
} hr_job_source;

/* Who wants to know how far the search is (fit/search.h); called from several threads. */
typedef struct hr_job_watch {
  void *user;
  void (*search)(void *user, const hr_search_state *state);
} hr_job_watch;

typedef struct hr_job hr_job;
struct hr_job {
  hr_arena arena;
  hr_job_source given;  /* a copy, in the arena */
  hr_job_source source; /* the same with the overrides that close what was open */
  bool open_all;        /* by hr__job_open_all */
  hr_job_watch watch;   /* while it is opened */
  hr_recipe *recipe;    /* closed: what was open has the values chosen, but for what `chosen` says of memory.* = auto */
  hr_facts facts;
  hr_rates rates;
  hr_rates host_rates; /* with a GPU: of the CPU beside it */
  hr_search search;    /* what was open, and what was chosen; its frontier */
  hr_chosen chosen;    /* what `auto` settings came to; owns graph and plan */
  const hr_graph *graph;
  const hr_plan *plan;
  hr_training_shape shape;
  hr_verdict verdict;
  hr_job *features; /* makes what training reads from the cache (model/features.h), before it; NULL: it reads none */
  bool torch;       /* PyTorch is to train: graph and plan cannot be run, and tell of `run` (job/engine_plan.h) */
  hr_engine_run run;
};

/* Loads, compiles and plans. A plan over its budget is HR_OK: see `verdict` and hr__job_check. */
hr_status hr__job_open(const hr_job_source *source, hr_job **out, hr_error *err);
/* The same with all settings open that the recipe and the overrides do not write (--auto; fit/search.h). */
hr_status hr__job_open_all(const hr_job_source *source, hr_job **out, hr_error *err);
/* Either of them, with somebody who watches (may be NULL). */
hr_status hr__job_open_watched(const hr_job_source *source, bool all, const hr_job_watch *watch, hr_job **out,
                               hr_error *err);
void hr__job_close(hr_job *job);

/* HR_NO_FIT with the shortfall when the plan is over its budget. */
hr_status hr__job_check(const hr_job *job, hr_error *err);
/* Of one that does not fit, the job whose plan is too large: itself, or the one that makes features before it. */
const hr_job *hr__job_over(const hr_job *job);
/* What any run holds on the host: "16.00 KiB for two batches and 20.00 MiB to copy through". */
enum { HR_HOST_LEAST = 128 };
void hr__job_host_least(const hr_job *job, char out[HR_HOST_LEAST]);

/* Changes of a job are only judged (hr__effort_judges of plan/plan.h): their peaks, and those of the job that they are
 * compared with, are lower bounds, which layouts meet but for 1 %; seconds are those of a plan that fits, and a run's
 * may be fewer by some percent, since more is tried for it. */

/* The cheapest changes that would fit, by planning the recipe again with each; none where what comes before it is too
 * large (hr_verdict.preparing). */
hr_status hr__job_suggest(const hr_job *job, hr_change changes[HR_SUGGESTIONS], int *count, hr_error *err);

/* What each memory technique of the recipe saves and costs, by planning it once more without each. */
hr_status hr__job_techniques(const hr_job *job, hr_technique techniques[HR_TECHNIQUES], int *count, hr_error *err);

/* The settings next to the recipe's own, for a plan that fits. Texts are the arena's. */
hr_status hr__job_ladder(const hr_job *job, hr_arena *arena, hr_ladder *out, hr_error *err);

/* HR_BAD_INPUT where another engine than headroom's is to run it. */
hr_status hr__job_runnable(const hr_job *job, hr_error *err);
/* Opens the device the recipe names; one of the catalogue cannot be. */
hr_status hr__job_device(const hr_job *job, hr_device **out, hr_error *err);

#endif
