/* Which events of an interval get a vector. See events.h.
 *
 * Events are drawn without being put back, with chances that go by a weight each: those are first that have the
 * smallest -log(u) / weight, u drawn evenly. Three rounds, each of what the ones before have left.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/events.h"

typedef struct ranked {
  double key;
  uint32_t event;
} ranked;

enum { BY_ACTIVITY, BY_GRADIENT, BY_SPACE, ROUNDS };

size_t hr__events_to_choose(size_t count, double ratio) {
  if (count == 0) return 0;
  size_t chosen = (size_t)llround(ratio * (double)count);
  return chosen < 1 ? 1 : chosen > count ? count : chosen;
}

static double weight_of(const hr_event_grid *grid, const hr_event *event, int round) {
  int64_t x = event->x, y = event->y;
  if (round == BY_ACTIVITY) return (double)hr__event_grid_count(grid, x, y);
  if (round == BY_SPACE) return 1 / (double)hr__event_grid_count(grid, x, y);
  double across = (double)hr__event_grid_count(grid, x + 1, y) - (double)hr__event_grid_count(grid, x - 1, y);
  double down = (double)hr__event_grid_count(grid, x, y + 1) - (double)hr__event_grid_count(grid, x, y - 1);
  return hypot(across, down) + 1e-3; /* where nothing changes there is still a chance */
}

static int ranked_compare(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->event > y->event) - (x->event < y->event);
}

static int number_compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* One round: `wanted` more of those that are not `taken`. */
static size_t round_draw(const hr_event_grid *grid, const hr_event *events, size_t count, int round, size_t wanted,
                         hr_random_key key, uint64_t at, uint8_t *taken, ranked *list, uint32_t *chosen) {
  size_t left = 0;
  for (size_t i = 0; i < count && wanted > 0; i++) {
    if (taken[i]) continue;
    double u = ((double)hr__random_at(key, at, i).word[round] + 0.5) * 0x1p-32;
    list[left++] = (ranked){-log(u) / weight_of(grid, &events[i], round), (uint32_t)i};
  }
  if (left > 1) qsort(list, left, sizeof *list, ranked_compare);
  for (size_t i = 0; i < wanted; i++) {
    taken[list[i].event] = 1;
    chosen[i] = list[i].event;
  }
  return wanted;
}

hr_status hr__events_choose(const hr_event_grid *grid, const hr_event *events, size_t count, size_t n_chosen,
                            hr_random_key key, uint64_t at, uint32_t *chosen, hr_error *err) {
  const size_t wanted[ROUNDS] = {2 * n_chosen / 5, 2 * n_chosen / 5, n_chosen - 2 * (2 * n_chosen / 5)};
  uint8_t *taken = hr__alloc_zero(count + 1, 1);
  ranked *list = hr__alloc_zero(count + 1, sizeof *list);
  hr_status status = taken && list ? HR_OK : hr__nomem(err);
  size_t drawn = 0;
  for (int round = 0; round < ROUNDS && status == HR_OK; round++)
    drawn += round_draw(grid, events, count, round, wanted[round], key, at, taken, list, chosen + drawn);
  if (drawn > 1) qsort(chosen, drawn, sizeof *chosen, number_compare);
  hr__free(taken);
  hr__free(list);
  return status;
}
