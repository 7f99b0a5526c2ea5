/* Traces: files of events that tools/torch_trace.py writes beside the user's own PyTorch.
 *
 * A JSON object: `format` says what it is, `names`, `categories` and `phases` are lists of texts, `events` rows of
 * numbers by these lists: [0, bytes, category, owner, call] or with a stream behind, [1, allocation] frees, [2, phase,
 * step] marks, [3] empties the cache. Allocations count from 0. `batch` (null: not said), `capability`, `versions`,
 * `source`, and what makes the trace an estimate: `guesses` (what depends on contents) and `unmodelled` (calls whose
 * scratch is not counted). `segments`, of a run that was recorded: where each segment lies among all of them by
 * address, in the order in which they were made.
 */
#ifndef HR_TORCH_TRACE_H
#define HR_TORCH_TRACE_H

#include "torch/events.h"

#define HR_TORCH_TRACE_FORMAT "headroom torch trace 1"

typedef struct hr_torch_trace {
  hr_torch_events events;
  const char *path;
  const char *source;      /* "size-only tensors", "snapshot" */
  const char *version;     /* of PyTorch */
  uint64_t batch;          /* 0: not said */
  int capability;          /* of the GPU that kernels were chosen for, 10 x major + minor; 0: recorded on one */
  uint64_t recorded_bytes; /* reserved on the GPU it was recorded on, the most; 0: it was not */
  const uint32_t *places;  /* of segments (hr_torch_rules) */
  size_t n_places;
  const char **guesses, **unmodelled;
  size_t n_guesses, n_unmodelled;
} hr_torch_trace;

/* Whether a file says that it is one. A file that cannot be read is none: others say why. */
bool hr__torch_trace_is(const char *path);
/* Texts live in `arena`, events on the heap until hr__torch_trace_fini, which also is for one that failed. */
hr_status hr__torch_trace_read(const char *path, hr_arena *arena, hr_torch_trace *out, hr_error *err);
hr_status hr__torch_trace_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_torch_trace *out,
                                hr_error *err);
void hr__torch_trace_fini(hr_torch_trace *trace);

/* Gives cuBLAS's workspaces the size that they have on a GPU of this capability, whatever it was traced for. */
void hr__torch_trace_workspaces(hr_torch_trace *trace, int capability);

#endif
