/* chain: the solver against all combinations, many blocks, and seconds over budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fit/chain.h"

static uint64_t pick(uint64_t below) {
  return (uint64_t)rand() % below;
}

static void block_random(hr_chain_block *block) {
  block->n_variants = 1 + (int)pick(HR_CHAIN_VARIANTS);
  for (int v = 0; v < block->n_variants; v++)
    block->variants[v] = (hr_chain_variant){
        .kept_bytes = pick(40), .work_bytes = pick(90), .forward_bytes = pick(90), .seconds = 0.25 * (double)pick(30)};
}

/* Peak and seconds of one combination, straight from the definition. */
static uint64_t chain_peak(const hr_chain_block *blocks, size_t n, uint64_t tail, const uint8_t *choice,
                           double *seconds) {
  uint64_t kept = 0, peak = 0;
  *seconds = 0;
  for (size_t i = 0; i < n; i++) {
    const hr_chain_variant *v = &blocks[i].variants[choice[i]];
    if (kept + v->work_bytes > peak) peak = kept + v->work_bytes;
    if (kept + v->forward_bytes > peak) peak = kept + v->forward_bytes;
    kept += v->kept_bytes;
    *seconds += v->seconds;
  }
  return kept + tail > peak ? kept + tail : peak;
}

static void test_equals_all_combinations(void **state) {
  (void)state;
  enum { TOP = 8 * 40 + 200 };
  srand(11);
  for (int round = 0; round < 1000; round++) {
    hr_chain_block blocks[8];
    size_t n = 1 + pick(8);
    uint64_t tail = pick(60);
    for (size_t i = 0; i < n; i++)
      block_random(&blocks[i]);
    double best[TOP]; /* per budget */
    for (int b = 0; b < TOP; b++)
      best[b] = -1;
    uint8_t choice[8] = {0};
    for (size_t at = 0; at < n;) {
      double seconds;
      uint64_t peak = chain_peak(blocks, n, tail, choice, &seconds);
      for (uint64_t b = peak; b < TOP && (best[b] < 0 || seconds < best[b]); b++)
        best[b] = seconds;
      for (at = 0; at < n && ++choice[at] == blocks[at].n_variants; at++)
        choice[at] = 0;
    }
    hr_arena arena = {0};
    hr_chain chain;
    hr_error err = {0};
    assert_int_equal(hr__chain_solve(blocks, n, tail, &arena, &chain, &err), HR_OK);
    for (uint64_t b = 0; b < TOP; b++) {
      size_t e = 0;
      while (e < chain.n_entries && chain.entries[e].peak_bytes > b)
        e++;
      double found = -1;
      if (e < chain.n_entries) {
        uint8_t variants[8];
        hr__chain_choice(&chain, e, variants);
        assert_int_equal(chain_peak(blocks, n, tail, variants, &found), chain.entries[e].peak_bytes);
        assert_true(found == chain.entries[e].seconds);
      }
      assert_true(found == best[b]);
    }
    hr__arena_fini(&arena);
  }
}

static double seconds_solve(const hr_chain_block *blocks, size_t n, hr_arena *arena, hr_chain *chain) {
  hr_error err = {0};
  struct timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  assert_int_equal(hr__chain_solve(blocks, n, 1 << 20, arena, chain, &err), HR_OK);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* Blocks alike, and blocks all different, where peaks are rounded up. */
static void test_eighty_blocks(void **state) {
  (void)state;
  enum { N = 80 };
  for (int different = 0; different < 2; different++) {
    hr_chain_block blocks[N];
    srand(5);
    for (size_t i = 0; i < N; i++) {
      uint64_t unit = 1000003 + (different ? pick(1000000) : 0);
      blocks[i] =
          (hr_chain_block){.variants = {{296 * unit, 320 * unit, 330 * unit, 1.0},
                                        {200 * unit, 330 * unit, 330 * unit, 1.03 + 1e-6 * (double)(unit % 1009)},
                                        {16 * unit, 390 * unit, 330 * unit, 1.31 + 1e-6 * (double)(unit % 2003)}},
                           .n_variants = 3};
    }
    hr_arena arena = {0};
    hr_chain chain;
    double took = seconds_solve(blocks, N, &arena, &chain);
    print_message("80 blocks%s: %zu answers in %.3f s\n", different ? ", all different" : "", chain.n_entries, took);
#if defined(NDEBUG) && !defined(HR_ASAN)
    assert_true(took <= 0.2);
#endif
    assert_true(took <= 0.4); /* with assertions and sanitizers too */
    assert_true(chain.n_entries > 100);
    uint64_t most = chain.entries[0].peak_bytes, least = chain.entries[chain.n_entries - 1].peak_bytes;
    double before = -1;
    for (uint64_t k = 0; k < 40; k++) { /* seconds never rise with the budget, and the peak is really within it */
      uint64_t budget = least + (most - least) * k / 39;
      size_t e = 0;
      while (chain.entries[e].peak_bytes > budget)
        e++;
      uint8_t variants[N];
      double seconds;
      hr__chain_choice(&chain, e, variants);
      assert_true(chain_peak(blocks, N, 1 << 20, variants, &seconds) <= budget);
      assert_true(k == 0 || chain.entries[e].seconds <= before);
      before = chain.entries[e].seconds;
    }
    hr__arena_fini(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_all_combinations),
      cmocka_unit_test(test_eighty_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
