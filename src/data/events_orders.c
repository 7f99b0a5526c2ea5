/* The six orders of a sample's vectors. See events.h.
 *
 * Vectors that stand from `first` on are sorted as if they were alone; what is written is where they stand.
 *
 * An order is sorted from the bottom up, runs of 1, 2, 4... joined two by two; the row of its inverse holds what is
 * being joined, and is made last.
 */
#include <string.h>

#include "data/events.h"

enum { X, Y, T };
static const int axes[HR_EVENT_ORDERS][3] = {{X, Y, T}, {T, Y, X}, {X, T, Y}, {Y, T, X}, {Y, X, T}, {T, X, Y}};

typedef struct keys {
  const float *of[3]; /* what counts first, then, last */
} keys;

static bool before(const keys *k, int32_t a, int32_t b) {
  for (int i = 0; i < 3; i++)
    if (k->of[i][a] != k->of[i][b]) return k->of[i][a] < k->of[i][b];
  return false;
}

static void join(const keys *k, const int32_t *from, int64_t middle, int64_t end, int64_t begin, int32_t *to) {
  int64_t left = begin, right = middle;
  for (int64_t i = begin; i < end; i++) {
    bool take_right = left == middle || (right < end && before(k, from[right], from[left]));
    to[i] = from[take_right ? right++ : left++];
  }
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* order and inverse: from `first` on. */
static void order_make(const keys *k, int64_t n, int64_t first, int64_t length, int32_t *order, int32_t *inverse) {
  int32_t *from = order, *to = inverse;
  for (int64_t i = 0; i < length; i++)
    order[i] = (int32_t)i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run)
      join(k, from, least(begin + run, n), least(begin + 2 * run, n), begin, to);
    int32_t *joined = to;
    to = from;
    from = joined;
  }
  if (from != order) memcpy(order, from, (size_t)n * sizeof *order);
  for (int64_t i = 0; i < length; i++)
    inverse[order[i]] = (int32_t)(first + i);
  for (int64_t i = 0; i < length; i++)
    order[i] += (int32_t)first;
}

void hr__event_orders(const float *places, int64_t n, int64_t first, int64_t length, int32_t *orders,
                      int32_t *inverses) {
  int64_t room = length - first;
  for (int i = 0; i < HR_EVENT_ORDERS; i++) {
    keys k;
    for (int axis = 0; axis < 3; axis++)
      k.of[axis] = places + axes[i][axis] * room;
    order_make(&k, n, first, room, orders + i * length + first, inverses + i * length + first);
  }
}
