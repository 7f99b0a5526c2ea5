/* Greedy layouts: the intervals are placed one by one in an order, each in the best gap left.
 *
 * A style says how:
 * - the order: by size, area, life, start or end; for the whole set, or first by contention (the largest sum of bytes
 *   alive at one time during an interval's life), so that what is alive at the peak is laid out before it is in the way
 *   of anything;
 * - the gap: the tightest or the lowest;
 * - which intervals hang from the top of their gap, and from the target as the ceiling, instead of resting at its
 *   bottom: those that start before one moment and end after another. In a training step what forward leaves behind
 *   goes away while gradients pile up; from opposite ends, the free space between them stays in one piece.
 *
 * Fixed styles come first; samples draw a style at random and may put noise on the order.
 */
#include <stdlib.h>

#include "base/random.h"
#include "plan/bins.h"

enum { SPLITS = 8 }; /* of the time axis, for the fixed styles */

typedef double (*order_rule)(const hr_interval *interval);
static double interval_life(const hr_interval *i) {
  return (double)(i->last - i->first) + 1;
}
static double by_size(const hr_interval *i) {
  return (double)i->bytes;
}
static double by_area(const hr_interval *i) {
  return (double)i->bytes * interval_life(i);
}
static double by_start(const hr_interval *i) {
  return -(double)i->first;
}
static double by_end(const hr_interval *i) {
  return (double)i->last;
}
static const order_rule rules[] = {by_size, by_area, interval_life, by_start, by_end};
enum { RULES = sizeof rules / sizeof *rules };

typedef struct style {
  order_rule rule;
  bool contended; /* by contention first */
  hr_gap_rule gap;
  uint32_t before, after; /* what starts before the one and ends after the other hangs */
  double noise;           /* on the rule's key: a factor in [1 - noise/2, 1 + noise/2) */
} style;

/* Larger keys go first; ties by size, then by start, then by number. */
typedef struct order_key {
  size_t contention;
  double key;
  size_t bytes;
  uint32_t first;
  uint32_t item;
} order_key;

static int order_compare(const void *a, const void *b) {
  const order_key *x = a, *y = b;
  if (x->contention != y->contention) return x->contention > y->contention ? -1 : 1;
  if (x->key != y->key) return x->key > y->key ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

typedef struct greedy {
  hr_pack_problem *problem;
  hr_bins bins;
  order_key *keys;
  uint32_t begin, end; /* first and last moment of the set */
  uint64_t round;
  hr_arena scratch;
} greedy;

static uint64_t draw(const greedy *g, uint64_t number, uint64_t below) {
  return hr__random_below((hr_random_key){g->problem->round, 0x7061636b}, g->round, number, below);
}

static void order_make(greedy *g, const style *s) {
  const hr_random_key key = {g->problem->round, 0x6e6f697365};
  for (size_t i = 0; i < g->problem->count; i++) {
    const hr_interval *item = &g->problem->items[i];
    double value = s->rule(item);
    if (s->noise > 0) {
      double uniform = (double)hr__random_at(key, g->round, i).word[0] * 0x1p-32;
      value *= 1 + s->noise * (uniform - 0.5);
    }
    size_t contention = s->contended ? g->problem->contention[i] : 0;
    g->keys[i] = (order_key){contention, value, item->bytes, item->first, (uint32_t)i};
  }
  qsort(g->keys, g->problem->count, sizeof *g->keys, order_compare);
}

static bool item_hangs(const hr_interval *item, const style *s) {
  return item->first < s->before && item->last >= s->after;
}

/* Lays out in the order of the keys; gives up when it gets no better than where climbing would start. */
static void style_run(greedy *g, const style *s) {
  hr_pack_problem *problem = g->problem;
  const hr_layout *layout = &g->bins.layout;
  hr__bins_clear(&g->bins);
  for (size_t i = 0; i < problem->count && layout->total_bytes < problem->start_bytes; i++) {
    const hr_interval *item = &problem->items[g->keys[i].item];
    hr__bins_place(&g->bins, g->keys[i].item, s->gap, item_hangs(item, s));
  }
  if (layout->total_bytes >= problem->start_bytes) return;
  problem->start_bytes = layout->total_bytes;
  problem->rule = s->gap;
  for (size_t i = 0; i < problem->count; i++) {
    problem->order[i] = g->keys[i].item;
    problem->hang[i] = item_hangs(&problem->items[i], s);
  }
  hr__layout_keep(layout, problem);
}

static bool target_met(const greedy *g) {
  return g->problem->total_bytes <= g->problem->target_bytes;
}

static void effort_spend(greedy *g, size_t placements) {
  g->problem->effort -= placements < g->problem->effort ? placements : g->problem->effort;
}

static void style_try(greedy *g, const style *s) {
  if (target_met(g) || g->problem->effort == 0) return;
  style_run(g, s);
  effort_spend(g, g->bins.layout.count);
}

static void resting_run(greedy *g, style s) {
  for (int gap = 0; gap < HR_GAP_RULE_COUNT; gap++) {
    s.gap = (hr_gap_rule)gap;
    style_try(g, &s);
  }
}

static void hanging_run(greedy *g, style s) {
  for (uint32_t split = 1; split <= SPLITS; split++) {
    s.before = s.after = g->begin + (uint32_t)((uint64_t)(g->end - g->begin) * split / (SPLITS + 1));
    resting_run(g, s);
  }
}

/* Every order, resting first; then every order again with all splits. */
static void fixed_run(greedy *g) {
  for (int hang = 0; hang < 2; hang++) {
    for (size_t i = 0; i < 2 * RULES && !target_met(g) && g->problem->effort > 0; i++) {
      style s = {.rule = rules[i % RULES], .contended = i >= RULES};
      order_make(g, &s);
      (hang ? hanging_run : resting_run)(g, s);
    }
  }
}

static uint32_t moment_draw(const greedy *g, uint64_t number) {
  return g->begin + (uint32_t)draw(g, number, (uint64_t)(g->end - g->begin) + 1);
}

static style style_draw(const greedy *g) {
  static const order_rule weighted[] = {by_end, by_end, by_end, by_end, by_start, by_start, interval_life, by_size};
  style s = {.rule = weighted[draw(g, 0, 8)],
             .contended = true,
             .gap = draw(g, 1, 8) ? HR_GAP_TIGHTEST : HR_GAP_LOWEST,
             .before = moment_draw(g, 2),
             .noise = draw(g, 4, 4) == 0 ? 0.25 * (double)draw(g, 5, 4) : 0};
  uint64_t window = draw(g, 6, 8);
  if (window == 0) {
    s.after = 0;
  } else if (window == 1) {
    s.after = s.before;
    s.before = UINT32_MAX;
  } else {
    s.after = window < 5 ? moment_draw(g, 3) : s.before;
  }
  return s;
}

static void random_run(greedy *g) {
  style s = style_draw(g);
  order_make(g, &s);
  style_run(g, &s);
  effort_spend(g, g->bins.layout.count + g->problem->count / 4);
  g->round++;
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

/* Sorted by their ends. */
static int end_compare(const void *a, const void *b) {
  const order_key *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

/* First item, in the order of starts, that starts after `moment`. */
static size_t starts_end(const hr_pack_problem *problem, uint32_t moment) {
  size_t low = 0, high = problem->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (problem->items[middle].first <= moment)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The live sum rises only where an interval starts, so those moments are enough; items are in the order of their
 * starts. live[n..2n) are the sums there, live[1..n) the larger of two below: the largest of a range is that of few. */
static hr_status contention_compute(greedy *g, hr_error *err) {
  hr_pack_problem *problem = g->problem;
  const hr_interval *items = problem->items;
  size_t n = problem->count, now = 0, gone = 0;
  size_t *live = hr__arena_array(&g->scratch, 2 * n, sizeof *live);
  if (!live) return hr__nomem(err);
  for (size_t i = 0; i < n; i++)
    g->keys[i] = (order_key){.first = items[i].last, .bytes = items[i].bytes};
  qsort(g->keys, n, sizeof *g->keys, end_compare);
  for (size_t i = 0, end; i < n; i = end) {
    for (; gone < n && g->keys[gone].first < items[i].first; gone++)
      now -= g->keys[gone].bytes;
    for (end = i; end < n && items[end].first == items[i].first; end++)
      now += items[end].bytes;
    for (size_t k = i; k < end; k++)
      live[n + k] = now;
  }
  for (size_t k = n; k-- > 1;)
    live[k] = larger(live[2 * k], live[2 * k + 1]);
  for (size_t i = 0; i < n; i++) {
    size_t most = live[n + i];
    for (size_t low = n + i, high = n + starts_end(problem, items[i].last); low < high; low /= 2, high /= 2) {
      if (low % 2) most = larger(most, live[low++]);
      if (high % 2) most = larger(most, live[--high]);
    }
    problem->contention[i] = most;
  }
  return HR_OK;
}

static hr_status greedy_init(greedy *g, hr_pack_problem *problem, hr_error *err) {
  *g = (greedy){.problem = problem, .begin = UINT32_MAX};
  hr__arena_init(&g->scratch);
  g->keys = hr__arena_array(&g->scratch, problem->count, sizeof *g->keys);
  hr_status status =
      g->keys ? hr__bins_init(&g->bins, problem->items, problem->count, problem->target_bytes, &g->scratch, err)
              : hr__nomem(err);
  if (status != HR_OK) {
    hr__arena_fini(&g->scratch);
    return status;
  }
  for (size_t i = 0; i < problem->count; i++) {
    if (problem->items[i].first < g->begin) g->begin = problem->items[i].first;
    if (problem->items[i].last > g->end) g->end = problem->items[i].last;
  }
  return HR_OK;
}

hr_status hr__pack_greedy(hr_pack_problem *problem, hr_error *err) {
  greedy g;
  HR_TRY(greedy_init(&g, problem, err));
  style plain = {.rule = by_size};
  order_make(&g, &plain);
  style_run(&g, &plain); /* whatever the effort, so that there is a layout */
  hr_status status = HR_OK;
  if (!target_met(&g)) {
    status = contention_compute(&g, err);
    if (status == HR_OK) fixed_run(&g);
  }
  hr__arena_fini(&g.scratch);
  return status;
}

hr_status hr__pack_sample(hr_pack_problem *problem, uint64_t effort, hr_error *err) {
  greedy g;
  HR_TRY(greedy_init(&g, problem, err));
  uint64_t end = problem->effort > effort ? problem->effort - effort : 0;
  problem->start_bytes = SIZE_MAX;
  while (!target_met(&g) && problem->effort > end)
    random_run(&g);
  hr__arena_fini(&g.scratch);
  return HR_OK;
}
