#include "plan/layout.h"

#include <stdlib.h>
#include <string.h>

void hr__layout_place(hr_layout *layout, const hr_interval *items, uint32_t item, hr_gap_rule rule, bool hang) {
  const hr_interval *interval = &items[item];
  size_t floor = 0, best_gap = SIZE_MAX, best_offset = 0;
  for (size_t i = 0; i < layout->count; i++) {
    const hr_placed *other = &layout->placed[i];
    if (other->first > interval->last || interval->first > other->last) continue;
    if (other->offset > floor) {
      size_t gap = other->offset - floor;
      if (gap >= interval->bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = hang ? other->offset - interval->bytes : floor;
        if (rule == HR_GAP_LOWEST || gap == interval->bytes) break;
      }
    }
    if (other->top > floor) floor = other->top;
  }
  size_t offset = best_gap == SIZE_MAX ? floor : best_offset;
  if (hang && layout->ceiling >= floor + interval->bytes && layout->ceiling - floor < best_gap)
    offset = layout->ceiling - interval->bytes;

  size_t low = 0, high = layout->count; /* after the last one at or below `offset` */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (layout->placed[middle].offset <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  memmove(&layout->placed[low + 1], &layout->placed[low], (layout->count - low) * sizeof(hr_placed));
  layout->placed[low] = (hr_placed){offset, offset + interval->bytes, interval->first, interval->last, item};
  layout->count++;
  if (offset + interval->bytes > layout->total_bytes) layout->total_bytes = offset + interval->bytes;
}

/* A sort key per item: larger goes first; ties by size, then by start, then by number. */
typedef struct order_key {
  double key;
  size_t bytes;
  uint32_t first;
  uint32_t item;
} order_key;

static int order_compare(const void *a, const void *b) {
  const order_key *x = a, *y = b;
  if (x->key != y->key) return x->key > y->key ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->item < y->item ? -1 : 1;
}

typedef double (*order_rule)(const hr_interval *interval, size_t contention);

static double interval_life(const hr_interval *interval) {
  return (double)(interval->last - interval->first) + 1;
}
static double by_size(const hr_interval *i, size_t contention) {
  return (void)contention, (double)i->bytes;
}
static double by_area(const hr_interval *i, size_t contention) {
  return (void)contention, (double)i->bytes * interval_life(i);
}
static double by_life(const hr_interval *i, size_t contention) {
  return (void)contention, interval_life(i);
}
static double by_start(const hr_interval *i, size_t contention) {
  return (void)contention, -(double)i->first;
}
static double by_end(const hr_interval *i, size_t contention) {
  return (void)contention, (double)i->last;
}
static double by_contention(const hr_interval *i, size_t contention) {
  return (void)i, (double)contention;
}

/* Per item, the largest sum of bytes alive at one time during its life. Peaks of liveness can only lie where an
 * interval starts, so a sweep over the starts is enough: `starts` is sorted, live[s] is the sum at starts[s]. */
static hr_status contention_compute(const hr_pack_problem *problem, size_t *contention, hr_error *err) {
  size_t n = problem->count;
  order_key *starts = hr__arena_array(problem->arena, n, sizeof *starts);
  size_t *live = hr__arena_array(problem->arena, n, sizeof *live);
  if (!starts || !live) return hr__nomem(err);
  for (size_t i = 0; i < n; i++)
    starts[i] = (order_key){-(double)problem->items[i].first, 0, 0, (uint32_t)i};
  qsort(starts, n, sizeof *starts, order_compare);
  for (size_t s = 0; s < n; s++) {
    uint32_t time = problem->items[starts[s].item].first;
    for (size_t i = 0; i < n; i++) {
      const hr_interval *interval = &problem->items[i];
      if (interval->first <= time && time <= interval->last) live[s] += interval->bytes;
    }
  }
  for (size_t i = 0; i < n; i++) {
    const hr_interval *interval = &problem->items[i];
    for (size_t s = 0; s < n; s++) {
      uint32_t time = problem->items[starts[s].item].first;
      if (time >= interval->first && time <= interval->last && live[s] > contention[i]) contention[i] = live[s];
    }
  }
  return HR_OK;
}

static void layout_run(hr_pack_problem *problem, hr_layout *layout, const order_key *keys, hr_gap_rule rule) {
  layout->count = 0;
  layout->total_bytes = 0;
  for (size_t i = 0; i < problem->count; i++) {
    hr__layout_place(layout, problem->items, keys[i].item, rule, problem->hang == 0 ? 0 : problem->hang == 1 ? problem->items[keys[i].item].first < problem->hang_from : problem->items[keys[i].item].last > problem->hang_from);
    if (layout->total_bytes >= problem->total_bytes) return;
  }
  problem->total_bytes = layout->total_bytes;
  problem->rule = rule;
  problem->best_hang = problem->hang;
  problem->best_from = problem->hang_from;
  for (size_t i = 0; i < problem->count; i++) {
    problem->order[i] = keys[i].item;
    problem->offsets[layout->placed[i].item] = layout->placed[i].offset;
  }
}

hr_status hr__pack_greedy(hr_pack_problem *problem, hr_error *err) {
  static const order_rule rules[] = {by_size, by_area, by_contention, by_life, by_start, by_end};
  size_t n = problem->count;
  order_key *keys = hr__arena_array(problem->arena, n, sizeof *keys);
  size_t *contention = hr__arena_array(problem->arena, n, sizeof *contention);
  hr_layout layout = {.placed = hr__arena_array(problem->arena, n, sizeof(hr_placed))};
  if (!keys || !contention || !layout.placed) return hr__nomem(err);
  uint32_t lo = UINT32_MAX, hi = 0;
  for (size_t i = 0; i < n; i++) {
    if (problem->items[i].first < lo) lo = problem->items[i].first;
    if (problem->items[i].last > hi) hi = problem->items[i].last;
  }
  for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
    if (rules[r] == by_contention) HR_TRY(contention_compute(problem, contention, err));
    for (size_t i = 0; i < n; i++) {
      const hr_interval *interval = &problem->items[i];
      keys[i] = (order_key){rules[r](interval, contention[i]), interval->bytes, interval->first, (uint32_t)i};
    }
    qsort(keys, n, sizeof *keys, order_compare);
    for (int rule = 0; rule < 2 * 2 * 9; rule++) {
      int q = rule / 4;
      problem->hang = q == 0 ? 0 : 1 + (rule / 2 % 2);
      if (q == 0 && rule / 2 % 2) continue;
      problem->hang_from = lo + (uint32_t)((uint64_t)(hi - lo) * (uint64_t)q / 9);
      layout.ceiling = problem->target_bytes;
      layout_run(problem, &layout, keys, (hr_gap_rule)(rule & 1));
      if (problem->total_bytes <= problem->target_bytes) return HR_OK;
    }
  }
  return HR_OK;
}
