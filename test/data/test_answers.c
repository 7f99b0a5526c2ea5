/* Scores of answers against values worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/answers.h"
#include "support/faults.h"

static const struct {
  const char *expected, *got;
  double exact, f1, bleu, rouge_l;
} cases[] = {
    {"walking", "walking", 1, 1, 1, 1},
    {"Walking", "  walking\n", 1, 1, 1, 1},
    {"", " ", 1, 1, 1, 1},
    {"", "walking", 0, 0, 0, 0},
    {"walking", "", 0, 0, 0, 0},
    {"walking", "running", 0, 0, 0, 0},
    {"caf\xc3\xa9", "caf\xc3\xa8", 0, 0, 0, 0},
    /* common 3 of 5 and 4; parts 3/4, (1 + 1) / (3 + 1), (0 + 1) / (2 + 1), (0 + 1) / (1 + 1): their product is 1/16;
     * one word shorter; row: a b d */
    {"a b c d e", "a b x d", 0, 6.0 / 9, 0.5 * 0.77880078307140488, 6.0 / 9},
    /* twice the same word counts once; parts 1/3, 1/3, 1/2 and 1/1 */
    {"the cat", "the the the", 0, 2.0 / 5, 0.48549177170732344, 2.0 / 5},
    /* another order: all words, parts 3/3, (1 + 1) / (2 + 1), 1/2, 1/1; the longest row is b c */
    {"a b c", "b c a", 0, 1, 0.75983568565159254, 2.0 / 3},
    /* all of it is there: only shorter */
    {"stirring then walking then resting", "stirring then walking", 0, 6.0 / 8, 0.51341711903259202, 6.0 / 8},
    /* longer than expected: parts 1/2, 1/2, 1/1, 1/1 */
    {"yes", "yes yes", 0, 2.0 / 3, 0.70710678118654757, 2.0 / 3},
};

static void expect(size_t number, const char *what, double got, double expected) {
  if (!(fabs(got - expected) <= 1e-12)) fail_msg("case %zu: %s is %.17g, not %.17g", number, what, got, expected);
}

static void test_scores(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_answer_scores scores;
    hr_error err = {0};
    assert_int_equal(hr__answer_score(cases[i].expected, cases[i].got, &scores, &err), HR_OK);
    expect(i, "exact", scores.exact, cases[i].exact);
    expect(i, "f1", scores.f1, cases[i].f1);
    expect(i, "bleu", scores.bleu, cases[i].bleu);
    expect(i, "rouge_l", scores.rouge_l, cases[i].rouge_l);
  }
}

static void test_types(void **state) {
  (void)state;
  hr_answers all = {0};
  hr_answer_scores none = hr__answers_mean(&all);
  assert_true(none.exact == 0);
  static const char *const types[] = {"recognition", "ordering", "recognition", "recognition"};
  static const hr_answer_scores scores[] = {{1, 1, 1, 1}, {0, 0.5, 0.25, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  for (int i = 0; i < 4; i++)
    hr__answers_add(&all, types[i], &scores[i]);
  hr_answer_scores mean = hr__answers_mean(&all);
  expect(0, "exact", mean.exact, 0.5);
  expect(0, "f1", mean.f1, 0.625);
  expect(0, "bleu", mean.bleu, 0.5625);
  expect(0, "rouge_l", mean.rouge_l, 0.5);
  assert_int_equal(all.n_types, 2);
  assert_string_equal(all.of_type[0].type, "recognition");
  assert_int_equal(all.of_type[0].count, 3);
  assert_int_equal(all.of_type[0].exact, 2);
  assert_int_equal(all.of_type[1].count, 1);
  assert_int_equal(all.of_type[1].exact, 0);
  static const char *const many[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  for (int i = 0; i < 8; i++)
    hr__answers_add(&all, many[i], &scores[0]);
  assert_int_equal(all.n_types, HR_ANSWER_TYPES);
  assert_int_equal(all.count, 12);
}

static hr_status score_body(void *arg, hr_error *err) {
  (void)arg;
  hr_answer_scores scores;
  return hr__answer_score("a b c d e", "a b x d", &scores, err);
}

static void test_faults(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(score_body, NULL) > 0);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scores),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
