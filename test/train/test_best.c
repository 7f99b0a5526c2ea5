/* The best evaluation: which it is, when a run gives up, which checkpoints stay, and that a run that was stopped in
 * between decides as one that was not. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_tiny.h"
#include "train/best.h"
#include "train/reports.h"

static void test_lowest_and_highest(void **state) {
  (void)state;
  hr_best_rule rule = {.metric = "loss", .min_delta = 0.5, .patience = 2};
  hr_best best = {0};
  hr__best_note(&rule, &best, 10, (double)NAN);
  assert_true(best.step == 0 && best.waited == 1);
  hr__best_note(&rule, &best, 20, 4);
  assert_true(best.step == 20 && best.waited == 0 && best.value == 4);
  hr__best_note(&rule, &best, 30, 3.5); /* by no more than min_delta */
  assert_true(best.step == 20 && !hr__best_over(&rule, &best));
  hr__best_note(&rule, &best, 40, 3.25);
  assert_true(best.step == 40 && best.waited == 0);
  hr__best_note(&rule, &best, 50, 9);
  hr__best_note(&rule, &best, 60, (double)INFINITY);
  assert_true(best.step == 40 && hr__best_over(&rule, &best));
  rule.highest = true;
  hr__best_note(&rule, &best, 70, 4);
  assert_true(best.step == 70);
  rule.patience = 0;
  best.waited = 1000;
  assert_false(hr__best_over(&rule, &best));
}

static void test_by_a_metric(void **state) {
  (void)state;
  const hr_reported list[] = {{.name = "fit"}, {.name = "accuracy", .metric = true}};
  hr_reports reports = {.list = list, .count = 2, .values = {1, 0.75}};
  assert_true(hr__best_metric(&(hr_best_rule){.metric = "accuracy"}, 3, &reports) == 0.75);
  assert_true(hr__best_metric(&(hr_best_rule){.metric = "loss"}, 3, &reports) == 3);
}

/* The first evaluation stays the best: nothing is better by 100. */
static const char *const first_is_best[] = {"training.eval_every=2",         "training.eval_batches=1",
                                            "training.patience=2",           "training.best.min_delta=100",
                                            "training.save_best=true",       "training.save_every=1",
                                            "training.schedule.kind=linear", NULL};

static bool there(const char *out, const char *name) {
  return access(path_join(out, name), F_OK) == 0;
}

static void link_is(const char *out, const char *expected) {
  char target[64] = {0};
  assert_true(readlink(path_join(out, "best"), target, sizeof target - 1) > 0);
  assert_string_equal(target, expected);
}

static void test_gives_up(void **state) {
  (void)state;
  const char *out = folder_make("best");
  hr_train_result whole = train_ok(first_is_best, (hr_train_options){.out = out});
  assert_int_equal(whole.steps, 6);
  assert_true(whole.stopped_early && whole.best.step == 2);
  link_is(out, "generation-00000002");
  assert_true(there(out, "best/model.safetensors") && there(out, "generation-00000005") &&
              there(out, "generation-00000006"));
  assert_false(there(out, "generation-00000003") || there(out, "generation-00000004"));
  hr_train_result again = train_ok(first_is_best, (hr_train_options){.out = out, .resume = true});
  assert_true(again.steps == 6 && again.steps_here == 0 && again.stopped_early);
  folder_remove(out);

  for (int64_t stop = 1; stop < 6; stop++) { /* stopped anywhere, it ends at the same step */
    train_ok(first_is_best, (hr_train_options){.out = out, .stop_at = stop});
    hr_train_result resumed = train_ok(first_is_best, (hr_train_options){.out = out, .resume = true});
    assert_true(resumed.steps == 6 && resumed.stopped_early && resumed.best.step == 2);
    assert_true(memcmp(&resumed.best.value, &whole.best.value, sizeof whole.best.value) == 0);
    assert_string_equal(resumed.weights_sha256, whole.weights_sha256);
    link_is(out, "generation-00000002");
    folder_remove(out);
  }
  free((void *)(uintptr_t)out);
}

static void test_keeps_as_many(void **state) {
  (void)state;
  for (int keep = 1; keep <= 5; keep++) {
    const char *out = folder_make("keep");
    char number[32], name[32];
    snprintf(number, sizeof number, "training.keep=%d", keep);
    const char *const overrides[] = {number, "training.save_every=1", NULL};
    train_ok(overrides, (hr_train_options){.out = out});
    for (int step = 1; step <= 8; step++) {
      snprintf(name, sizeof name, "generation-%08d", step);
      assert_int_equal(there(out, name), step > 8 - keep);
    }
    assert_false(there(out, "best"));
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

static void test_refused(void **state) {
  (void)state;
  const char *const no_evals[] = {"training.patience=2", NULL};
  hr_error err = train_fails(no_evals, (hr_train_options){0}, HR_BAD_INPUT);
  assert_non_null(strstr(err.remedy, "eval_every"));
  const char *const no_metric[] = {"training.best.metric=accuracy", NULL};
  err = train_fails(no_metric, (hr_train_options){0}, HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "accuracy"));
  const char *out = folder_make("best");
  assert_int_equal(mkdir(out, 0755), 0);
  file_put(path_join(out, "best"), "mine", 4);
  err = train_fails(first_is_best, (hr_train_options){.out = out}, HR_USAGE);
  assert_non_null(strstr(err.place, "best"));
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* As many losses as there may be, under the longest names, and diverged. */
static void test_text_has_room(void **state) {
  (void)state;
  hr_reported list[HR_REPORTED];
  hr_reports reports = {.list = list, .count = HR_REPORTED};
  char text[HR_REPORTS_TEXT];
  for (int i = 0; i < HR_REPORTED; i++) {
    list[i] = (hr_reported){.name = "a_name_of_as_many_as_32_characters", .weight = 1, .metric = i % 2};
    reports.values[i] = -(double)FLT_MAX;
  }
  size_t length = strlen(hr__reports_text(&reports, text));
  assert_true(length < sizeof text && text[length - 1] == ')');
  length = strlen(hr__reports_json_text(&reports, "eval_", text));
  assert_true(length < sizeof text && text[length - 1] == '}');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lowest_and_highest),
      cmocka_unit_test(test_by_a_metric),
      cmocka_unit_test(test_gives_up),
      cmocka_unit_test(test_keeps_as_many),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_text_has_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
