/* Packing: exact offsets of hand-drawn sets, brute force on small random sets, independent overlap check on large ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/pack.h"

static const uint64_t effort = 200000;

static uint64_t draw(uint64_t set, uint64_t number, uint64_t below) {
  return hr__random_below((hr_random_key){7, hr__random_stream("test.pack")}, set, number, below);
}

static bool meet(const hr_interval *a, const hr_interval *b) {
  return a->first <= b->last && b->first <= a->last;
}

static size_t live_bound(const hr_interval *items, size_t count) {
  size_t most = 0;
  for (size_t i = 0; i < count; i++) {
    size_t live = 0;
    for (size_t j = 0; j < count; j++)
      if (items[j].first <= items[i].first && items[i].first <= items[j].last) live += items[j].bytes;
    if (live > most) most = live;
  }
  return most;
}

/* Checks from outside: nothing overlaps, the totals are what they say. */
static void packing_check(const hr_interval *items, size_t count, const size_t *offsets, hr_packing packing) {
  size_t top = 0;
  for (size_t i = 0; i < count; i++) {
    if (offsets[i] + items[i].bytes > top) top = offsets[i] + items[i].bytes;
    for (size_t j = 0; j < i; j++) {
      if (!meet(&items[i], &items[j])) continue;
      assert_true(offsets[i] + items[i].bytes <= offsets[j] || offsets[j] + items[j].bytes <= offsets[i]);
    }
  }
  assert_int_equal(packing.total_bytes, top);
  assert_int_equal(packing.lower_bound_bytes, live_bound(items, count));
}

static size_t pack_checked(const hr_interval *items, size_t count, size_t *offsets) {
  hr_packing packing;
  hr_error err = {0};
  assert_int_equal(hr__pack(items, count, effort, offsets, &packing, &err), HR_OK);
  packing_check(items, count, offsets, packing);
  return packing.total_bytes;
}

static void hand_drawn_offsets(void **state) {
  (void)state;
  size_t offsets[4];
  /* alone */
  assert_int_equal(pack_checked((hr_interval[]){{3, 5, 64}}, 1, offsets), 64);
  assert_int_equal(offsets[0], 0);
  /* one after the other: the same place */
  assert_int_equal(pack_checked((hr_interval[]){{0, 1, 64}, {2, 3, 128}}, 2, offsets), 128);
  assert_int_equal(offsets[0], 0);
  assert_int_equal(offsets[1], 0);
  /* meeting in one moment: stacked, larger below */
  assert_int_equal(pack_checked((hr_interval[]){{0, 2, 64}, {2, 3, 128}}, 2, offsets), 192);
  assert_int_equal(offsets[0], 128);
  assert_int_equal(offsets[1], 0);
  /* a chain x -> y -> z: z takes the place of x */
  assert_int_equal(pack_checked((hr_interval[]){{0, 1, 128}, {1, 2, 64}, {2, 3, 128}}, 3, offsets), 192);
  assert_int_equal(offsets[0], 0);
  assert_int_equal(offsets[1], 128);
  assert_int_equal(offsets[2], 0);
  /* the tightest gap: 64 goes into the gap of 64 above, not into the one of 128 below */
  hr_interval gaps[] = {{0, 9, 512}, {4, 5, 64}};
  assert_int_equal(pack_checked(gaps, 2, offsets), 576);
  assert_int_equal(offsets[1], 512);
}

static void nothing_to_pack(void **state) {
  (void)state;
  hr_packing packing = {1, 1};
  hr_error err = {0};
  assert_int_equal(hr__pack(NULL, 0, effort, NULL, &packing, &err), HR_OK);
  assert_int_equal(packing.total_bytes, 0);
  assert_int_equal(packing.lower_bound_bytes, 0);
}

static void sums_that_overflow_are_refused(void **state) {
  (void)state;
  size_t offsets[2];
  hr_packing packing;
  hr_error err = {0};
  hr_interval items[] = {{0, 1, SIZE_MAX - 63}, {0, 1, 128}};
  assert_int_equal(hr__pack(items, 2, effort, offsets, &packing, &err), HR_BAD_INPUT);
}

/* Every order of placing, each interval on the skyline of those placed before: the best of all layouts is among them,
 * since in some best layout each interval rests on the floor or on another one. */
static void brute_force(const hr_interval *items, size_t count, uint32_t placed, size_t *offsets, size_t top,
                        size_t *best) {
  if (placed == (1u << count) - 1) {
    if (top < *best) *best = top;
    return;
  }
  for (size_t i = 0; i < count; i++) {
    if (placed & (1u << i)) continue;
    size_t offset = 0;
    for (size_t j = 0; j < count; j++) {
      if (!(placed & (1u << j)) || !meet(&items[i], &items[j])) continue;
      if (offsets[j] + items[j].bytes > offset) offset = offsets[j] + items[j].bytes;
    }
    offsets[i] = offset;
    size_t higher = offset + items[i].bytes > top ? offset + items[i].bytes : top;
    brute_force(items, count, placed | (1u << i), offsets, higher, best);
  }
}

/* On the skyline in the order given: what a packer without search would do. */
static size_t skyline_total(const hr_interval *items, size_t count, size_t *offsets) {
  size_t total = 0;
  for (size_t i = 0; i < count; i++) {
    offsets[i] = 0;
    for (size_t j = 0; j < i; j++)
      if (meet(&items[i], &items[j]) && offsets[j] + items[j].bytes > offsets[i])
        offsets[i] = offsets[j] + items[j].bytes;
    if (offsets[i] + items[i].bytes > total) total = offsets[i] + items[i].bytes;
  }
  return total;
}

static void small_sets_equal_brute_force(void **state) {
  (void)state;
  int not_trivial = 0;
  for (uint64_t set = 0; set < 400; set++) {
    hr_interval items[8];
    size_t count = set < 25 ? 8 : 2 + draw(set, 0, 6), offsets[8], best = SIZE_MAX;
    uint64_t moments = 3 + draw(set, 1, 10);
    for (size_t i = 0; i < count; i++) {
      uint32_t a = (uint32_t)draw(set, 10 + 4 * i, moments), b = (uint32_t)draw(set, 11 + 4 * i, moments);
      items[i] = (hr_interval){a < b ? a : b, a < b ? b : a, 64 * (1 + draw(set, 12 + 4 * i, 12))};
    }
    brute_force(items, count, 0, offsets, 0, &best);
    size_t total = pack_checked(items, count, offsets);
    assert_int_equal(total, best);
    not_trivial += skyline_total(items, count, offsets) > best;
  }
  assert_true(not_trivial > 50);
}

/* A training step as intervals: what forward leaves is taken up in reverse order, with scratch along the way. */
static size_t step_intervals(uint64_t set, size_t layers, hr_interval *items) {
  size_t count = 0;
  uint32_t end = (uint32_t)(layers * 8);
  for (uint32_t l = 0; l < layers; l++) {
    for (uint32_t k = 0; k < 3; k++) { /* kept for backward */
      uint32_t at = l * 4 + k;
      items[count] = (hr_interval){at, end - at, 64 * (1 + draw(set, count, 500))};
      count++;
    }
    items[count] = (hr_interval){l * 4, l * 4 + 1, 64 * (1 + draw(set, count, 2000))};
    count++;
    items[count] = (hr_interval){end - l * 4 - 1, end - l * 4, 64 * (1 + draw(set, count, 2000))};
    count++;
    /* a gradient */
    items[count] = (hr_interval){end - l * 4 - 2, end, 64 * (1 + draw(set, count, 100))};
    count++;
  }
  return count;
}

static void large_sets_meet_the_bound_quickly(void **state) {
  (void)state;
  static hr_interval items[3000];
  static size_t offsets[3000], again[3000];
  clock_t begin = clock();
  for (uint64_t set = 0; set < 5; set++) {
    size_t count = step_intervals(set, set == 0 ? 500 : 40, items);
    size_t total = pack_checked(items, count, offsets);
    assert_true((double)total <= 1.01 * (double)live_bound(items, count));
    hr_packing packing;
    hr_error err = {0};
    assert_int_equal(hr__pack(items, count, effort, again, &packing, &err), HR_OK);
    assert_memory_equal(offsets, again, count * sizeof *offsets);
  }
  assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 20); /* a runaway, also under a sanitizer */
}

/* Random sets without structure: a layout always comes out, within the effort. */
static void shapeless_sets_are_packed(void **state) {
  (void)state;
  static hr_interval items[400];
  static size_t offsets[400];
  for (uint64_t set = 0; set < 20; set++) {
    size_t count = 9 + draw(set, 1, 390);
    for (size_t i = 0; i < count; i++) {
      uint32_t first = (uint32_t)draw(set, 10 + 3 * i, 300);
      items[i] =
          (hr_interval){first, first + (uint32_t)draw(set, 11 + 3 * i, 60), 64 * (1 + draw(set, 12 + 3 * i, 300))};
    }
    size_t total = pack_checked(items, count, offsets);
    assert_true((double)total <= 1.35 * (double)live_bound(items, count));
  }
}

/* Crumbs of 64 bytes among blocks of a thousand times as much: they lie above all blocks, and reuse each other's
 * bytes. Without crumbs the layout is the plain one. */
static void crumbs_lie_apart(void **state) {
  (void)state;
  hr_interval items[] = {{0, 3, 64}, {0, 1, 65536}, {1, 2, 131072}, {2, 3, 65536},
                         {4, 5, 64}, {4, 4, 65536}, {3, 5, 64}};
  enum { COUNT = sizeof items / sizeof *items };
  size_t offsets[COUNT], plain[COUNT];
  hr_packing packing;
  hr_error err = {0};
  assert_int_equal(hr__pack_apart(items, COUNT, effort, offsets, &packing, &err), HR_OK);
  packing_check(items, COUNT, offsets, packing);
  assert_int_equal(packing.total_bytes, 65536 + 131072 + 2 * 64);
  for (size_t i = 0; i < COUNT; i++)
    assert_int_equal(offsets[i] >= 65536 + 131072, items[i].bytes == 64);

  assert_int_equal(hr__pack_apart(items + 1, 3, effort, offsets, &packing, &err), HR_OK);
  assert_int_equal(packing.total_bytes, pack_checked(items + 1, 3, plain));
  assert_memory_equal(offsets, plain, 3 * sizeof *plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hand_drawn_offsets),
      cmocka_unit_test(nothing_to_pack),
      cmocka_unit_test(sums_that_overflow_are_refused),
      cmocka_unit_test(small_sets_equal_brute_force),
      cmocka_unit_test(large_sets_meet_the_bound_quickly),
      cmocka_unit_test(shapeless_sets_are_packed),
      cmocka_unit_test(crumbs_lie_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
