/* Packing: the set is cut where no interval crosses; each part is laid out greedily in many ways until it meets the
 * bound of the whole, then improved step by step. Small sets that still miss it are searched to the end. */
#include "plan/pack.h"

#include <stdlib.h>

#include "base/checked.h"
#include "plan/layout.h"

enum {
  PACK_PROVED = 8,  /* sets up to this size are packed best, whatever the effort */
  PACK_ROUNDS = 16, /* of sampling and climbing, between which the effort is shared */
  PACK_CRUMB = 1024 /* what is smaller than the bound by this factor can be packed apart */
};

typedef struct sorted_item {
  uint32_t first, item;
} sorted_item;

static int sorted_compare(const void *a, const void *b) {
  const sorted_item *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->item < y->item ? -1 : 1;
}

/* Sweep over the starts with the ends sorted beside them: an interval leaves the sum after its last moment. `ends`
 * holds items by last; the live sum rises only at starts, so its maximum is found there. */
static hr_status bound_compute(const hr_interval *intervals, size_t count, const sorted_item *starts, hr_arena *arena,
                               size_t *bound, hr_error *err) {
  sorted_item *ends = hr__arena_array(arena, count, sizeof *ends);
  if (!ends) return hr__nomem(err);
  for (size_t i = 0; i < count; i++)
    ends[i] = (sorted_item){intervals[i].last, (uint32_t)i};
  qsort(ends, count, sizeof *ends, sorted_compare);
  size_t live = 0, gone = 0;
  *bound = 0;
  for (size_t i = 0; i < count; i++) {
    while (gone < count && ends[gone].first < starts[i].first)
      live -= intervals[ends[gone++].item].bytes;
    live += intervals[starts[i].item].bytes;
    if (live > *bound) *bound = live;
  }
  return HR_OK;
}

static hr_status starts_sort(const hr_interval *intervals, size_t count, hr_arena *arena, sorted_item **starts,
                             hr_error *err) {
  *starts = hr__arena_array(arena, count, sizeof **starts);
  if (!*starts) return hr__nomem(err);
  for (size_t i = 0; i < count; i++)
    (*starts)[i] = (sorted_item){intervals[i].first, (uint32_t)i};
  qsort(*starts, count, sizeof **starts, sorted_compare);
  return HR_OK;
}

static hr_status part_pack(hr_pack_problem *problem, hr_error *err) {
  HR_TRY(hr__pack_greedy(problem, err));
  uint64_t share = problem->effort / (2 * PACK_ROUNDS) + 1;
  for (; problem->effort > 0 && problem->total_bytes > problem->target_bytes; problem->round++) {
    HR_TRY(hr__pack_sample(problem, share, err));
    HR_TRY(hr__pack_climb(problem, share, err));
  }
  if (problem->total_bytes <= problem->target_bytes || problem->count > PACK_PROVED) return HR_OK;
  return hr__pack_exact(problem, err);
}

/* Packs starts[0..count), which no other interval meets, with scratch of its own. */
static hr_status part_run(const hr_interval *intervals, const sorted_item *starts, size_t count, size_t target,
                          uint64_t *effort, size_t *offsets, size_t *total, hr_error *err) {
  hr_arena scratch;
  hr__arena_init(&scratch);
  hr_interval *items = hr__arena_array(&scratch, count, sizeof *items);
  hr_pack_problem problem = {.items = items,
                             .count = count,
                             .target_bytes = target,
                             .effort = *effort,
                             .offsets = hr__arena_array(&scratch, count, sizeof(size_t)),
                             .order = hr__arena_array(&scratch, count, sizeof(uint32_t)),
                             .hang = hr__arena_array(&scratch, count, sizeof(bool)),
                             .total_bytes = SIZE_MAX,
                             .start_bytes = SIZE_MAX,
                             .contention = hr__arena_array(&scratch, count, sizeof(size_t))};
  hr_status status =
      items && problem.offsets && problem.order && problem.hang && problem.contention ? HR_OK : hr__nomem(err);
  if (status == HR_OK) {
    for (size_t i = 0; i < count; i++)
      items[i] = intervals[starts[i].item];
    status = part_pack(&problem, err);
  }
  if (status == HR_OK) {
    for (size_t i = 0; i < count; i++)
      offsets[starts[i].item] = problem.offsets[i];
    if (problem.total_bytes > *total) *total = problem.total_bytes;
    *effort = problem.effort;
  }
  hr__arena_fini(&scratch);
  return status;
}

static hr_status parts_run(const hr_interval *intervals, size_t count, uint64_t effort, hr_arena *scratch,
                           size_t *offsets, hr_packing *result, hr_error *err) {
  size_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    if (!hr__add_size(sum, intervals[i].bytes, &sum) || sum > SIZE_MAX / 4)
      return hr__fail(err, HR_BAD_INPUT, NULL, "make the model or the batch smaller",
                      "the buffers of one program are larger in sum than the address space");
  }
  sorted_item *starts;
  HR_TRY(starts_sort(intervals, count, scratch, &starts, err));
  HR_TRY(bound_compute(intervals, count, starts, scratch, &result->lower_bound_bytes, err));
  for (size_t begin = 0, end; begin < count; begin = end) {
    uint32_t last = intervals[starts[begin].item].last;
    for (end = begin + 1; end < count && starts[end].first <= last; end++) {
      if (intervals[starts[end].item].last > last) last = intervals[starts[end].item].last;
    }
    HR_TRY(part_run(intervals, starts + begin, end - begin, result->lower_bound_bytes, &effort, offsets,
                    &result->total_bytes, err));
  }
  return HR_OK;
}

hr_status hr__pack(const hr_interval *intervals, size_t count, uint64_t effort, size_t *offsets, hr_packing *result,
                   hr_error *err) {
  hr_arena scratch;
  hr__arena_init(&scratch);
  *result = (hr_packing){0};
  hr_status status = parts_run(intervals, count, effort, &scratch, offsets, result, err);
  hr__arena_fini(&scratch);
  return status;
}

/* Moves the crumbs behind all others, both in their order; returns the number of the others. */
static size_t crumbs_part(const hr_interval *intervals, size_t count, size_t crumb, hr_interval *parted,
                          uint32_t *from) {
  size_t n = 0;
  for (int crumbs = 0; crumbs < 2; crumbs++) {
    for (size_t i = 0; i < count; i++)
      if ((intervals[i].bytes <= crumb) == crumbs) from[n++] = (uint32_t)i;
  }
  size_t large = 0;
  for (size_t i = 0; i < count; i++) {
    parted[i] = intervals[from[i]];
    large += parted[i].bytes > crumb;
  }
  return large;
}

static hr_status apart_run(const hr_interval *intervals, size_t count, uint64_t effort, hr_arena *scratch,
                           size_t *offsets, hr_packing *result, hr_error *err) {
  hr_interval *parted = hr__arena_array(scratch, count, sizeof *parted);
  uint32_t *from = hr__arena_array(scratch, count, sizeof *from);
  size_t *parted_offsets = hr__arena_array(scratch, count, sizeof *parted_offsets);
  if (!parted || !from || !parted_offsets) return hr__nomem(err);
  sorted_item *starts;
  HR_TRY(starts_sort(intervals, count, scratch, &starts, err));
  HR_TRY(bound_compute(intervals, count, starts, scratch, &result->lower_bound_bytes, err));
  size_t n_large = crumbs_part(intervals, count, result->lower_bound_bytes / PACK_CRUMB, parted, from);
  hr_packing large, crumbs;
  HR_TRY(hr__pack(parted, n_large, effort, parted_offsets, &large, err));
  HR_TRY(hr__pack(parted + n_large, count - n_large, 0, parted_offsets + n_large, &crumbs, err));
  for (size_t i = 0; i < count; i++)
    offsets[from[i]] = parted_offsets[i] + (i < n_large ? 0 : large.total_bytes);
  result->total_bytes = large.total_bytes + crumbs.total_bytes;
  return HR_OK;
}

hr_status hr__pack_apart(const hr_interval *intervals, size_t count, uint64_t effort, size_t *offsets,
                         hr_packing *result, hr_error *err) {
  hr_arena scratch;
  hr__arena_init(&scratch);
  *result = (hr_packing){0};
  hr_status status = apart_run(intervals, count, effort, &scratch, offsets, result, err);
  hr__arena_fini(&scratch);
  return status;
}
