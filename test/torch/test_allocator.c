/* The simulated caching allocator: each rule by a case made by hand, and random requests against a model that keeps
 * plain lists and looks at everything (part_plain.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "part_plain.h"
#include "torch/allocator.h"

static const uint64_t KIB = 1 << 10, MIB = 1 << 20;

typedef struct fixture {
  hr_torch_rules rules;
  hr_torch_allocator allocator;
} fixture;

static int setup(void **state) {
  static fixture f;
  hr__torch_rules_init(&f.rules);
  hr__torch_allocator_init(&f.allocator, &f.rules);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__torch_allocator_fini(&f->allocator);
  return 0;
}

/* From here on with other rules. */
static void begin(fixture *f) {
  hr__torch_allocator_fini(&f->allocator);
  hr__torch_allocator_init(&f->allocator, &f->rules);
}

static uint32_t take(fixture *f, uint64_t bytes) {
  uint32_t block;
  assert_int_equal(hr__torch_take(&f->allocator, bytes, 0, &block), HR_OK);
  return block;
}

static void expect(const fixture *f, uint64_t allocated, uint64_t reserved) {
  assert_int_equal(f->allocator.now.allocated_bytes, allocated);
  assert_int_equal(f->allocator.now.reserved_bytes, reserved);
}

static void test_requests_are_rounded_to_512(void **state) {
  fixture *f = *state;
  assert_int_equal(take(f, 0), HR_TORCH_NO_BLOCK);
  expect(f, 0, 0);
  take(f, 1);
  expect(f, 512, 2 * MIB);
  take(f, 513);
  expect(f, 512 + 1024, 2 * MIB);
  assert_int_equal(f->allocator.now.requested_bytes, 514);
}

static void test_segments_are_by_size(void **state) {
  static const uint64_t cases[][2] = {{1, 2},          {1024, 2},           {1025, 20},           {10 * 1024 - 1, 20},
                                      {10 * 1024, 10}, {10 * 1024 + 1, 12}, {100 * 1024 + 1, 102}};
  fixture *f = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin(f);
    take(f, cases[i][0] * KIB);
    assert_int_equal(f->allocator.now.reserved_bytes, cases[i][1] * MIB);
  }
}

static void test_small_and_large_never_mix(void **state) {
  fixture *f = *state;
  hr__torch_give(&f->allocator, take(f, 100 * MIB));
  take(f, 1 * MIB);
  expect(f, 1 * MIB, 102 * MIB);
}

static void test_a_large_rest_up_to_1_mib_is_not_cut_off(void **state) {
  fixture *f = *state;
  hr__torch_give(&f->allocator, take(f, 12 * MIB));
  uint32_t block = take(f, 11 * MIB);
  expect(f, 12 * MIB, 12 * MIB); /* the block counts, not the request */
  assert_int_equal(f->allocator.now.requested_bytes, 11 * MIB);
  hr__torch_give(&f->allocator, block);
  take(f, 11 * MIB - 512);
  expect(f, 11 * MIB - 512, 12 * MIB);
}

static void test_best_fit(void **state) {
  fixture *f = *state;
  uint32_t large = take(f, 100 * MIB), fitting = take(f, 40 * MIB), other = take(f, 60 * MIB);
  hr__torch_give(&f->allocator, large);
  hr__torch_give(&f->allocator, other);
  hr__torch_give(&f->allocator, fitting);
  take(f, 39 * MIB); /* whole, since 1 MiB is left */
  expect(f, 40 * MIB, 200 * MIB);
  take(f, 60 * MIB);
  take(f, 100 * MIB);
  expect(f, 200 * MIB, 200 * MIB);
}

/* Of equal blocks of two segments, that at the lower address is taken: the later segment's where addresses fall. */
static void test_ties_go_to_the_lowest_address(void **state) {
  fixture *f = *state;
  for (int rising = 0; rising < 2; rising++) {
    f->rules.order = rising ? HR_TORCH_RISING : HR_TORCH_FALLING;
    begin(f);
    uint32_t first = take(f, 30 * MIB), second = take(f, 30 * MIB);
    hr__torch_give(&f->allocator, first);
    hr__torch_give(&f->allocator, second);
    assert_int_equal(take(f, 30 * MIB), rising ? first : second);
  }
}

static void test_neighbours_join(void **state) {
  fixture *f = *state;
  uint32_t a = take(f, 5 * MIB), b = take(f, 5 * MIB), c = take(f, 5 * MIB);
  expect(f, 15 * MIB, 20 * MIB);
  hr__torch_give(&f->allocator, a);
  hr__torch_give(&f->allocator, c);
  take(f, 6 * MIB); /* c and the rest behind it */
  expect(f, 11 * MIB, 20 * MIB);
  hr__torch_give(&f->allocator, b);
  take(f, 9 * MIB); /* a and b are one: 10 MiB, of which 1 is left and stays with it */
  expect(f, 16 * MIB, 20 * MIB);
}

static void test_streams_have_blocks_of_their_own(void **state) {
  fixture *f = *state;
  uint32_t block;
  hr__torch_give(&f->allocator, take(f, 30 * MIB));
  assert_int_equal(hr__torch_take(&f->allocator, 30 * MIB, 1, &block), HR_OK);
  expect(f, 30 * MIB, 60 * MIB);
}

static void test_empty_cache_gives_back_whole_segments(void **state) {
  fixture *f = *state;
  uint32_t whole = take(f, 30 * MIB), part = take(f, 5 * MIB);
  take(f, 5 * MIB);
  hr__torch_give(&f->allocator, whole);
  hr__torch_give(&f->allocator, part);
  assert_int_equal(hr__torch_empty_cache(&f->allocator), HR_OK);
  expect(f, 5 * MIB, 20 * MIB);
  assert_int_equal(f->allocator.peak.reserved_bytes, 50 * MIB);
}

/* At the limit cached segments go back first; only then is it out of memory. */
static void test_out_of_memory(void **state) {
  fixture *f = *state;
  f->rules.limit_bytes = 100 * MIB;
  begin(f);
  uint32_t cached = take(f, 60 * MIB), block;
  hr__torch_give(&f->allocator, cached);
  take(f, 70 * MIB);
  expect(f, 70 * MIB, 70 * MIB);
  assert_int_equal(f->allocator.retries, 1);
  assert_int_equal(hr__torch_take(&f->allocator, 31 * MIB, 0, &block), HR_NO_FIT);
  assert_int_equal(f->allocator.failed_bytes, 32 * MIB);
  take(f, 30 * MIB);
  expect(f, 100 * MIB, 100 * MIB);
}

static void test_roundup_power2_divisions(void **state) {
  fixture *f = *state;
  for (int i = 0; i < HR_TORCH_ROUNDINGS; i++)
    f->rules.divisions[i] = 4;
  assert_int_equal(hr__torch_round(&f->rules, 1200), 1536); /* at most four times 512: as ever */
  assert_int_equal(hr__torch_round(&f->rules, 2048), 2048);
  assert_int_equal(hr__torch_round(&f->rules, 2049), 2560); /* 2048 to 4096 in steps of 512 */
  assert_int_equal(hr__torch_round(&f->rules, 1200 * MIB), 1280 * MIB);
  f->rules.divisions[10] = 0; /* sizes from 1 GiB */
  assert_int_equal(hr__torch_round(&f->rules, 1200 * MIB), 1200 * MIB);
  assert_int_equal(hr__torch_round(&f->rules, 1000 * MIB), 1024 * MIB);
}

static void test_max_split_size(void **state) {
  fixture *f = *state;
  f->rules.max_split_bytes = 100 * MIB;
  f->rules.limit_bytes = 600 * MIB;
  begin(f);
  uint32_t a = take(f, 200 * MIB), b = take(f, 160 * MIB);
  hr__torch_give(&f->allocator, a);
  hr__torch_give(&f->allocator, b);
  take(f, 50 * MIB); /* an oversize block does not serve it */
  expect(f, 50 * MIB, 410 * MIB);
  uint32_t c = take(f, 150 * MIB); /* one of 160 serves it, uncut */
  expect(f, 210 * MIB, 410 * MIB);
  hr__torch_give(&f->allocator, c);
  take(f, 120 * MIB); /* 160 would waste 20 MiB or more */
  expect(f, 170 * MIB, 530 * MIB);
  take(f, 100 * MIB); /* no room: as many oversize blocks as it needs go back, here the least that is large enough */
  expect(f, 270 * MIB, 470 * MIB);
}

static void test_garbage_collection(void **state) {
  fixture *f = *state;
  f->rules.limit_bytes = 1000 * MIB;
  f->rules.collect_above = 0.5;
  f->rules.fraction = true;
  begin(f);
  uint32_t old = take(f, 300 * MIB), kept = take(f, 250 * MIB);
  hr__torch_give(&f->allocator, old);
  hr__torch_give(&f->allocator, kept);
  hr__torch_give(&f->allocator, take(f, 200 * MIB)); /* out of the 250, which are younger now */
  expect(f, 0, 550 * MIB);
  take(f, 310 * MIB); /* above 500 MiB before it: the older one goes */
  expect(f, 310 * MIB, 560 * MIB);
}

/* Pages are mapped at the end of what is there; a rest of 512 bytes is cut off in the large pool as well. */
static void test_expandable_segments(void **state) {
  fixture *f = *state;
  f->rules.expandable = true;
  begin(f);
  uint32_t a = take(f, 30 * MIB);
  expect(f, 30 * MIB, 40 * MIB);
  uint32_t b = take(f, 15 * MIB); /* 10 MiB are there, one page more */
  expect(f, 45 * MIB, 60 * MIB);
  hr__torch_give(&f->allocator, a);
  uint32_t c = take(f, 30 * MIB - 512);
  expect(f, 45 * MIB - 512, 60 * MIB);
  hr__torch_give(&f->allocator, c);
  assert_int_equal(hr__torch_empty_cache(&f->allocator), HR_OK); /* pages 20..60 hold b: 30..45 */
  expect(f, 15 * MIB, 40 * MIB);
  take(f, 25 * MIB); /* 0..20 is unmapped with 10 free behind it: it fits there, by one page */
  expect(f, 40 * MIB, 60 * MIB);
  hr__torch_give(&f->allocator, b);
  take(f, 1);
  expect(f, 25 * MIB + 512, 62 * MIB); /* the small pool has a segment of its own, by pages of 2 MiB */
}

static void test_expandable_segments_at_the_limit(void **state) {
  fixture *f = *state;
  uint32_t block;
  f->rules.expandable = true;
  f->rules.limit_bytes = 100 * MIB;
  begin(f);
  uint32_t a = take(f, 60 * MIB);
  take(f, 10 * MIB);
  hr__torch_give(&f->allocator, a);
  take(f, 75 * MIB); /* 80 reserved; the first 60 go back and are mapped behind */
  expect(f, 85 * MIB, 100 * MIB);
  assert_int_equal(hr__torch_take(&f->allocator, 20 * MIB, 0, &block), HR_NO_FIT);
}

/* Random requests, against the plain model, under all kinds of rules. */

typedef struct held {
  uint32_t block;
  int plain;
} held;

static uint64_t draw(uint64_t set, uint64_t number, uint64_t what, uint64_t below) {
  return hr__random_below((hr_random_key){18, what}, set, number, below);
}

static hr_torch_rules rules_draw(uint64_t set) {
  hr_torch_rules rules;
  hr__torch_rules_init(&rules);
  rules.expandable = set % 3 == 1;
  rules.order = (hr_torch_order)draw(set, 0, 1, 3);
  if (draw(set, 0, 2, 2)) rules.limit_bytes = (200 + draw(set, 0, 3, 2000)) * MIB;
  rules.fraction = rules.limit_bytes != UINT64_MAX && draw(set, 0, 4, 2);
  if (!rules.expandable && draw(set, 0, 5, 3) == 0) rules.max_split_bytes = (21 + draw(set, 0, 6, 200)) * MIB;
  if (draw(set, 0, 7, 3) == 0) rules.collect_above = 0.1 + 0.1 * (double)draw(set, 0, 8, 9);
  if (draw(set, 0, 9, 4) == 0)
    for (int i = 0; i < HR_TORCH_ROUNDINGS; i++)
      rules.divisions[i] = (uint8_t)(1 << draw(set, (uint64_t)i, 10, 4));
  if (draw(set, 0, 11, 4) == 0) rules.large_segment_bytes = (10 + 2 * draw(set, 0, 12, 20)) * MIB;
  return rules;
}

/* Many small ones, some that come again and again, some of any size. */
static uint64_t bytes_draw(uint64_t set, uint64_t i) {
  switch (draw(set, i, 20, 5)) {
  case 0:
    return draw(set, i, 21, 4 * KIB);
  case 1:
    return draw(set, i, 22, 2 * MIB);
  case 2:
    return (1 + draw(set, i, 23, 8)) * 4 * MIB;
  case 3:
    return draw(set, i, 24, 24 * MIB);
  default:
    return draw(set, i, 25, 150 * MIB);
  }
}

static void same(const hr_torch_allocator *allocator, const plain *model) {
  assert_int_equal(allocator->now.allocated_bytes, model->allocated);
  assert_int_equal(allocator->now.reserved_bytes, model->reserved);
}

static void set_compare(uint64_t set, size_t events) {
  hr_torch_rules rules = rules_draw(set);
  hr_torch_allocator allocator;
  plain *model = plain_create(&rules);
  held live[400];
  size_t n_live = 0;
  hr__torch_allocator_init(&allocator, &rules);
  for (uint64_t i = 0; i < events; i++) {
    if (draw(set, i, 30, 200) == 0) {
      assert_int_equal(hr__torch_empty_cache(&allocator), HR_OK);
      plain_empty(model);
    } else if (n_live == 400 || (n_live > 0 && draw(set, i, 31, 100) < (i / 500 % 2 ? 60 : 40))) {
      size_t gone = draw(set, i, 32, n_live);
      hr__torch_give(&allocator, live[gone].block);
      plain_give(model, live[gone].plain);
      live[gone] = live[--n_live];
    } else {
      held *next = &live[n_live];
      uint64_t bytes = bytes_draw(set, i);
      uint8_t stream = (uint8_t)(draw(set, i, 33, 20) == 0);
      hr_status status = hr__torch_take(&allocator, bytes, stream, &next->block);
      next->plain = plain_take(model, bytes, stream);
      assert_int_equal(status, next->plain == PLAIN_FULL ? HR_NO_FIT : HR_OK);
      if (status == HR_OK) {
        n_live++;
        assert_int_equal(hr__torch_block_bytes(&allocator, next->block), plain_bytes(model, next->plain));
      }
    }
    same(&allocator, model);
  }
  hr__torch_allocator_fini(&allocator);
  plain_destroy(model);
}

static void test_random_requests_go_as_in_the_plain_model(void **state) {
  (void)state;
  for (uint64_t set = 0; set < 120; set++)
    set_compare(set, 1500);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_requests_are_rounded_to_512),
      CASE(test_segments_are_by_size),
      CASE(test_small_and_large_never_mix),
      CASE(test_a_large_rest_up_to_1_mib_is_not_cut_off),
      CASE(test_best_fit),
      CASE(test_ties_go_to_the_lowest_address),
      CASE(test_neighbours_join),
      CASE(test_streams_have_blocks_of_their_own),
      CASE(test_empty_cache_gives_back_whole_segments),
      CASE(test_out_of_memory),
      CASE(test_roundup_power2_divisions),
      CASE(test_max_split_size),
      CASE(test_garbage_collection),
      CASE(test_expandable_segments),
      CASE(test_expandable_segments_at_the_limit),
      cmocka_unit_test(test_random_requests_go_as_in_the_plain_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
