/* Data order, rows, schedules and progress. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/settings.h"
#include "part_tiny.h"
#include "train/data.h"
#include "train/progress.h"
#include "train/schedule.h"

enum { LENGTH = 16, BYTES = 1000, WINDOWS = 62 }; /* (1000 - 1) / 16 */

typedef struct fixture {
  hr_recipe *recipe;
  hr_data *data;
  char path[4096];
} fixture;

static void fixture_open(fixture *f, bool eval) {
  hr_error err = {0};
  char text[BYTES], set[4200];
  for (int i = 0; i < BYTES; i++)
    text[i] = (char)(i * 131 % 251);
  snprintf(f->path, sizeof f->path, "%s/data-%ld.txt", HR_BINARY_DIR, (long)getpid());
  file_put(f->path, text, sizeof text);
  snprintf(set, sizeof set, "data.path=%s", f->path);
  const char *overrides[] = {"data.source=text", set};
  assert_int_equal(hr__settings_parse("t", ".", tiny_text, strlen(tiny_text), overrides, 2, &f->recipe, &err), HR_OK);
  hr_data_shape shape = {.length = LENGTH, .vocabulary = 256, .seed = 3, .eval = eval};
  assert_int_equal(hr__data_open(f->recipe, &shape, &f->data, &err), HR_OK);
}

static void fixture_close(fixture *f) {
  hr__data_close(f->data);
  hr__recipe_destroy(f->recipe);
  unlink(f->path);
}

static void test_order_is_a_permutation(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false);
  assert_int_equal(hr__data_train_windows(f.data), WINDOWS);
  int moved = 0;
  uint64_t first[WINDOWS];
  for (uint64_t epoch = 0; epoch < 4; epoch++) {
    bool seen[WINDOWS] = {false};
    int same = 0;
    for (uint64_t i = 0; i < WINDOWS; i++) {
      uint64_t window = hr__data_window(f.data, epoch * WINDOWS + i);
      assert_true(window < WINDOWS && !seen[window]);
      seen[window] = true;
      moved += window != i;
      if (epoch == 0) first[i] = window;
      same += first[i] == window;
    }
    if (epoch > 0) assert_true(same < WINDOWS / 2); /* every epoch has an order of its own */
  }
  assert_true(moved > 3 * WINDOWS);
  fixture_close(&f);
}

static void test_rows(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, true);
  assert_int_equal(hr__data_eval_windows(f.data), 3); /* 5 % of 62 */
  assert_int_equal(hr__data_train_windows(f.data), WINDOWS - 3);
  int32_t tokens[LENGTH], targets[LENGTH];
  hr_error err = {0};
  for (uint64_t sample = 0; sample < 200; sample++) {
    assert_int_equal(hr__data_train_row(f.data, sample, tokens, targets, &err), HR_OK);
    int64_t begin = (int64_t)hr__data_window(f.data, sample) * LENGTH;
    for (int t = 0; t < LENGTH; t++) {
      assert_int_equal(tokens[t], (begin + t) * 131 % 251);
      assert_int_equal(targets[t], (begin + t + 1) * 131 % 251);
    }
  }
  assert_int_equal(hr__data_eval_row(f.data, 4, tokens, targets, &err), HR_OK); /* 4 mod 3: the second */
  assert_int_equal(tokens[0], (WINDOWS - 2) * LENGTH * 131 % 251);
  fixture_close(&f);
}

static void test_file_becomes_shorter(void **state) {
  (void)state;
  fixture f;
  fixture_open(&f, false);
  int32_t tokens[LENGTH], targets[LENGTH];
  hr_error err = {0};
  assert_int_equal(truncate(f.path, 8), 0);
  assert_int_equal(hr__data_train_row(f.data, 0, tokens, targets, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "shorter"));
  fixture_close(&f);
}

static void test_synthetic(void **state) {
  (void)state;
  hr_recipe *recipe;
  hr_data *data;
  hr_error err = {0};
  assert_int_equal(hr__settings_parse("t", ".", tiny_text, strlen(tiny_text), NULL, 0, &recipe, &err), HR_OK);
  hr_data_shape shape = {.length = LENGTH, .vocabulary = 100, .seed = 3};
  assert_int_equal(hr__data_open(recipe, &shape, &data, &err), HR_OK);
  int32_t a[2][LENGTH], b[2][LENGTH];
  assert_int_equal(hr__data_train_row(data, 11, a[0], a[1], &err), HR_OK);
  assert_int_equal(hr__data_train_row(data, 11, b[0], b[1], &err), HR_OK);
  assert_memory_equal(a, b, sizeof a);
  assert_memory_equal(a[0] + 1, a[1], (LENGTH - 1) * sizeof a[0][0]);
  for (int t = 0; t < LENGTH; t++)
    assert_true(a[0][t] >= 0 && a[0][t] < 100 && a[1][t] >= 0 && a[1][t] < 100);
  assert_int_equal(hr__data_train_row(data, 12, b[0], b[1], &err), HR_OK);
  assert_memory_not_equal(a, b, sizeof a);
  hr__data_close(data);
  hr__recipe_destroy(recipe);
}

static void near(double a, double b) {
  assert_true(fabs(a - b) <= 1e-12 * fabs(b) + 1e-15);
}

static void test_schedule(void **state) {
  (void)state;
  hr_schedule s = {.lr = 1e-3, .warmup = 10, .steps = 110, .cosine = true, .min_ratio = 0.1};
  near(hr__schedule_lr(&s, 1), 0);
  near(hr__schedule_lr(&s, 6), 5e-4);
  near(hr__schedule_lr(&s, 11), 1e-3);
  near(hr__schedule_lr(&s, 61), 1e-3 * (0.1 + 0.9 * 0.5));
  near(hr__schedule_lr(&s, 36), 1e-3 * (0.1 + 0.9 * 0.5 * (1 + sqrt(0.5))));
  near(hr__schedule_lr(&s, 111), 1e-4);
  near(hr__schedule_lr(&s, 500), 1e-4); /* never rises again */
  s.cosine = false;
  near(hr__schedule_lr(&s, 61), 1e-3);
  s.warmup = 0;
  near(hr__schedule_lr(&s, 1), 1e-3);
}

static void test_progress_off_a_terminal(void **state) {
  (void)state;
  FILE *file = tmpfile();
  hr_progress p;
  hr__progress_begin(&p, file, 0);
  assert_false(hr__progress_due(&p));
  hr_progress_state s = {.step = 5, .steps = 10, .loss = 1.25, .tokens_per_second = 1000, .memory_bytes = 1 << 20};
  hr__progress_draw(&p, &s);
  hr__progress_end(&p);
  assert_int_equal(ftell(file), 0); /* nothing was written */
  fclose(file);
  hr__progress_begin(&p, NULL, 0);
  assert_false(hr__progress_due(&p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_is_a_permutation),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_file_becomes_shorter),
      cmocka_unit_test(test_synthetic),
      cmocka_unit_test(test_schedule),
      cmocka_unit_test(test_progress_off_a_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
