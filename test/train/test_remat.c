/* Recomputing changes no bit: weights after 50 steps, in every mode, against the plain run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "part_tiny.h"

static void trained_sha256(const char *mode, const char *precision, int accumulation, const char *const *more,
                           char out[65]) {
  char sets[3][64];
  snprintf(sets[0], sizeof sets[0], "memory.checkpoint=%s", mode);
  snprintf(sets[1], sizeof sets[1], "model.precision=%s", precision);
  snprintf(sets[2], sizeof sets[2], "training.gradient_accumulation=%d", accumulation);
  const char *const overrides[] = {sets[0],
                                   sets[1],
                                   sets[2],
                                   "training.steps=50",
                                   "model.config.num_hidden_layers=3",
                                   more[0],
                                   more[0] ? more[1] : NULL,
                                   NULL};
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(overrides, (hr_train_options){0}, &result, &err);
  if (status != HR_OK) fail_msg("%s: %s", err.place, err.message);
  snprintf(out, 65, "%s", result.weights_sha256);
}

static void test_modes_agree(void **state) {
  (void)state;
  static const char *const none[] = {NULL};
  static const char *const precisions[] = {"32-true", "bf16-true"}, *const modes[] = {"selective", "every-layer"};
  for (size_t p = 0; p < 2; p++)
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
      char plain[65], other[65];
      trained_sha256("none", precisions[p], accumulation, none, plain);
      for (size_t m = 0; m < 2; m++) {
        trained_sha256(modes[m], precisions[p], accumulation, none, other);
        assert_string_equal(plain, other);
      }
    }
}

/* With adapters, a module's product and its adapters may stand in one order in forward and be made again in another. */
static void test_adapters_agree(void **state) {
  (void)state;
  static const char *const more[][2] = {
      {"model.adapters={rank: 4, targets: all-linear}", NULL},
      {"model.adapters={rank: 4, targets: all-linear, dropout: 0.2}", NULL},
      {"model.adapters={rank: 4, targets: all-linear, dropout: 0.2}", "model.quantize.kind=nf4"}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char plain[65], other[65];
    trained_sha256("none", "bf16-true", 1, more[i], plain);
    trained_sha256("selective", "bf16-true", 1, more[i], other);
    assert_string_equal(plain, other);
    trained_sha256("every-layer", "bf16-true", 1, more[i], other);
    assert_string_equal(plain, other);
  }
}

/* What attention drops is drawn again when it is made again. */
static void test_attention_dropout_agrees(void **state) {
  (void)state;
  static const char *const more[][2] = {{"model.config.attention_dropout=0.2", NULL},
                                        {"model.config.attention_dropout=0.2", "memory.offload.activations=host"}};
  static const char *const none[] = {NULL};
  char plain[65], other[65];
  trained_sha256("none", "bf16-true", 2, none, plain);
  trained_sha256("none", "bf16-true", 2, more[0], other);
  assert_string_not_equal(plain, other);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    trained_sha256("none", "bf16-true", 2, more[0], plain);
    trained_sha256("selective", "bf16-true", 2, more[i], other);
    assert_string_equal(plain, other);
    trained_sha256("every-layer", "bf16-true", 2, more[i], other);
    assert_string_equal(plain, other);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes_agree), cmocka_unit_test(test_adapters_agree),
                                     cmocka_unit_test(test_attention_dropout_agrees)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
