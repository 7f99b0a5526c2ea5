/* What the files that build a plan share: the plan on its way. Only they include this. */
#ifndef HR_PLAN_BUILDING_H
#define HR_PLAN_BUILDING_H

#include "dev/cpu/gemm_set.h"
#include "plan/lifetimes.h"
#include "plan/plan.h"

typedef struct hr_building {
  hr_plan *plan;
  const hr_graph *graph;
  const hr_rates *rates;
  const hr_plan_options *options;
  hr_arena scratch;
  hr_lifetime *lifetimes;           /* per buffer */
  uint32_t (*peaks)[HR_TIER_COUNT]; /* per program: first position at which the most bytes of a tier are alive */
  hr_gemm_set products;             /* on the CPU: of the nodes that are planned so far */
  uint64_t launches;                /* on a GPU: of these, beyond one for each */
  hr_error *err;
} hr_building;

/* slots.c. Tables for one slot per buffer that something touches, and per workspace. */
hr_status hr__slots_create(hr_building *b);
/* Appends a slot; `bytes` is rounded up here. */
hr_status hr__slot_add(hr_building *b, hr_slot slot, hr_id *id);
/* Persistent buffers, by role and then as the graph has them, one after another from the bottom of their tier. */
hr_status hr__slots_persistent(hr_building *b);
/* One slot per home of a program's buffers. */
hr_status hr__slots_transient(hr_building *b, hr_id program);
/* A plan that no address reaches the end of. */
hr_status hr__slots_refuse(const hr_building *b, const char *name);

/* offsets.c: how much slots[from..n_slots) of a program take at least, and, but for a sketch, where they lie. */
hr_status hr__offsets_find(hr_building *b, size_t from, hr_id program);

/* peak.c. A slot that buffers share by takeover is reported as what it holds at its program's peak. */
void hr__peak_name(hr_building *b, hr_id program);
/* The tier's part of the plan, when all programs are done. */
hr_status hr__peak_finish(hr_building *b, hr_tier tier);
/* Fixed costs that grow with the graph. */
uint64_t hr__peak_nodes_bytes(const hr_building *b);

#endif
