/* Placing intervals one at a time: the inner engine of packing (pack.c) and its ways to find a layout.
 *
 * A problem is one set of intervals with a target: the liveness bound, below which no layout can be. Each way keeps the
 * best layout so far, stops as soon as the target is met, and counts every placement it makes against the effort, so
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
  size_t ceiling_bytes; /* what hangs, hangs from here */
} hr_layout;

typedef struct hr_pack_problem {
  const hr_interval *items; /* in the order of their starts */
  size_t count;
  size_t target_bytes;
  uint64_t effort;    /* placements left for improving */
  uint64_t round;     /* of improving: makes the random numbers new */
  size_t *offsets;    /* of the best layout, per item */
  size_t total_bytes; /* of the best layout; SIZE_MAX: none yet */
  /* The greedy layout that climbing starts from: the best of its round. */
  uint32_t *order; /* in which the items were placed */
  bool *hang;      /* which of them hang, per item */
  hr_gap_rule rule;
  size_t start_bytes; /* its total; SIZE_MAX: none yet */
  size_t *contention; /* per item: the largest sum of bytes alive at one time during its life; set by hr__pack_greedy */
} hr_pack_problem;

static inline bool hr__intervals_meet(const hr_interval *a, const hr_interval *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Where an interval goes among those placed: walks the ones alive together with it from below, looking at the gaps. */
size_t hr__layout_offset(const hr_layout *layout, const hr_interval *interval, hr_gap_rule rule, bool hang);
/* Puts one more into a list by rising offset, which has room for it. */
void hr__placed_insert(hr_placed *list, size_t count, const hr_placed *placed);
/* Puts one item into the layout: at the bottom of its gap, or hanging from the top of it. */
void hr__layout_place(hr_layout *layout, const hr_interval *items, uint32_t item, hr_gap_rule rule, bool hang);

/* Keeps a complete layout if it is the best so far. */
void hr__layout_keep(const hr_layout *layout, hr_pack_problem *problem);

/* Greedy layouts in fixed orders; always leaves one. */
hr_status hr__pack_greedy(hr_pack_problem *problem, hr_error *err);
/* Greedy layouts in orders with a random part. */
hr_status hr__pack_sample(hr_pack_problem *problem, uint64_t effort, hr_error *err);
/* Small changes to the order of the best greedy layout, kept while they do no harm. */
hr_status hr__pack_climb(hr_pack_problem *problem, uint64_t effort, hr_error *err);
/* Depth-first search over layouts in which every interval rests on the floor or on another: leaves a layout as good as
 * any. For small sets: takes as long as it takes. */
hr_status hr__pack_exact(hr_pack_problem *problem, hr_error *err);

#endif
