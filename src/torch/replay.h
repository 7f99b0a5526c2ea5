/* Replay: a list of events through the simulated allocator, and what came of it.
 *
 *   hr_torch_rules rules;
 *   hr__torch_rules_init(&rules);
 *   HR_TRY(hr__torch_replay(&events, &rules, arena, &result, err));
 *   ... result.allocated.use.allocated_bytes, result.reserved.use.reserved_bytes
 *
 * Running out of memory under the rules' limit is a result, not an error: the replay ends at that call. Categories of a
 * moment sum to what is allocated then; what is reserved beyond it is cached. Owners and calls are asked for apart,
 * since few callers want them.
 */
#ifndef HR_TORCH_REPLAY_H
#define HR_TORCH_REPLAY_H

#include "torch/allocator.h"
#include "torch/events.h"

/* The run at one event, when it has happened. */
typedef struct hr_torch_moment {
  size_t event; /* SIZE_MAX: there was none */
  hr_torch_phase phase;
  uint32_t step;
  hr_torch_use use;
  uint64_t categories[HR_TORCH_CATEGORIES]; /* blocks, by what they are for; sums to use.allocated_bytes */
} hr_torch_moment;

/* The most of each in a phase (all steps) or in a step (all phases). */
typedef struct hr_torch_peak {
  uint64_t allocated_bytes, reserved_bytes;
} hr_torch_peak;

typedef struct hr_torch_result {
  hr_torch_moment allocated; /* the first moment at which most is allocated */
  hr_torch_moment reserved;  /* the first at which most is reserved */
  uint64_t requested_bytes;  /* the most that was asked for at once: allocated without rounding */
  hr_torch_peak phases[HR_TORCH_PHASES];
  hr_torch_peak *steps; /* by number; 0: before the first */
  size_t n_steps;
  bool out_of_memory;
  hr_torch_moment failed;      /* where it ran out, before the call */
  uint64_t failed_bytes;       /* what the driver was asked for there */
  size_t retries;              /* times that cached segments were given back for room */
  const uint64_t *block_bytes; /* of each allocation, by id: for owners */
  const hr_torch_events *events;
} hr_torch_result;

/* Everything in the result lives in `arena`; `events` must outlive it. */
hr_status hr__torch_replay(const hr_torch_events *events, const hr_torch_rules *rules, hr_arena *arena,
                           hr_torch_result *out, hr_error *err);

/* Who has how much at a moment, the most first. */
typedef struct hr_torch_share {
  const char *name;
  uint64_t bytes;
  size_t count; /* of allocations */
} hr_torch_share;
typedef enum hr_torch_by { HR_TORCH_BY_OWNER, HR_TORCH_BY_CALL } hr_torch_by;
hr_status hr__torch_shares(const hr_torch_result *result, const hr_torch_moment *moment, hr_torch_by by,
                           hr_arena *arena, hr_torch_share **shares, size_t *count, hr_error *err);

#endif
