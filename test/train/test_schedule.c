/* Schedules and progress. */
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
#include "train/progress.h"
#include "train/schedule.h"

static void near(double a, double b) {
  assert_true(fabs(a - b) <= 1e-12 * fabs(b) + 1e-15);
}

static void test_schedule(void **state) {
  (void)state;
  hr_schedule s = {.lr = 1e-3, .warmup = 10, .steps = 110, .kind = HR_SCHEDULE_COSINE, .min_ratio = 0.1};
  near(hr__schedule_lr(&s, 1), 0);
  near(hr__schedule_lr(&s, 6), 5e-4);
  near(hr__schedule_lr(&s, 11), 1e-3);
  near(hr__schedule_lr(&s, 61), 1e-3 * (0.1 + 0.9 * 0.5));
  near(hr__schedule_lr(&s, 36), 1e-3 * (0.1 + 0.9 * 0.5 * (1 + sqrt(0.5))));
  near(hr__schedule_lr(&s, 111), 1e-4);
  near(hr__schedule_lr(&s, 500), 1e-4); /* never rises again */
  s.kind = HR_SCHEDULE_LINEAR;
  near(hr__schedule_lr(&s, 6), 5e-4);
  near(hr__schedule_lr(&s, 61), 1e-3 * (0.1 + 0.9 * 0.5));
  near(hr__schedule_lr(&s, 36), 1e-3 * (0.1 + 0.9 * 0.75));
  near(hr__schedule_lr(&s, 500), 1e-4);
  s.kind = HR_SCHEDULE_CONSTANT;
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
      cmocka_unit_test(test_schedule),
      cmocka_unit_test(test_progress_off_a_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
