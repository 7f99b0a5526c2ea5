/* The stages of a recipe as jobs: each is the recipe with its own settings laid over it, planned by itself. */
#ifndef HR_JOB_STAGES_H
#define HR_JOB_STAGES_H

#include "job/job.h"

typedef struct hr_stage {
  const char *name;
  int from;        /* number of the stage it begins from; -1: of none */
  const int *also; /* further ones, of which it begins with what those before have not */
  int n_also;
  hr_job_source source;
} hr_stage;

/* Those that a source stands for, in `arena`; none where the recipe has no stages, or one of them is chosen already. */
hr_status hr__stages_list(const hr_job_source *source, hr_arena *arena, hr_stage **out, size_t *count, hr_error *err);

/* Of a source with one stage chosen, the names of those that it begins from: "a, b", in `arena`. NULL: of none, or all
 * stages are to be trained. */
hr_status hr__stage_befores(const hr_job_source *source, hr_arena *arena, const char **out, hr_error *err);

/* Tensors that a stage leaves in its checkpoints for those that begin from it, in the caller's arena. */
typedef struct hr_stage_left {
  const char **names;
  hr_desc *shapes;
  size_t count;
} hr_stage_left;

/* Whether a stage has a place for all that those it begins from leave, of the list `left` of all stages; then what it
 * leaves itself: the same, and what it trains. HR_BAD_INPUT names what would be lost. */
hr_status hr__stage_follow(const hr_stage_left *left, const hr_job *job, const hr_stage *stage, hr_arena *arena,
                           hr_stage_left *out, hr_error *err);

#endif
