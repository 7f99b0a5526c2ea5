/* Bins: every item goes where hr__layout_place puts it, whatever the sizes, lives and styles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/bins.h"

static uint64_t draw(uint64_t set, uint64_t number, uint64_t what, uint64_t below) {
  return hr__random_below((hr_random_key){7, what}, set, number, below);
}

/* Most are alive for a moment, some for a while, few for most of the time; one size in three comes often. */
static hr_interval interval_draw(uint64_t set, uint64_t i, uint32_t moments) {
  static const uint32_t lives[] = {4, 4, 4, 4, 4, 64, 64, UINT32_MAX};
  uint32_t first = (uint32_t)draw(set, i, 0, moments), most = lives[draw(set, i, 1, 8)];
  uint32_t left = moments - first, life = (uint32_t)draw(set, i, 2, most < left ? most : left);
  uint64_t bytes = draw(set, i, 3, 3) ? 1 + draw(set, i, 4, 4) : 1 + draw(set, i, 5, 1000);
  return (hr_interval){first, first + life, 256 * (size_t)bytes};
}

static void set_compare(uint64_t set, size_t count, uint32_t moments, hr_gap_rule rule) {
  hr_arena arena = {0};
  hr_error err;
  hr_interval *items = hr__arena_array(&arena, count, sizeof *items);
  hr_layout plain = {.placed = hr__arena_array(&arena, count, sizeof *plain.placed), .ceiling_bytes = 256000};
  size_t *offsets = hr__arena_array(&arena, count, sizeof *offsets);
  hr_bins bins;
  for (size_t i = 0; i < count; i++)
    items[i] = interval_draw(set, i, moments);
  assert_int_equal(hr__bins_init(&bins, items, count, plain.ceiling_bytes, &arena, &err), HR_OK);
  for (int again = 0; again < 2; again++) { /* cleared, they are as new */
    plain.count = plain.total_bytes = 0;
    hr__bins_clear(&bins);
    for (size_t i = 0; i < count; i++) {
      uint32_t item = (uint32_t)(again ? count - 1 - i : i);
      bool hang = draw(set, item, 6, 3) == 0;
      hr__layout_place(&plain, items, item, rule, hang);
      hr__bins_place(&bins, item, rule, hang);
    }
    assert_int_equal(bins.layout.count, count);
    assert_int_equal(bins.layout.total_bytes, plain.total_bytes);
    for (size_t i = 0; i < count; i++)
      offsets[plain.placed[i].item] = plain.placed[i].offset;
    for (size_t i = 0; i < count; i++)
      assert_int_equal(bins.layout.placed[i].offset, offsets[bins.layout.placed[i].item]);
  }
  hr__arena_fini(&arena);
}

static void test_places_are_those_of_a_plain_layout(void **state) {
  (void)state;
  static const size_t counts[] = {1, 2, 100, 2048, 2049, 5000};
  static const uint32_t moments[] = {1, 50, 3000, 100000, UINT32_MAX};
  uint64_t set = 0;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (size_t m = 0; m < sizeof moments / sizeof *moments; m++)
      for (int rule = 0; rule < HR_GAP_RULE_COUNT; rule++)
        set_compare(set++, counts[c], moments[m], (hr_gap_rule)rule);
}

/* Where everything is alive nearly all the time, bins would hold it all, each: they become few. */
static void test_room_stays_bounded(void **state) {
  (void)state;
  enum { COUNT = 4000, MOMENTS = 100000 };
  hr_arena arena = {0};
  hr_error err;
  hr_interval *items = hr__arena_array(&arena, COUNT, sizeof *items);
  for (uint32_t i = 0; i < COUNT; i++)
    items[i] = (hr_interval){i, MOMENTS + i, 256};
  hr_bins bins;
  assert_int_equal(hr__bins_init(&bins, items, COUNT, 0, &arena, &err), HR_OK);
  assert_true(bins.first[bins.n_bins] <= 8 * COUNT);
  hr__arena_fini(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places_are_those_of_a_plain_layout),
      cmocka_unit_test(test_room_stays_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
