#include "text/merge.h"

#include <stdbool.h>

/* Up to here it is cheaper to look through all ranks for the lowest than to keep a heap. */
enum { FEW = 64 };

static size_t merge_few(const hr_pairs *pairs, int32_t *ids, size_t count) {
  int32_t ranks[FEW], joined[FEW]; /* of symbols i and i + 1 */
  for (size_t i = 0; i + 1 < count; i++) {
    const hr_pair *pair = hr__pairs_find(pairs, ids[i], ids[i + 1]);
    ranks[i] = pair->rank;
    joined[i] = pair->joined;
  }
  while (count > 1) {
    size_t best = 0;
    int32_t lowest = ranks[0];
    for (size_t i = 1; i + 1 < count; i++)
      if (ranks[i] < lowest) {
        lowest = ranks[i];
        best = i;
      }
    if (lowest == HR_NO_RANK) break;
    ids[best] = joined[best];
    count--;
    for (size_t i = best + 1; i < count; i++)
      ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < count; i++) {
      ranks[i] = ranks[i + 1];
      joined[i] = joined[i + 1];
    }
    if (best + 1 < count) {
      const hr_pair *pair = hr__pairs_find(pairs, ids[best], ids[best + 1]);
      ranks[best] = pair->rank;
      joined[best] = pair->joined;
    }
    if (best > 0) {
      const hr_pair *pair = hr__pairs_find(pairs, ids[best - 1], ids[best]);
      ranks[best - 1] = pair->rank;
      joined[best - 1] = pair->joined;
    }
  }
  return count;
}

/* Many symbols: a list of them, and a heap of pairs that could be joined. An entry is stale when its left symbol has
 * been joined into another or has got another neighbour, which shows by the rank of the pair that is there now. */
typedef struct entry {
  int32_t rank;
  uint32_t at;
} entry;

typedef struct many {
  const hr_pairs *pairs;
  int32_t *ids; /* -1: joined into one before */
  uint32_t *next, *previous;
  entry *heap;
  size_t heap_count, count;
} many;

static bool before(entry a, entry b) {
  return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(many *m, entry added) {
  size_t i = m->heap_count++;
  for (; i > 0 && before(added, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
    m->heap[i] = m->heap[(i - 1) / 2];
  m->heap[i] = added;
}

static entry heap_pop(many *m) {
  entry top = m->heap[0], last = m->heap[--m->heap_count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < m->heap_count; i = child) {
    if (child + 1 < m->heap_count && before(m->heap[child + 1], m->heap[child])) child++;
    if (!before(m->heap[child], last)) break;
    m->heap[i] = m->heap[child];
  }
  if (m->heap_count > 0) m->heap[i] = last;
  return top;
}

static void pair_push(many *m, uint32_t at) {
  if (m->next[at] >= m->count) return;
  int32_t rank = hr__pairs_find(m->pairs, m->ids[at], m->ids[m->next[at]])->rank;
  if (rank != HR_NO_RANK) heap_push(m, (entry){rank, at});
}

static void pair_join(many *m, entry top) {
  uint32_t at = top.at, right = m->next[at];
  if (m->ids[at] < 0 || right >= m->count) return;
  const hr_pair *pair = hr__pairs_find(m->pairs, m->ids[at], m->ids[right]);
  if (pair->rank != top.rank) return; /* stale */
  m->ids[at] = pair->joined;
  m->ids[right] = -1;
  m->next[at] = m->next[right];
  if (m->next[at] < m->count) m->previous[m->next[at]] = at;
  if (at > 0) pair_push(m, m->previous[at]);
  pair_push(m, at);
}

static hr_status merge_many(const hr_pairs *pairs, int32_t *ids, size_t *count, hr_string *work, hr_error *err) {
  size_t n = *count;
  if (n > UINT32_MAX / 4) return hr__nomem(err);
  work->count = 0; /* every join takes one symbol away and adds at most two entries */
  HR_TRY(hr__string_room(work, n * (2 * sizeof(uint32_t) + 3 * sizeof(entry)), err));
  many m = {.pairs = pairs, .ids = ids, .count = n};
  m.heap = (entry *)(void *)work->data;
  m.next = (uint32_t *)(void *)(m.heap + 3 * n);
  m.previous = m.next + n;
  for (size_t i = 0; i < n; i++) {
    m.next[i] = (uint32_t)i + 1;
    m.previous[i] = (uint32_t)i - 1; /* of the first one not looked at */
  }
  for (size_t i = 0; i + 1 < n; i++)
    pair_push(&m, (uint32_t)i);
  while (m.heap_count > 0)
    pair_join(&m, heap_pop(&m));
  size_t left = 0;
  for (size_t i = 0; i < n; i++)
    if (ids[i] >= 0) ids[left++] = ids[i];
  *count = left;
  return HR_OK;
}

hr_status hr__merge(const hr_pairs *pairs, int32_t *ids, size_t *count, hr_string *work, hr_error *err) {
  if (*count > FEW) return merge_many(pairs, ids, count, work, err);
  *count = merge_few(pairs, ids, *count);
  return HR_OK;
}
