/* Where the time of a step goes: planned beside measured, by class of op and by op. */
#ifndef HR_JOB_TIMES_H
#define HR_JOB_TIMES_H

#include "job/job.h"

/* Of one effective step. */
typedef struct hr_time {
  const char *name;
  double planned, measured; /* seconds */
} hr_time;

enum { HR_TIME_CLASSES = HR_CLASS_COUNT + 1 }; /* and "copies": between tiers, with the waits for them */

typedef struct hr_times {
  hr_time classes[HR_TIME_CLASSES]; /* those that a step has, by measured seconds, longest first */
  size_t n_classes;
  hr_time *ops; /* the same by op; in the arena */
  size_t n_ops;
} hr_times;

/* `node_seconds` as hr__profile gives them: on the CPU of a whole step, on a GPU of one run of the node. */
hr_status hr__times(const hr_job *job, const double *node_seconds, hr_arena *arena, hr_times *out, hr_error *err);

#endif
