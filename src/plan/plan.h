/* The plan: a const graph laid out in time and space. Says to the byte what a run holds, and how long a step takes.
 *
 * Time is the position of a node in its program. Persistent buffers lie at the bottom of each tier's arena; above them
 * every program lays out its transients anew, so a tier's arena is persistent + the largest program. The plan is a pure
 * function of graph, facts and rates: the same input gives the same plan.
 */
#ifndef HR_PLAN_PLAN_H
#define HR_PLAN_PLAN_H

#include "graph/graph.h"
#include "plan/rates.h"

/* Bytes that a node takes in the process beside its operands: its part of graph and plan, its bound launch. Measured as
 * the growth of a process, less its arenas, from 200 to 13,000 nodes: 1620 (with adapters and recomputing) to 1785 for
 * each that computes, 800 for each of a copy between tiers, which has no launch. Fixed costs on the CPU count them,
 * where the process is what the budget binds. */
enum { HR_NODE_BYTES = 1700, HR_COPY_NODE_BYTES = 800 };
/* What oneDNN takes on the CPU for each shape of product, and beside it for each worker. Measured on version 2.6 with
 * 331 shapes: 37 KiB of objects and 13 KiB of machine code; 4.2 KiB for a worker. */
enum { HR_CODE_BYTES = 56 << 10, HR_DESK_BYTES = 5 << 10 };

/* What a run takes of a GPU beside its arena and what the driver reports after opening: library code that is loaded
 * when the first product or attention of its kind is prepared, and the recorded graphs, by nodes. Measured on an H200
 * as what the process holds beside its arena with graphs of 2,471, 30,751 and 91,039 nodes: 3377 bytes for each more of
 * them, then 3017; a part of the first ones is in the library's share. */
static const uint64_t HR_CUDA_LIBRARY_BYTES = (uint64_t)28 << 20;
enum { HR_CUDA_NODE_BYTES = 3000 };

/* Who owns the bytes at the peak. The names are those of `plan --json`. */
#define HR_CATEGORY_MAP(X)                                                                                             \
  X(HR_CAT_PARAMETERS, "parameters")                                                                                   \
  X(HR_CAT_GRADIENTS, "gradients")                                                                                     \
  X(HR_CAT_OPTIMIZER, "optimizer")                                                                                     \
  X(HR_CAT_STATE, "state")                                                                                             \
  X(HR_CAT_CACHE, "cache")                                                                                             \
  X(HR_CAT_ACTIVATIONS, "activations")                                                                                 \
  X(HR_CAT_WORKSPACE, "workspace")                                                                                     \
  X(HR_CAT_STAGING, "staging")                                                                                         \
  X(HR_CAT_INPUTS, "inputs")                                                                                           \
  X(HR_CAT_GAPS, "gaps")                                                                                               \
  X(HR_CAT_FIXED, "fixed")
typedef enum hr_category {
#define HR_CATEGORY_ENUM(code, name) code,
  HR_CATEGORY_MAP(HR_CATEGORY_ENUM)
#undef HR_CATEGORY_ENUM
      HR_CAT_COUNT
} hr_category;
const char *hr_category_name(hr_category category);
hr_category hr__role_category(hr_role role);

/* One slot of an arena: a graph buffer (or several merged by in-place results), or a node's workspace. */
typedef struct hr_slot {
  const char *name;
  const char *module; /* whose it is (hr_buffer.module) */
  hr_tier tier;
  hr_category category;
  hr_id program;        /* HR_NONE: persistent, in all programs */
  size_t bytes;         /* rounded up to the alignment */
  uint32_t first, last; /* node positions in the program, both inclusive; 0..UINT32_MAX when persistent */
  size_t offset;        /* in the tier's arena */
} hr_slot;

/* Whether a slot is taken at a position of a program. */
static inline bool hr__slot_alive(const hr_slot *slot, hr_id program, uint32_t position) {
  return slot->program == HR_NONE || (slot->program == program && slot->first <= position && position <= slot->last);
}

typedef struct hr_segment {
  hr_place place;
  hr_id first, count; /* nodes of the graph */
} hr_segment;

typedef struct hr_program_plan {
  hr_segment *segments;
  size_t n_segments;
  size_t transient_bytes[HR_TIER_COUNT];   /* above the persistent part */
  size_t lower_bound_bytes[HR_TIER_COUNT]; /* transients: largest sum of live bytes at any node */
  uint32_t peak_node;                      /* position where the device tier peaks */
  double seconds;
} hr_program_plan;

typedef struct hr_tier_plan {
  size_t persistent_bytes;
  size_t arena_bytes;                /* persistent + largest program */
  size_t lower_bound_bytes;          /* persistent + largest sum of live transients */
  uint64_t fixed_bytes;              /* of the device, and of the nodes */
  uint64_t peak_bytes;               /* arena + fixed */
  uint64_t categories[HR_CAT_COUNT]; /* at the peak; sum to peak_bytes */
  uint32_t peak_node;                /* position where it peaks, in hr__plan_peak_program */
} hr_tier_plan;

/* Bytes on the device while the run is in that phase, fixed costs counted. */
typedef struct hr_phases {
  uint64_t load, first_step, steady, eval, save, resume;
} hr_phases;

typedef struct hr_plan {
  hr_arena arena;        /* storage of everything below */
  const hr_graph *graph; /* borrowed: outlives the plan */
  hr_facts facts;
  hr_slot *slots;
  size_t n_slots;
  hr_id *slot_of_buffer;    /* per graph buffer; HR_NONE: nothing touches it, it has no place */
  hr_id *workspace_of_node; /* per graph node: slot or HR_NONE */
  int *threads_of_node;
  double *seconds_of_node;
  hr_program_plan *programs; /* per graph program */
  hr_tier_plan tiers[HR_TIER_COUNT];
  hr_phases phases;
  double step_seconds; /* one effective step */
  char fingerprint[33];
} hr_plan;

/* How hard planning tries, from a plan that is to be run to one that is only looked at. */
typedef enum hr_effort {
  HR_EFFORT_RUN,   /* to be run: laid out with all the effort that a budget is worth */
  HR_EFFORT_DRAFT, /* to be run, but one of many: no more effort where its first layout misses the bound by much, and
                      one that misses a budget is given up */
  HR_EFFORT_COSTS, /* its peaks and seconds: whether there is a layout within the budget, and the first that is ends it.
                      Of a choice (fit/choose.h) peaks are lower bounds, which layouts meet but for 1 %, and what fits
                      has a layout that does, or, where it is large, 1 % to spare; updates of offloaded state have
                      fewer, larger tiles */
  HR_EFFORT_VERDICT, /* the same where it fits; else whatever was found to be too large first */
  HR_EFFORT_SKETCH   /* no layout at all: seconds are those of the whole plan, peaks are lower bounds of its peaks (the
                        largest sum of live bytes), offsets mean nothing, and there is no fingerprint */
} hr_effort;
/* Whether a plan is only to be judged, not to be run. */
static inline bool hr__effort_judges(hr_effort effort) {
  return effort >= HR_EFFORT_COSTS;
}

typedef struct hr_plan_options {
  int accumulation; /* micro-batches per effective step, for step_seconds; >= 1 */
  hr_effort effort;
  /* On the device; 0: none. A plan that cannot fit by its bound is laid out as a draft; one that misses the budget
   * only by its layout gets all the effort there is. */
  uint64_t budget_bytes;
  bool nameless; /* without a fingerprint: one of many, of which that which is taken gets it (plan/fingerprint.h) */
} hr_plan_options;

hr_status hr__plan_build(const hr_graph *graph, const hr_facts *facts, const hr_rates *rates,
                         const hr_plan_options *options, hr_plan **out, hr_error *err);
void hr__plan_destroy(hr_plan *plan);

/* How often one effective step runs a program. The step is one of the longest samples: the programs of shorter ones do
 * not count, nor does evaluation. */
double hr__program_runs(const hr_program *program, int64_t accumulation);

/* Offset of a value in its tier's arena. */
size_t hr__plan_value_offset(const hr_plan *plan, hr_id value);
hr_tier hr__plan_value_tier(const hr_plan *plan, hr_id value);

/* The program with the largest transients of a tier, which sets its peak; HR_NONE without programs. */
hr_id hr__plan_peak_program(const hr_plan *plan, hr_tier tier);

#endif
