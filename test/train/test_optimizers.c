/* Optimizers in whole runs: updates within the backward pass change no bit and free the gradients; states of every kind
 * survive a stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "part_tiny.h"

enum { SETTINGS = 12 };

/* One list of overrides out of two; both end with NULL. */
static const char *const *joined(const char *const *a, const char *const *b) {
  static const char *all[SETTINGS];
  size_t n = 0;
  for (; *a; a++)
    all[n++] = *a;
  for (; b && *b; b++)
    all[n++] = *b;
  assert_true(n < SETTINGS);
  all[n] = NULL;
  return all;
}

/* What differs between optimizers; the vocabulary of 256 x 16 is stored in 8 bits, all else is smaller. */
static const char *const optimizers[][SETTINGS] = {
    {"training.optimizer.kind=adamw"},
    {"training.optimizer.kind=adamw", "training.optimizer.state=bf16", "model.precision=bf16-true"},
    {"training.optimizer.kind=adamw8bit"},
    {"training.optimizer.kind=adamw8bit", "model.precision=bf16-true",
     "training.optimizer.groups=[{match: mlp, lr: 1}]"},
    {"training.optimizer.kind=sgd", "training.optimizer.nesterov=true"},
    {"training.optimizer.kind=sgd", "training.optimizer.momentum=0", "model.config.tie_word_embeddings=true"},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

static void test_in_backward_changes_no_bit(void **state) {
  static const char *const after[] = {"training.clip_norm=null", "training.steps=20", NULL};
  static const char *const within[] = {"training.clip_norm=null", "training.steps=20", "memory.update=in-backward",
                                       NULL};
  (void)state;
  for (size_t i = 0; i < OPTIMIZERS; i++) {
    hr_train_result a = train_ok(joined(optimizers[i], after), (hr_train_options){0});
    hr_train_result b = train_ok(joined(optimizers[i], within), (hr_train_options){0});
    assert_string_equal(a.weights_sha256, b.weights_sha256);
    assert_true(a.loss == b.loss);
  }
}

static uint64_t largest(const char *const *overrides, hr_category category) {
  tiny t;
  hr_error err = {0};
  if (tiny_open(&t, overrides, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  uint64_t bytes = 0;
  for (uint32_t node = 0; node < t.graph->n_nodes; node++) {
    uint64_t live = 0;
    for (size_t s = 0; s < t.plan->n_slots; s++)
      if (t.plan->slots[s].category == category && t.plan->slots[s].program != HR_NONE &&
          t.plan->slots[s].first <= node && node <= t.plan->slots[s].last)
        live += t.plan->slots[s].bytes;
    if (live > bytes) bytes = live;
  }
  tiny_close(&t);
  return bytes;
}

/* After backward all gradients are there at once; within it hardly more than the largest, here that of the embedding
 * beside those of one layer. */
static void test_in_backward_drops_gradients(void **state) {
  static const char *const after[] = {"model.config.num_hidden_layers=6", "training.clip_norm=null", NULL};
  static const char *const within[] = {"model.config.num_hidden_layers=6", "training.clip_norm=null",
                                       "memory.update=in-backward", NULL};
  (void)state;
  uint64_t layer = 4 * (2 * 16 * 16 + 2 * 8 * 16 + 3 * 16 * 32 + 2 * 16), table = 4 * 256 * 16;
  uint64_t whole = largest(after, HR_CAT_GRADIENTS), part = largest(within, HR_CAT_GRADIENTS);
  assert_true(whole >= 6 * layer + 2 * table);
  assert_true(part >= table && part <= table + layer);
}

/* Where the state lives may change from one call to the next. */
static void test_pages_come_and_go(void **state) {
  (void)state;
  static const char *const kinds[] = {"training.optimizer.kind=adamw8bit", "training.optimizer.kind=paged_adamw8bit"};
  hr_train_result whole = train_ok((const char *const[]){kinds[0], NULL}, (hr_train_options){0});
  for (int first = 0; first < 2; first++) {
    const char *out = folder_make("pages");
    train_ok((const char *const[]){kinds[first], NULL}, (hr_train_options){.out = out, .stop_at = 3});
    hr_train_result rest =
        train_ok((const char *const[]){kinds[1 - first], NULL}, (hr_train_options){.out = out, .resume = true});
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

static void test_states_survive_a_stop(void **state) {
  static const char *const evaluated[] = {"training.steps=6", NULL};
  (void)state;
  for (size_t i = 0; i < OPTIMIZERS; i++) {
    const char *const *overrides = joined(optimizers[i], evaluated);
    hr_train_result whole = train_ok(overrides, (hr_train_options){0});
    const char *out = folder_make("states");
    train_ok(overrides, (hr_train_options){.out = out, .stop_at = 3});
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .resume = true});
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_backward_changes_no_bit),
      cmocka_unit_test(test_in_backward_drops_gradients),
      cmocka_unit_test(test_states_survive_a_stop),
      cmocka_unit_test(test_pages_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
