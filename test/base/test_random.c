/* Random numbers: known answers of Philox, spread of the derived numbers, permutations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/random.h"

/* Vectors published with the algorithm (Random123, kat_vectors, philox4x32 with 10 rounds). */
static void philox_known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], expected[4];
  } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint64_t low = (uint64_t)cases[i].counter[1] << 32 | cases[i].counter[0];
    uint64_t high = (uint64_t)cases[i].counter[3] << 32 | cases[i].counter[2];
    uint64_t key = (uint64_t)cases[i].key[1] << 32 | cases[i].key[0];
    uint32_t word[4];
    hr__philox(key, high, low, word);
    assert_memory_equal(word, cases[i].expected, sizeof word);
    hr_random_block block = hr__random_at((hr_random_key){.seed = key}, high, low);
    assert_memory_equal(block.word, cases[i].expected, sizeof block.word);
  }
}

static void streams_differ(void **state) {
  (void)state;
  assert_int_not_equal(hr__random_stream("data.order"), hr__random_stream("model.norm.weight"));
  assert_int_equal(hr__random_stream("a"), hr__random_stream("a"));
  assert_true(hr__random_stream("") == 0x2d06800538d394c2u); /* XXH3-64 of nothing */
}

static void below_is_even(void **state) {
  (void)state;
  enum { BINS = 7, DRAWS = 70000 };
  size_t hits[BINS] = {0};
  hr_random_key key = {.seed = 3, .stream = hr__random_stream("test")};
  for (uint64_t i = 0; i < DRAWS; i++) {
    uint64_t value = hr__random_below(key, 1, i, BINS);
    assert_true(value < BINS);
    hits[value]++;
  }
  for (int i = 0; i < BINS; i++)
    assert_in_range(hits[i], 9500, 10500); /* 5 standard deviations: 463 */
  assert_int_equal(hr__random_below(key, 1, 1, 1), 0);
}

static void normal_moments(void **state) {
  (void)state;
  enum { DRAWS = 200000 };
  hr_random_key key = {.seed = 11, .stream = hr__random_stream("test")};
  double sum = 0, squares = 0, fourth = 0, pairs = 0;
  float last = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    float value = hr__random_normal(key, 0, i);
    assert_true(isfinite(value));
    double x = value;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    pairs += x * (double)last;
    last = value;
  }
  assert_true(fabs(sum / DRAWS) < 0.012);         /* 5 / sqrt(n) */
  assert_true(fabs(squares / DRAWS - 1) < 0.016); /* 5 sqrt(2 / n) */
  assert_true(fabs(fourth / DRAWS - 3) < 0.11);   /* 5 sqrt(96 / n) */
  assert_true(fabs(pairs / DRAWS) < 0.012);       /* neighbours (cosine and sine of one block) do not correlate */
}

static void permutation_is_bijection(void **state) {
  (void)state;
  hr_random_key key = {.seed = 5, .stream = hr__random_stream("data.order")};
  static const uint64_t sizes[] = {1023, 1024, 1025, 4096, 4097, 50000, 65535, 65537};
  unsigned char *seen = malloc(65537);
  assert_non_null(seen);
  for (uint64_t n = 1; n <= 300; n++) {
    memset(seen, 0, 300);
    for (uint64_t i = 0; i < n; i++) {
      uint64_t at = hr__random_permute(key, n % 5, i, n);
      assert_true(at < n && !seen[at]);
      seen[at] = 1;
    }
  }
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    memset(seen, 0, 65537);
    for (uint64_t i = 0; i < sizes[s]; i++) {
      uint64_t at = hr__random_permute(key, 2, i, sizes[s]);
      assert_true(at < sizes[s] && !seen[at]);
      seen[at] = 1;
    }
  }
  free(seen);
}

static void permutation_is_mixed(void **state) {
  (void)state;
  enum { N = 1000 };
  hr_random_key key = {.seed = 5, .stream = hr__random_stream("data.order")};
  size_t fixed = 0, same = 0, neighbours = 0;
  for (uint64_t i = 0; i < N; i++) {
    uint64_t here = hr__random_permute(key, 0, i, N);
    fixed += here == i;
    same += here == hr__random_permute(key, 1, i, N);
    neighbours += here + 1 == hr__random_permute(key, 0, i + 1 < N ? i + 1 : 0, N);
  }
  /* Each is 1 on average for a random permutation. */
  assert_in_range(fixed, 0, 8);
  assert_in_range(same, 0, 8);
  assert_in_range(neighbours, 0, 8);
  assert_true(hr__random_permute(key, 0, 12345, UINT64_MAX) < UINT64_MAX); /* ends, although half a word is 32 bits */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_known_answers),
      cmocka_unit_test(streams_differ),
      cmocka_unit_test(below_is_even),
      cmocka_unit_test(normal_moments),
      cmocka_unit_test(permutation_is_bijection),
      cmocka_unit_test(permutation_is_mixed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
