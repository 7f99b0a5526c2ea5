/* Hill-climbing on the order of placement. A layout that misses its target has intervals that stick out above it. One
 * of them, or one alive together with it, is moved to an earlier place in the order, sometimes turned over between
 * resting and hanging, and the order is laid out again from there. A change is kept when the result is no worse: first
 * by total bytes, then by how much sticks out in sum. */
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
  uint32_t *above;    /* items that stick out */
  size_t n_above;
  bool *hang;    /* the problem's own: its starting point is used up */
  double excess; /* bytes above the target, summed over items */
  uint64_t step;
  hr_arena scratch;
} climb;

/* The change of one round: `item` goes to place `to`, and is turned over or not. */
typedef struct change {
  uint32_t item;
  size_t to;
  bool turned;
} change;

static uint64_t draw(const climb *c, uint64_t number, uint64_t below) {
  return hr__random_below((hr_random_key){c->problem->round, 0x636c696d62}, c->step, number, below);
}

static double layout_excess(const hr_layout *layout, size_t target) {
  double sum = 0;
  for (size_t i = 0; i < layout->count; i++)
    if (layout->placed[i].top > target) sum += (double)(layout->placed[i].top - target);
  return sum;
}

static hr_status climb_init(climb *c, hr_pack_problem *problem, hr_error *err) {
  size_t n = problem->count;
  *c = (climb){.problem = problem};
  hr__arena_init(&c->scratch);
  c->layout.placed = hr__arena_array(&c->scratch, n, sizeof(hr_placed));
  c->trial.placed = hr__arena_array(&c->scratch, n, sizeof(hr_placed));
  c->order = hr__arena_array(&c->scratch, n, sizeof *c->order);
  c->trial_order = hr__arena_array(&c->scratch, n, sizeof *c->order);
  c->position = hr__arena_array(&c->scratch, n, sizeof *c->position);
  c->above = hr__arena_array(&c->scratch, n, sizeof *c->above);
  if (!c->layout.placed || !c->trial.placed || !c->order || !c->trial_order || !c->position || !c->above) {
    hr__arena_fini(&c->scratch);
    return hr__nomem(err);
  }
  c->hang = problem->hang;
  memcpy(c->order, problem->order, n * sizeof *c->order);
  c->layout.ceiling_bytes = c->trial.ceiling_bytes = problem->target_bytes;
  for (size_t i = 0; i < n; i++)
    hr__layout_place(&c->layout, problem->items, c->order[i], problem->rule, c->hang[c->order[i]]);
  return HR_OK;
}

/* Takes note of the current layout. */
static void climb_settle(climb *c) {
  hr_pack_problem *problem = c->problem;
  c->excess = layout_excess(&c->layout, problem->target_bytes);
  c->n_above = 0;
  for (size_t i = 0; i < problem->count; i++) {
    const hr_placed *placed = &c->layout.placed[i];
    c->position[c->order[i]] = (uint32_t)i;
    if (placed->top > problem->target_bytes) c->above[c->n_above++] = placed->item;
  }
  hr__layout_keep(&c->layout, problem);
}

static change change_draw(const climb *c) {
  const hr_interval *items = c->problem->items;
  uint32_t item = c->above[draw(c, 0, c->n_above)];
  if (draw(c, 1, 4) == 0) { /* one in its way instead */
    uint32_t other = c->order[draw(c, 2, c->problem->count)];
    if (hr__intervals_meet(&items[item], &items[other])) item = other;
  }
  return (change){item, (size_t)draw(c, 3, (uint64_t)c->position[item] + 1), draw(c, 4, 3) == 0};
}

/* Lays out the order with the change made. Places before it stay as they are. Returns the number of placements. */
static size_t change_try(climb *c, const change *made) {
  hr_layout *trial = &c->trial;
  size_t n = c->problem->count, from = c->position[made->item], to = made->to;
  memcpy(c->trial_order, c->order, n * sizeof *c->order);
  memmove(&c->trial_order[to + 1], &c->trial_order[to], (from - to) * sizeof *c->order);
  c->trial_order[to] = made->item;
  c->hang[made->item] ^= made->turned;

  trial->count = 0;
  trial->total_bytes = 0;
  for (size_t i = 0; i < n; i++) {
    const hr_placed *placed = &c->layout.placed[i];
    if (c->position[placed->item] >= to) continue;
    trial->placed[trial->count++] = *placed;
    if (placed->top > trial->total_bytes) trial->total_bytes = placed->top;
  }
  for (size_t i = to; i < n && trial->total_bytes <= c->layout.total_bytes; i++) {
    uint32_t item = c->trial_order[i];
    hr__layout_place(trial, c->problem->items, item, c->problem->rule, c->hang[item]);
  }
  return trial->count - to;
}

static bool trial_is_better(const climb *c) {
  if (c->trial.count < c->problem->count || c->trial.total_bytes > c->layout.total_bytes) return false;
  return c->trial.total_bytes < c->layout.total_bytes ||
         layout_excess(&c->trial, c->problem->target_bytes) <= c->excess;
}

hr_status hr__pack_climb(hr_pack_problem *problem, uint64_t effort, hr_error *err) {
  climb c;
  if (problem->effort == 0 || problem->total_bytes <= problem->target_bytes) return HR_OK;
  HR_TRY(climb_init(&c, problem, err));
  climb_settle(&c);
  uint64_t end = problem->effort > effort ? problem->effort - effort : 0;
  for (; problem->effort > end && problem->total_bytes > problem->target_bytes; c.step++) {
    change made = change_draw(&c);
    size_t placements = change_try(&c, &made) + 1;
    problem->effort -= placements < problem->effort ? placements : problem->effort;
    if (trial_is_better(&c)) {
      hr_layout layout = c.layout;
      uint32_t *order = c.order;
      c.layout = c.trial;
      c.order = c.trial_order;
      c.trial = layout;
      c.trial_order = order;
      climb_settle(&c);
    } else {
      c.hang[made.item] ^= made.turned;
    }
  }
  hr__arena_fini(&c.scratch);
  return HR_OK;
}
