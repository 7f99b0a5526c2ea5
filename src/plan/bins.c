/* bins: see bins.h. */
#include "plan/bins.h"

#include <stdlib.h>
#include <string.h>

enum {
  FEW = 2048,    /* items that one bin is for */
  PER_BIN = 8,   /* of more: items for a bin, at least */
  BINS_EACH = 8, /* bins that an item meets, on average at most: the room they take */
  SORT_COST = 32 /* of an item that is put in order, in items that are walked over */
};

static size_t bin_of(const hr_bins *b, uint32_t moment) {
  return (moment - b->begin) / b->width;
}

/* Items times the bins that each meets. */
static size_t entries_count(const hr_bins *b) {
  size_t entries = 0;
  for (size_t i = 0; i < b->count; i++)
    entries += bin_of(b, b->items[i].last) - bin_of(b, b->items[i].first) + 1;
  return entries;
}

/* As many bins as the room for their items allows. */
static size_t bins_cut(hr_bins *b) {
  uint32_t end = 0;
  b->begin = UINT32_MAX;
  for (size_t i = 0; i < b->count; i++) {
    if (b->items[i].first < b->begin) b->begin = b->items[i].first;
    if (b->items[i].last > end) end = b->items[i].last;
  }
  uint64_t moments = (uint64_t)end - b->begin + 1, bins = b->count <= FEW ? 1 : b->count / PER_BIN;
  uint64_t width = (moments + bins - 1) / bins;
  b->width = width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
  size_t entries = entries_count(b);
  while (entries > BINS_EACH * b->count && b->width < moments) {
    b->width = b->width <= UINT32_MAX / 2 ? b->width * 2 : UINT32_MAX;
    entries = entries_count(b);
  }
  b->n_bins = bin_of(b, end) + 1;
  return entries;
}

hr_status hr__bins_init(hr_bins *b, const hr_interval *items, size_t count, size_t ceiling_bytes, hr_arena *arena,
                        hr_error *err) {
  *b = (hr_bins){.items = items, .count = count, .layout.ceiling_bytes = ceiling_bytes};
  size_t entries = bins_cut(b);
  b->layout.placed = hr__arena_room(arena, count, sizeof *b->layout.placed);
  b->placed = hr__arena_room(arena, entries, sizeof *b->placed);
  b->near = hr__arena_room(arena, count, sizeof *b->near);
  b->first = hr__arena_array(arena, b->n_bins + 1, sizeof *b->first);
  b->taken = hr__arena_array(arena, b->n_bins, sizeof *b->taken);
  if (!b->layout.placed || !b->placed || !b->near || !b->first || !b->taken) return hr__nomem(err);
  for (size_t i = 0; i < count; i++)
    for (size_t bin = bin_of(b, items[i].first); bin <= bin_of(b, items[i].last); bin++)
      b->first[bin + 1]++;
  for (size_t bin = 0; bin < b->n_bins; bin++)
    b->first[bin + 1] += b->first[bin];
  return HR_OK;
}

void hr__bins_clear(hr_bins *b) {
  b->layout.count = b->layout.total_bytes = b->n_sorted = 0;
  memset(b->taken, 0, b->n_bins * sizeof *b->taken);
}

static int placed_compare(const void *a, const void *b) {
  const hr_placed *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

/* Brings what was placed since the last time into its order: sorted by itself, then merged from behind. */
static void layout_sort(hr_bins *b) {
  hr_placed *all = b->layout.placed;
  size_t fresh = b->layout.count - b->n_sorted, old = b->n_sorted, at = b->layout.count;
  if (fresh == 0) return;
  memcpy(b->near, all + b->n_sorted, fresh * sizeof *all);
  qsort(b->near, fresh, sizeof *all, placed_compare);
  while (fresh > 0) {
    bool keep = old > 0 && placed_compare(&all[old - 1], &b->near[fresh - 1]) > 0;
    all[--at] = keep ? all[--old] : b->near[--fresh];
  }
  b->n_sorted = b->layout.count;
}

/* Merges what begins in a bin, from behind, into what those before it hold together. */
static void bin_merge(hr_bins *b, size_t bin, hr_layout *found) {
  const hr_placed *own = b->placed + b->first[bin];
  const uint32_t begin = b->begin + (uint32_t)bin * b->width;
  size_t fresh = 0, old = found->count;
  for (size_t i = 0; i < b->taken[bin]; i++)
    fresh += own[i].first >= begin;
  found->count += fresh;
  for (size_t at = found->count, i = b->taken[bin]; fresh > 0;) {
    if (own[i - 1].first < begin) {
      i--; /* it is there from the bin in which it begins */
    } else if (old > 0 && b->near[old - 1].offset > own[i - 1].offset) {
      b->near[--at] = b->near[--old];
    } else {
      b->near[--at] = own[--i];
      fresh--;
    }
  }
}

/* What the interval may meet, by rising offset. */
static hr_layout neighbours(hr_bins *b, const hr_interval *interval) {
  size_t from = bin_of(b, interval->first), last = bin_of(b, interval->last), sum = 0;
  hr_layout found = {.ceiling_bytes = b->layout.ceiling_bytes};
  if (from == last) {
    found.placed = b->placed + b->first[from];
    found.count = b->taken[from];
    return found;
  }
  for (size_t bin = from; bin <= last && sum * SORT_COST <= b->layout.count; bin++)
    sum += b->taken[bin];
  if (sum * SORT_COST > b->layout.count) {
    layout_sort(b);
    return b->layout;
  }
  memcpy(b->near, b->placed + b->first[from], b->taken[from] * sizeof *b->near);
  found.count = b->taken[from];
  for (size_t bin = from + 1; bin <= last; bin++)
    bin_merge(b, bin, &found);
  found.placed = b->near;
  return found;
}

void hr__bins_place(hr_bins *b, uint32_t item, hr_gap_rule rule, bool hang) {
  const hr_interval *interval = &b->items[item];
  hr_layout found = neighbours(b, interval);
  size_t offset = hr__layout_offset(&found, interval, rule, hang), top = offset + interval->bytes;
  const hr_placed placed = {offset, top, interval->first, interval->last, item};
  for (size_t bin = bin_of(b, interval->first); bin <= bin_of(b, interval->last); bin++)
    hr__placed_insert(b->placed + b->first[bin], b->taken[bin]++, &placed);
  b->layout.placed[b->layout.count++] = placed;
  if (top > b->layout.total_bytes) b->layout.total_bytes = top;
}
