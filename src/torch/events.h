/* Events: what a training run in PyTorch asks of the caching allocator, in order.
 *
 * Whoever knows the calls of a run (a model's sequence of ATen calls, a trace of the user's own) writes them into one
 * list; torch/replay.h gives it to the simulated allocator. Ids of allocations count from 0 in the order in which they
 * were made; an id is never used again.
 *
 * A *category* says what the bytes are for, in the words of a plan; an *owner* is the module that they belong to
 * ("model.layers.3.mlp.down_proj", as named_modules has it; "" is the run itself), a *call* what asked for them
 * ("aten::mm", "backward of aten::mm", "cublas workspace"). Owner and call are interned names of the list. What a
 * tensor turns out to be later (the gradient that a parameter takes over) is set with hr__torch_events_become: a
 * category counts from the allocation to the end.
 *
 * Marks say which phase of which step begins. What comes before the first mark belongs to building the model.
 *
 * A list that runs out of memory takes nothing more, and hr__torch_events_check says so at the end: those who write
 * thousands of calls need not look at each.
 */
#ifndef HR_TORCH_EVENTS_H
#define HR_TORCH_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/*      code                    name of it in answers */
#define HR_TORCH_CATEGORY_MAP(X)                                                                                       \
  X(HR_TORCH_PARAMETERS, "parameters") /* and buffers of modules */                                                    \
  X(HR_TORCH_GRADIENTS, "gradients")                                                                                   \
  X(HR_TORCH_OPTIMIZER, "optimizer")                                                                                   \
  X(HR_TORCH_ACTIVATIONS, "activations") /* what forward makes, and backward's own */                                  \
  X(HR_TORCH_WORKSPACE, "workspace")     /* scratch of libraries and kernels */                                        \
  X(HR_TORCH_INPUTS, "inputs")                                                                                         \
  X(HR_TORCH_OTHER, "other")

typedef enum hr_torch_category {
#define HR_TORCH_CATEGORY_ENUM(code, name) code,
  HR_TORCH_CATEGORY_MAP(HR_TORCH_CATEGORY_ENUM)
#undef HR_TORCH_CATEGORY_ENUM
      HR_TORCH_CATEGORIES
} hr_torch_category;

#define HR_TORCH_PHASE_MAP(X)                                                                                          \
  X(HR_TORCH_BUILD, "build") /* the model, and what optimizers make of it before the first step */                     \
  X(HR_TORCH_FORWARD, "forward")                                                                                       \
  X(HR_TORCH_BACKWARD, "backward")                                                                                     \
  X(HR_TORCH_UPDATE, "optimizer") /* clipping, the optimizer's step, zero_grad */                                      \
  X(HR_TORCH_EVAL, "eval")                                                                                             \
  X(HR_TORCH_SAVE, "save")

typedef enum hr_torch_phase {
#define HR_TORCH_PHASE_ENUM(code, name) code,
  HR_TORCH_PHASE_MAP(HR_TORCH_PHASE_ENUM)
#undef HR_TORCH_PHASE_ENUM
      HR_TORCH_PHASES
} hr_torch_phase;

const char *hr__torch_category_name(hr_torch_category category);
const char *hr__torch_phase_name(hr_torch_phase phase);

typedef enum hr_torch_kind {
  HR_TORCH_ALLOCATE,
  HR_TORCH_FREE,
  HR_TORCH_MARK,       /* a phase begins */
  HR_TORCH_EMPTY_CACHE /* torch.cuda.empty_cache() */
} hr_torch_kind;

typedef struct hr_torch_event {
  uint64_t bytes; /* allocate: as asked for, before any rounding */
  uint32_t id;    /* allocate, free: the allocation; mark: the step, from 1 (0: before the first) */
  uint32_t owner, call;
  uint8_t kind;     /* hr_torch_kind */
  uint8_t category; /* hr_torch_category */
  uint8_t phase;    /* mark: hr_torch_phase */
  uint8_t stream;   /* a block is used again on its own stream only; 0: the default one */
} hr_torch_event;

/* Where an allocation begins and ends, as numbers of events. */
typedef struct hr_torch_life {
  uint32_t first, end; /* end: the free; HR_TORCH_ALWAYS where there is none */
} hr_torch_life;
#define HR_TORCH_ALWAYS UINT32_MAX

typedef struct hr_torch_events {
  hr_torch_event *items;
  size_t count, capacity;
  hr_torch_life *lives; /* by id */
  size_t n_ids, ids_capacity;
  const char **names; /* interned texts; 0 is "" */
  size_t n_names, names_capacity;
  uint32_t *slots; /* names by hash, open addressing; a power of two of them, UINT32_MAX: none */
  size_t n_slots;
  hr_arena texts;
  bool failed; /* out of memory */
} hr_torch_events;

void hr__torch_events_init(hr_torch_events *events);
void hr__torch_events_fini(hr_torch_events *events);
/* As new, with the room and the names that it has: for the next candidate of a search. */
void hr__torch_events_clear(hr_torch_events *events);

/* The number of a name, the same for the same text; NULL is "". */
uint32_t hr__torch_events_name(hr_torch_events *events, const char *text);

/* An allocation; its id. One of no bytes is an event too, which the allocator passes over as PyTorch does. */
uint32_t hr__torch_events_allocate(hr_torch_events *events, uint64_t bytes, hr_torch_category category, uint32_t owner,
                                   uint32_t call);
/* The same on another stream than the default one. */
uint32_t hr__torch_events_allocate_on(hr_torch_events *events, uint8_t stream, uint64_t bytes,
                                      hr_torch_category category, uint32_t owner, uint32_t call);
/* Whether the allocation exists and has not been freed. */
bool hr__torch_events_live(const hr_torch_events *events, uint32_t id);
/* The end of a live allocation. */
void hr__torch_events_free(hr_torch_events *events, uint32_t id);
void hr__torch_events_mark(hr_torch_events *events, hr_torch_phase phase, uint32_t step);
void hr__torch_events_empty_cache(hr_torch_events *events);
/* What an allocation turns out to be; an owner of UINT32_MAX leaves it with whom it is. */
void hr__torch_events_become(hr_torch_events *events, uint32_t id, hr_torch_category category, uint32_t owner);

/* HR_NOMEM where the list is not whole. */
hr_status hr__torch_events_check(const hr_torch_events *events, hr_error *err);

#endif
