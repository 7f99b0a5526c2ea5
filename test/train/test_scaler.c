/* The loss scale: growth, backoff, what is counted, and when a run cannot recover. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "job/settings.h"
#include "part_tiny.h"
#include "train/scaler.h"

static const hr_scaling usual = {.init = 65536, .growth = 2, .backoff = 0.5f, .interval = 2000};

static void steps_note(hr_scaler *s, const hr_scaling *scaling, int count, bool skipped) {
  for (int i = 0; i < count; i++)
    assert_true(hr__scaler_note(scaling, s, skipped));
}

static void test_defaults(void **state) {
  (void)state;
  hr_recipe *recipe;
  hr_error err = {0};
  hr_scaling scaling;
  const char *overrides[] = {"training.loss_scale.backoff=0.25"};
  assert_int_equal(hr__settings_parse("t", ".", tiny_text, strlen(tiny_text), NULL, 0, &recipe, &err), HR_OK);
  hr__scaling_read(recipe, &scaling);
  assert_true(scaling.init == 65536 && scaling.growth == 2 && scaling.backoff == 0.5f && scaling.interval == 2000);
  hr__recipe_destroy(recipe);
  assert_int_equal(hr__settings_parse("t", ".", tiny_text, strlen(tiny_text), overrides, 1, &recipe, &err), HR_OK);
  hr__scaling_read(recipe, &scaling);
  assert_true(scaling.backoff == 0.25f);
  hr__recipe_destroy(recipe);
}

static void test_growth(void **state) {
  (void)state;
  hr_scaler s = hr__scaler_begin(&usual);
  steps_note(&s, &usual, 1999, false);
  assert_true(s.scale == 65536 && s.good_steps == 1999);
  steps_note(&s, &usual, 1, false);
  assert_true(s.scale == 131072 && s.good_steps == 0 && s.applied_steps == 2000);
  /* a skip begins the count again */
  steps_note(&s, &usual, 1999, false);
  steps_note(&s, &usual, 1, true);
  assert_true(s.scale == 65536 && s.good_steps == 0 && s.skipped_in_a_row == 1 && s.applied_steps == 3999);
  steps_note(&s, &usual, 1999, false);
  assert_true(s.scale == 65536 && s.skipped_in_a_row == 0);
  steps_note(&s, &usual, 1, false);
  assert_true(s.scale == 131072 && s.applied_steps == 5999);
}

static void test_growth_stays_finite(void **state) {
  (void)state;
  hr_scaling each = {.init = FLT_MAX / 3, .growth = 2, .backoff = 0.5f, .interval = 1};
  hr_scaler s = hr__scaler_begin(&each);
  steps_note(&s, &each, 1, false);
  assert_true(s.scale == FLT_MAX / 3 * 2);
  steps_note(&s, &each, 1, false);
  assert_true(s.scale == FLT_MAX / 3 * 2 && s.good_steps == 0);
}

static void test_cannot_recover(void **state) {
  (void)state;
  hr_scaler s = hr__scaler_begin(&usual);
  steps_note(&s, &usual, 16, true); /* 65536 = 2^16 */
  assert_true(s.scale == 1);
  hr_scaler again = s;
  steps_note(&again, &usual, 1, false); /* one good step and it goes on */
  assert_true(again.scale == 1 && again.skipped_in_a_row == 0);
  assert_false(hr__scaler_note(&usual, &s, true));
  assert_true(s.scale == 0.5f);
  hr_scaling slow = {.init = 65536, .growth = 2, .backoff = 0.99f, .interval = 2000};
  s = hr__scaler_begin(&slow);
  steps_note(&s, &slow, HR_SCALER_SKIPS - 1, true);
  assert_false(hr__scaler_note(&slow, &s, true));
  assert_true(s.scale > 1 && s.applied_steps == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_growth_stays_finite),
      cmocka_unit_test(test_cannot_recover),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
