/* Search over canonical layouts. In some best layout every interval rests on the floor or on top of another; placed by
 * rising offset, each then starts at the skyline over its lifetime. So the search picks the next interval, puts it on
 * the skyline, and goes on, with offsets never falling. A branch is cut when
 * - some moment's skyline plus what must still come there exceeds what is sought;
 * - another interval would fit wholly below the chosen one: a layout at least as good puts that one first.
 * (The canonical order and these cuts follow Moffitt, MiniMalloc, ASPLOS 2023.) */
#include <stdlib.h>
#include <string.h>

#include "plan/layout.h"

typedef struct search {
  hr_pack_problem *problem;
  size_t n_sections;     /* moments that matter: the distinct starts */
  uint32_t *begin, *end; /* per item: its sections, [begin, end) */
  size_t *skyline;       /* per section */
  size_t *coming;        /* per section: bytes of unplaced items */
  size_t *saved;         /* n x n_sections: skylines to go back to */
  uint32_t *pick;        /* n x n: candidates of each level, best first */
  size_t *offset;        /* per item */
  bool *placed;
  uint32_t *order; /* items as placed */
} search;

static int time_compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static size_t section_of(const uint32_t *times, size_t count, uint32_t time) { /* first section at or after `time` */
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (times[middle] < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static hr_status search_init(search *s, hr_pack_problem *problem, hr_arena *arena, hr_error *err) {
  size_t n = problem->count;
  uint32_t *times = hr__arena_array(arena, n, sizeof *times);
  if (!times) return hr__nomem(err);
  for (size_t i = 0; i < n; i++)
    times[i] = problem->items[i].first;
  qsort(times, n, sizeof *times, time_compare);
  size_t m = 0;
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || times[i] != times[m - 1]) times[m++] = times[i];
  }
  *s = (search){.problem = problem, .n_sections = m};
  s->begin = hr__arena_array(arena, n, sizeof *s->begin);
  s->end = hr__arena_array(arena, n, sizeof *s->end);
  s->skyline = hr__arena_array(arena, m, sizeof *s->skyline);
  s->coming = hr__arena_array(arena, m, sizeof *s->coming);
  s->saved = hr__arena_array(arena, n * m, sizeof *s->saved);
  s->pick = hr__arena_array(arena, n * n, sizeof *s->pick);
  s->offset = hr__arena_array(arena, n, sizeof *s->offset);
  s->placed = hr__arena_array(arena, n, sizeof *s->placed);
  s->order = hr__arena_array(arena, n, sizeof *s->order);
  if (!s->begin || !s->end || !s->skyline || !s->coming || !s->saved || !s->pick || !s->offset || !s->placed ||
      !s->order)
    return hr__nomem(err);
  for (size_t i = 0; i < n; i++) {
    const hr_interval *item = &problem->items[i];
    s->begin[i] = (uint32_t)section_of(times, m, item->first);
    s->end[i] = item->last == UINT32_MAX ? (uint32_t)m : (uint32_t)section_of(times, m, item->last + 1);
    for (size_t t = s->begin[i]; t < s->end[i]; t++)
      s->coming[t] += item->bytes;
  }
  return HR_OK;
}

static size_t skyline_over(const search *s, size_t item) {
  size_t top = 0;
  for (size_t t = s->begin[item]; t < s->end[item]; t++) {
    if (s->skyline[t] > top) top = s->skyline[t];
  }
  return top;
}

/* Whether everything still to come can stay below the best layout when nothing may start under `level`. */
static bool level_hopeful(const search *s, size_t level) {
  for (size_t t = 0; t < s->n_sections; t++) {
    if (s->coming[t] == 0) continue;
    size_t floor = s->skyline[t] > level ? s->skyline[t] : level;
    if (floor + s->coming[t] >= s->problem->total_bytes) return false;
  }
  return true;
}

/* Candidates of a level into `pick`, lowest first, then largest: those at or above the last offset and below the lowest
 * top that any unplaced item could have. */
static size_t level_candidates(search *s, size_t depth, size_t level, uint32_t *pick) {
  const hr_interval *items = s->problem->items;
  size_t n = s->problem->count, count = 0, ceiling = SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    if (s->placed[i]) continue;
    s->offset[i] = skyline_over(s, i);
    if (s->offset[i] + items[i].bytes < ceiling) ceiling = s->offset[i] + items[i].bytes;
  }
  for (uint32_t i = 0; i < n; i++) {
    size_t offset = s->offset[i];
    if (s->placed[i] || offset < level || offset >= ceiling) continue;
    if (depth > 0 && offset == level && i < s->order[depth - 1]) continue; /* the same layout in another order */
    size_t at = count++;
    for (; at > 0; at--) {
      uint32_t other = pick[at - 1];
      if (s->offset[other] < offset || (s->offset[other] == offset && items[other].bytes >= items[i].bytes)) break;
      pick[at] = other;
    }
    pick[at] = i;
  }
  return count;
}

static void search_keep(search *s) {
  hr_pack_problem *problem = s->problem;
  problem->total_bytes = 0;
  for (size_t i = 0; i < problem->count; i++) {
    size_t top = s->offset[i] + problem->items[i].bytes;
    if (top > problem->total_bytes) problem->total_bytes = top;
  }
  memcpy(problem->offsets, s->offset, problem->count * sizeof *s->offset);
}

/* Places item number `depth`; false when the search should end: the target is met. */
static bool search_level(search *s, size_t depth, size_t level) {
  hr_pack_problem *problem = s->problem;
  if (depth == problem->count) {
    search_keep(s);
    return problem->total_bytes > problem->target_bytes;
  }
  uint32_t *pick = s->pick + depth * problem->count;
  size_t *saved = s->saved + depth * s->n_sections;
  size_t count = level_candidates(s, depth, level, pick);
  for (size_t c = 0; c < count; c++) {
    uint32_t item = pick[c];
    size_t bytes = problem->items[item].bytes, offset = skyline_over(s, item);
    size_t begin = s->begin[item], end = s->end[item];
    memcpy(&saved[begin], &s->skyline[begin], (end - begin) * sizeof *saved);
    for (size_t t = begin; t < end; t++) {
      s->skyline[t] = offset + bytes;
      s->coming[t] -= bytes;
    }
    s->offset[item] = offset;
    s->placed[item] = true;
    s->order[depth] = item;
    bool hopeful = offset + bytes < problem->total_bytes && level_hopeful(s, offset);
    bool more = !hopeful || search_level(s, depth + 1, offset);
    s->placed[item] = false;
    for (size_t t = begin; t < end; t++)
      s->coming[t] += bytes;
    memcpy(&s->skyline[begin], &saved[begin], (end - begin) * sizeof *saved);
    if (!more) return false;
  }
  return true;
}

hr_status hr__pack_exact(hr_pack_problem *problem, hr_error *err) {
  search s;
  hr_arena scratch;
  hr__arena_init(&scratch);
  hr_status status = search_init(&s, problem, &scratch, err);
  if (status == HR_OK) search_level(&s, 0, 0);
  hr__arena_fini(&scratch);
  return status;
}
