/* A program on its streams: when each node computes, each copy crosses, the host works, and where computing waits. The
 * spans are those of the simulation that the plan's seconds come from. */
#ifndef HR_PLAN_TIMELINE_H
#define HR_PLAN_TIMELINE_H

#include "plan/plan.h"

typedef enum hr_stream_kind {
  HR_STREAM_COMPUTE, /* kernels, and waits for copies */
  HR_STREAM_IN,      /* copies to the device */
  HR_STREAM_OUT,     /* copies from it */
  HR_STREAM_HOST,    /* nodes that a GPU's program leaves to the host */
  HR_STREAMS
} hr_stream_kind;
const char *hr_stream_name(hr_stream_kind stream);

typedef struct hr_span {
  hr_id node; /* of the graph */
  hr_stream_kind stream;
  bool waits; /* computing stands still for a copy */
  double begin, end;
} hr_span;

typedef struct hr_timeline {
  hr_span *spans; /* by stream, and in each by begin; without those that take no time */
  size_t count;
  double seconds;             /* of the program, as in the plan */
  double busy[HR_STREAMS];    /* seconds of the spans of each, waits left out */
  double wait_seconds;        /* of waits */
  uint64_t bytes[HR_STREAMS]; /* that copies move */
} hr_timeline;

/* `rates` are those that the plan was made with. Spans are the arena's. */
hr_status hr__timeline(const hr_plan *plan, const hr_rates *rates, hr_id program, hr_arena *arena, hr_timeline *out,
                       hr_error *err);

#endif
