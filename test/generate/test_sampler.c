/* Sampling against a plain reference: what is kept, and how often it is drawn. */
#include "generate/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { VOCABULARY = 50, DRAWS = 40000 };

static void logits_make(float *logits) {
  for (int i = 0; i < VOCABULARY; i++)
    logits[i] = (float)((i * 37 + 11) % VOCABULARY) * 0.13f - 2.0f;
  logits[20] = logits[31]; /* equal ones */
  logits[7] = -INFINITY;
  logits[8] = NAN;
}

/* Probabilities by the definitions, one step after the other over the whole vocabulary. */
static void reference(const hr_sampling *s, const float *logits, const bool *seen, double p[VOCABULARY]) {
  bool kept[VOCABULARY];
  double total = 0, most = 0;
  int order[VOCABULARY];
  for (int i = 0; i < VOCABULARY; i++) {
    double l = (double)logits[i];
    if (seen && seen[i]) l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
    p[i] = isnan(l) ? 0 : exp(l / s->temperature);
    kept[i] = !isnan(l);
    order[i] = i;
  }
  for (int i = 1; i < VOCABULARY; i++)
    for (int j = i; j > 0 && p[order[j]] > p[order[j - 1]]; j--) {
      int other = order[j];
      order[j] = order[j - 1];
      order[j - 1] = other;
    }
  for (int i = 0; i < VOCABULARY; i++)
    if (s->top_k > 0 && i >= s->top_k) kept[order[i]] = false;
  for (int i = 0; i < VOCABULARY; i++)
    total += kept[i] ? p[i] : 0;
  double before = 0;
  for (int i = 0; i < VOCABULARY; i++) {
    if (before >= s->top_p * total) kept[order[i]] = false;
    before += kept[order[i]] ? p[order[i]] : 0;
  }
  for (int i = 0; i < VOCABULARY; i++)
    if (kept[i] && p[i] > most) most = p[i];
  for (int i = 0; i < VOCABULARY; i++)
    if (p[i] < s->min_p * most) kept[i] = false;
  total = 0;
  for (int i = 0; i < VOCABULARY; i++)
    total += p[i] = kept[i] ? p[i] : 0;
  for (int i = 0; i < VOCABULARY; i++)
    p[i] /= total;
}

static void distribution_check(const hr_sampling *s, const bool *seen) {
  float logits[VOCABULARY];
  double p[VOCABULARY], chi = 0;
  int counts[VOCABULARY] = {0}, kinds = 0;
  uint64_t bits[1] = {0};
  hr_sampler sampler;
  hr_error err = {0};
  logits_make(logits);
  reference(s, logits, seen, p);
  for (int i = 0; seen && i < VOCABULARY; i++)
    bits[0] |= (uint64_t)seen[i] << i;
  assert_int_equal(hr__sampler_create(s, VOCABULARY, &sampler, &err), HR_OK);
  for (int d = 0; d < DRAWS; d++)
    counts[hr__sampler_pick(&sampler, logits, seen ? bits : NULL, 3, (uint64_t)d)]++;
  for (int i = 0; i < VOCABULARY; i++) {
    if (p[i] == 0 && counts[i] > 0) fail_msg("token %d is drawn, which is not to be", i);
    if (p[i] * DRAWS < 5) continue;
    double expected = p[i] * DRAWS, difference = counts[i] - expected;
    chi += difference * difference / expected;
    kinds++;
  }
  /* mean kinds - 1, variance twice that: six deviations */
  if (chi > kinds + 6 * sqrt(2.0 * kinds)) fail_msg("tokens are drawn otherwise than they are likely (%g)", chi);
  hr__sampler_destroy(&sampler);
}

static void test_distributions(void **state) {
  (void)state;
  bool seen[VOCABULARY] = {[3] = true, [20] = true, [40] = true, [49] = true};
  static const hr_sampling settings[] = {
      {1, 1, 0, 1, 0, 1},      {1, 0.7, 0, 1, 0, 2},  {1, 1.5, 5, 1, 0, 3},  {1, 1, 1, 1, 0, 4},
      {1, 1, 0, 0.8, 0, 5},    {1, 1, 0, 0.01, 0, 6}, {1, 1, 0, 1, 0.2, 7},  {1, 2, 12, 0.6, 0.1, 8},
      {1, 1, 500, 1, 0.05, 9}, {1.4, 1, 0, 1, 0, 10}, {0.7, 1, 9, 1, 0, 11}, {1, 1, 12, 0.9, 1, 12},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    distribution_check(&settings[i], NULL);
    distribution_check(&settings[i], seen);
  }
}

static void test_likeliest(void **state) {
  (void)state;
  float logits[VOCABULARY];
  hr_sampler sampler;
  hr_error err = {0};
  logits_make(logits);
  int best = 0;
  for (int i = 1; i < VOCABULARY; i++)
    if (logits[i] > logits[best]) best = i;
  hr_sampling settings = HR_GREEDY;
  assert_int_equal(hr__sampler_create(&settings, VOCABULARY, &sampler, &err), HR_OK);
  assert_int_equal(hr__sampler_pick(&sampler, logits, NULL, 0, 0), best);
  uint64_t seen = (uint64_t)1 << best;
  assert_int_equal(hr__sampler_pick(&sampler, logits, &seen, 0, 0), best); /* a penalty of 1 is none */
  sampler.settings.repetition_penalty = 10;
  assert_int_not_equal(hr__sampler_pick(&sampler, logits, &seen, 0, 0), best);
  logits[11] = logits[12] = 100; /* of equal ones the first */
  assert_int_equal(hr__sampler_pick(&sampler, logits, NULL, 0, 0), 11);
  hr__sampler_destroy(&sampler);
}

/* A token follows from seed, sequence and position; nothing else is remembered. */
static void test_seed(void **state) {
  (void)state;
  float logits[VOCABULARY];
  hr_sampler sampler;
  hr_error err = {0};
  int same = 0;
  logits_make(logits);
  hr_sampling settings = {.repetition_penalty = 1, .temperature = 1, .top_p = 1, .seed = 5};
  assert_int_equal(hr__sampler_create(&settings, VOCABULARY, &sampler, &err), HR_OK);
  int32_t first = hr__sampler_pick(&sampler, logits, NULL, 0, 17);
  for (int i = 0; i < 100; i++)
    same += hr__sampler_pick(&sampler, logits, NULL, (uint64_t)i, 3) == first;
  assert_true(same < 50);
  assert_int_equal(hr__sampler_pick(&sampler, logits, NULL, 0, 17), first);
  hr__sampler_destroy(&sampler);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_distributions), cmocka_unit_test(test_likeliest),
                                     cmocka_unit_test(test_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
