/* Recomputing changes no bit: weights after 50 steps, in every mode, against the plain run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "part_tiny.h"

static void trained_sha256(const char *mode, const char *precision, int accumulation, char out[65]) {
  char sets[3][64];
  snprintf(sets[0], sizeof sets[0], "memory.checkpoint=%s", mode);
  snprintf(sets[1], sizeof sets[1], "model.precision=%s", precision);
  snprintf(sets[2], sizeof sets[2], "training.gradient_accumulation=%d", accumulation);
  const char *const overrides[] = {sets[0], sets[1], sets[2], "training.steps=50", "model.config.num_hidden_layers=3",
                                   NULL};
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(overrides, (hr_train_options){0}, &result, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  snprintf(out, 65, "%s", result.weights_sha256);
}

static void test_modes_agree(void **state) {
  (void)state;
  static const char *const precisions[] = {"32-true", "bf16-true"}, *const modes[] = {"selective", "every-layer"};
  for (size_t p = 0; p < 2; p++)
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
      char plain[65], other[65];
      trained_sha256("none", precisions[p], accumulation, plain);
      for (size_t m = 0; m < 2; m++) {
        trained_sha256(modes[m], precisions[p], accumulation, other);
        assert_string_equal(plain, other);
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
