/* Placing intervals one at a time: the inner engine of packing (pack.c) and its three ways to find a layout.
 *
 * A problem is one set of intervals with a target: the liveness bound, below which no layout can be. Each way starts from
 * the best layout so far, stops as soon as the target is met, and counts every placement it makes against the effort, so
 * that the result depends on the input only.
 */
#ifndef HR_PLAN_LAYOUT_H
#define HR_PLAN_LAYOUT_H

#include <stdbool.h>

#include "plan/pack.h"

/* Which free gap an interval takes: the tightest, or the lowest. Above everything when none is wide enough. */
typedef enum hr_gap_rule { HR_GAP_TIGHTEST, HR_GAP_LOWEST, HR_GAP_RULE_COUNT } hr_gap_rule;

typedef struct hr_placed {
  size_t offset, top; /* bytes [offset, top) */
  uint32_t first, last;
  uint32_t item;
} hr_placed;

/* Intervals placed so far, by rising offset. */
typedef struct hr_layout {
  hr_placed *placed; /* room for all items of the problem */
  size_t count;
  size_t total_bytes;
  size_t ceiling;
} hr_layout;

typedef struct hr_pack_problem {
  const hr_interval *items;
  size_t count;
  size_t target_bytes;
  uint64_t effort;   /* placements left for improving */
  hr_gap_rule rule;  /* of the best layout */
  uint32_t *order;   /* items in the order in which the best layout placed them */
  size_t *offsets;   /* of the best layout, per item */
  size_t total_bytes; /* of the best layout; SIZE_MAX: none yet */
  int hang, best_hang; uint32_t hang_from, best_from;
  hr_arena *arena;   /* scratch */
} hr_pack_problem;

static inline bool hr__intervals_meet(const hr_interval *a, const hr_interval *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Puts one item into the layout. */
void hr__layout_place(hr_layout *layout, const hr_interval *items, uint32_t item, hr_gap_rule rule,
                      bool hang);

/* Several fixed orders under both gap rules; always leaves a layout. Not counted as effort. */
hr_status hr__pack_greedy(hr_pack_problem *problem, hr_error *err);
/* Random moves in the order of placement: what sticks out above the target goes earlier. */
hr_status hr__pack_climb(hr_pack_problem *problem, uint64_t effort, hr_error *err);
/* Depth-first search over layouts in which every interval rests on the floor or on another. Complete, thus a proof, when
 * it ends within the effort; `proved` says so. */
hr_status hr__pack_exact(hr_pack_problem *problem, uint64_t effort, bool *proved, hr_error *err);

#endif
