/* Hill-climbing on the order of placement. A layout that misses its target has intervals that stick out above it; one
 * of them is moved to an earlier place in the order, where it finds a lower gap, and the order is laid out again from
 * there. A move is kept when the result is no worse: first by total bytes, then by how much sticks out in sum. */
#include <string.h>

#include "base/random.h"
#include "plan/layout.h"

typedef struct climb {
  hr_pack_problem *problem;
  hr_layout layout; /* of the current order */
  hr_layout trial;
  uint32_t *order; /* current */
  uint32_t *trial_order;
  uint32_t *position; /* of an item in `order` */
  uint32_t *above;    /* items whose top is above the target */
  bool *hang;
  uint32_t flipped;
  double excess; /* bytes above the target, summed over items */
} climb;

static double layout_excess(const climb *c, const hr_layout *layout) {
  double sum = 0;
  for (size_t i = layout->count; i-- > 0;) {
    if (layout->placed[i].top > c->problem->target_bytes)
      sum += (double)(layout->placed[i].top - c->problem->target_bytes);
  }
  return sum;
}

/* Lays out trial_order, whose first `same` items are those of `order`: their placements are taken over. */
static void trial_run(climb *c, size_t same) {
  size_t n = c->problem->count;
  hr_layout *trial = &c->trial;
  trial->count = 0;
  trial->total_bytes = 0;
  for (size_t i = 0; i < n; i++) {
    const hr_placed *placed = &c->layout.placed[i];
    if (c->position[placed->item] >= same) continue;
    trial->placed[trial->count++] = *placed;
    if (placed->top > trial->total_bytes) trial->total_bytes = placed->top;
  }
  for (size_t i = same; i < n && trial->total_bytes <= c->layout.total_bytes; i++)
    hr__layout_place(trial, c->problem->items, c->trial_order[i], c->problem->rule, c->hang[c->trial_order[i]]);
}

static void trial_accept(climb *c, double excess) {
  hr_layout layout = c->layout;
  c->layout = c->trial;
  c->trial = layout;
  uint32_t *order = c->order;
  c->order = c->trial_order;
  c->trial_order = order;
  c->excess = excess;
  for (size_t i = 0; i < c->problem->count; i++)
    c->position[c->order[i]] = (uint32_t)i;
}

/* Moves one of the items above the target, or now and then any item, to an earlier place. Returns that place. */
static size_t trial_order_make(climb *c, uint64_t round) {
  const hr_random_key key = {0x6865616472, 0x7061636b};
  size_t n = c->problem->count, n_above = 0;
  for (size_t i = 0; i < n; i++) {
    if (c->layout.placed[i].top > c->problem->target_bytes) c->above[n_above++] = c->layout.placed[i].item;
  }
  uint32_t item = c->above[hr__random_below(key, round, 0, n_above)];
  if (hr__random_below(key, round, 1, 4) == 0) {
    /* one that stands in its way: a random item alive together with it */
    uint32_t other = c->order[hr__random_below(key, round, 2, n)];
    if (hr__intervals_meet(&c->problem->items[item], &c->problem->items[other])) item = other;
  }
  size_t from = c->position[item];
  size_t to = (size_t)hr__random_below(key, round, 3, from + 1);
  if (to == from && from + 1 < n) { /* no earlier place: let the next one pass instead */
    item = c->order[from + 1];
    from++;
  }
  memcpy(c->trial_order, c->order, n * sizeof *c->order);
  memmove(&c->trial_order[to + 1], &c->trial_order[to], (from - to) * sizeof *c->order);
  c->trial_order[to] = item;
  c->flipped = UINT32_MAX;
  if (hr__random_below(key, round, 5, 3) == 0) {
    c->flipped = item;
    c->hang[item] ^= 1;
  }
  return to;
}

hr_status hr__pack_climb(hr_pack_problem *problem, uint64_t effort, hr_error *err) {
  size_t n = problem->count;
  climb c = {.problem = problem};
  c.layout.placed = hr__arena_array(problem->arena, n, sizeof(hr_placed));
  c.trial.placed = hr__arena_array(problem->arena, n, sizeof(hr_placed));
  c.order = hr__arena_array(problem->arena, n, sizeof *c.order);
  c.trial_order = hr__arena_array(problem->arena, n, sizeof *c.order);
  c.position = hr__arena_array(problem->arena, n, sizeof *c.position);
  c.above = hr__arena_array(problem->arena, n, sizeof *c.above);
  c.hang = hr__arena_array(problem->arena, n, sizeof *c.hang);
  for (size_t i = 0; i < n; i++) c.hang[i] = problem->best_hang == 0 ? 0 : problem->best_hang == 1 ? problem->items[i].first < problem->best_from : problem->items[i].last > problem->best_from;
  c.layout.ceiling = c.trial.ceiling = problem->target_bytes;
  if (!c.layout.placed || !c.trial.placed || !c.order || !c.trial_order || !c.position || !c.above)
    return hr__nomem(err);
  for (size_t i = 0; i < n; i++) {
    c.order[i] = problem->order[i];
    c.position[c.order[i]] = (uint32_t)i;
    hr__layout_place(&c.layout, problem->items, c.order[i], problem->rule, c.hang[c.order[i]]);
  }
  c.excess = layout_excess(&c, &c.layout);

  if (effort > problem->effort) effort = problem->effort;
  uint64_t end = problem->effort - effort;
  for (uint64_t round = 0; problem->effort > end && c.layout.total_bytes > problem->target_bytes; round++) {
    size_t same = trial_order_make(&c, round);
    trial_run(&c, same);
    uint64_t spent = c.trial.count - same + 1;
    problem->effort -= spent < problem->effort ? spent : problem->effort;
    double excess = 0;
    bool good = !(c.trial.count < n || c.trial.total_bytes > c.layout.total_bytes);
    if (good) {
      excess = layout_excess(&c, &c.trial);
      if (c.trial.total_bytes == c.layout.total_bytes && excess > c.excess) good = false;
    }
    if (good) {
      trial_accept(&c, excess);
    } else if (c.flipped != UINT32_MAX) {
      c.hang[c.flipped] ^= 1;
    }
  }
  if (c.layout.total_bytes < problem->total_bytes) {
    problem->total_bytes = c.layout.total_bytes;
    memcpy(problem->order, c.order, n * sizeof *c.order);
    for (size_t i = 0; i < n; i++)
      problem->offsets[c.layout.placed[i].item] = c.layout.placed[i].offset;
  }
  return HR_OK;
}
