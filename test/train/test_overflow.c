/* 16-mixed: gradients that overflow at any step leave weights and moments as they were, the loss scale recovers, a stop
 * and a resume in the middle of it change no bit, and a run that never recovers stops with what was good. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "part_session.h"

#define OVERRIDES(...)                                                                                                 \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

/* Hash of all weights and all of the optimizer's state. */
static void state_hash(desk *d, char hex[HR_XXH_HEX]) {
  const hr_tensors *t = &d->session.tensors;
  hr_hash *hash;
  hr_error err = {0};
  char all[HR_SHA256_HEX];
  assert_int_equal(hr__hash_create(HR_HASH_XXH128, &hash, &err), HR_OK);
  for (size_t i = 0; i < t->n_parameters + t->n_state; i++) {
    hr_id value = i < t->n_parameters ? t->parameters[i] : t->state[i - t->n_parameters];
    size_t bytes = (size_t)hr_desc_bytes(&d->tiny.graph->values[value].desc);
    void *copy = malloc(bytes + 1);
    assert_int_equal(hr__run_read(d->session.run, value, 0, copy, bytes, &err), HR_OK);
    assert_int_equal(hr__hash_update(hash, copy, bytes, &err), HR_OK);
    free(copy);
  }
  assert_int_equal(hr__hash_hex(hash, all, &err), HR_OK);
  hr__hash_destroy(hash);
  snprintf(hex, HR_XXH_HEX, "%.32s", all);
}

enum { STEPS = 12 };

/* Overflow at the steps whose bits are set (bit 0: step 1). Steps between them train as if those had not been. */
static void overflow_at(const char *const *overrides, uint32_t spoilt) {
  desk d;
  hr_error err = {0};
  char before[HR_XXH_HEX], after[HR_XXH_HEX];
  desk_open(&d, "none", overrides);
  int64_t applied = 0;
  for (int64_t step = 1; step <= STEPS; step++) {
    bool spoil = (spoilt >> (step - 1)) & 1;
    d.session.scaler.scale = spoil ? 1e30f : 1024;
    state_hash(&d, before);
    hr_step_result result;
    hr_status status = hr__session_step(&d.session, step, &result, &err);
    if (status != HR_OK) fail_msg("%s", err.message);
    state_hash(&d, after);
    assert_true(result.skipped == spoil);
    assert_true(isfinite(result.loss) && result.loss > 3 && result.loss < 7); /* never scaled */
    if (spoil)
      assert_string_equal(before, after);
    else
      assert_string_not_equal(before, after);
    if (!spoil) assert_true(result.grad_norm > 0.01 && result.grad_norm < 100); /* nor this */
    applied += !spoil;
    assert_int_equal(d.session.scaler.applied_steps, applied);
    assert_true(d.session.scaler.scale == (spoil ? 5e29f : 1024));
  }
  desk_close(&d);
}

/* The first step, the last one, each in between, some in a row, all but one. */
static void overflow_anywhere(const char *const *overrides) {
  for (int step = 0; step < STEPS; step++)
    overflow_at(overrides, 1u << step);
  static const uint32_t several[] = {0, 0x249, 0x007, 0xe00, 0x0f0, 0xfbf};
  for (size_t i = 0; i < sizeof several / sizeof *several; i++)
    overflow_at(overrides, several[i]);
}

#define SCALED      "model.precision=16-mixed", "training.schedule.warmup_steps=0"
#define ACCUMULATED SCALED, "training.batch_size=1", "training.gradient_accumulation=2"

static void test_overflow_anywhere(void **state) {
  (void)state;
  overflow_anywhere(OVERRIDES(SCALED));
  overflow_anywhere(OVERRIDES(ACCUMULATED));
  overflow_anywhere(OVERRIDES(SCALED, "training.optimizer.kind=adamw8bit"));
  overflow_anywhere(OVERRIDES(ACCUMULATED, "training.optimizer.kind=adamw8bit", "training.clip_norm=null"));
  overflow_at(OVERRIDES(SCALED, "training.optimizer.state=bf16"), 0x92d);
  overflow_at(OVERRIDES(SCALED, "training.optimizer.kind=sgd", "training.optimizer.nesterov=true"), 0x92d);
  overflow_at(OVERRIDES(SCALED, "training.optimizer.kind=adamw8bit", "memory.offload.optimizer=host"), 0x92d);
  overflow_at(OVERRIDES(ACCUMULATED, "memory.offload.gradients=host", "memory.checkpoint=every-layer"), 0x92d);
  overflow_at(OVERRIDES(SCALED, "model.adapters={kind: lora, rank: 2}"), 0x92d);
}

/* A part of the model in f16 is enough to need the scale. */
static void test_overflow_of_a_part(void **state) {
  (void)state;
  overflow_at(OVERRIDES("training.schedule.warmup_steps=0", "model.precision=bf16-mixed",
                        "model.precision_overrides={mlp: 16-mixed}"),
              0x92d);
  overflow_at(OVERRIDES("training.schedule.warmup_steps=0", "model.precision_overrides={down_proj: 16-mixed}",
                        "training.batch_size=1", "training.gradient_accumulation=2"),
              0x92d);
  hr_train_result result;
  hr_error err = {0};
  assert_int_equal(tiny_train(OVERRIDES("model.precision_overrides={mlp: 16-mixed}", "training.clip_norm=null",
                                        "memory.update=in-backward"),
                              (hr_train_options){.steps = 1}, &result, &err),
                   HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "overflowed"));
  /* and where nothing is left in f16, there is none */
  desk d;
  desk_open(&d, "none", OVERRIDES("model.precision=16-mixed", "model.precision_overrides={\"*\": bf16-mixed}"));
  assert_false(d.session.scales);
  desk_close(&d);
}

static hr_status train(const char *const *overrides, hr_train_options options, hr_train_result *result, hr_error *err) {
  return tiny_train(overrides, options, result, err);
}

/* The scale begins so high that it has to come down first, and then grows and falls all the time. */
static void recover_and_resume(const char *const *overrides) {
  hr_train_result whole, rest;
  hr_error err = {0};
  if (train(overrides, (hr_train_options){.steps = 18}, &whole, &err) != HR_OK) fail_msg("%s", err.message);
  assert_true(isfinite(whole.loss));
  for (int64_t stop = 1; stop < 14; stop += 3) { /* leaves a step that is not skipped */
    const char *out = folder_make("overflow");
    assert_int_equal(train(overrides, (hr_train_options){.out = out, .steps = 18, .stop_at = stop}, &rest, &err),
                     HR_OK);
    assert_int_equal(train(overrides, (hr_train_options){.out = out, .steps = 18, .resume = true}, &rest, &err), HR_OK);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    assert_true(rest.loss == whole.loss);
    size_t bytes;
    char *log = file_get(path_join(out, "log.jsonl"), &bytes);
    assert_non_null(strstr(log, "\"skipped\":true"));
    assert_non_null(strstr(log, "{\"step\":18,"));
    free(log);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

static void test_recovers(void **state) {
  (void)state;
  recover_and_resume(OVERRIDES("model.precision=16-mixed", "training.loss_scale.init=3e9",
                               "training.loss_scale.growth_interval=2", "training.loss_scale.growth=8"));
  recover_and_resume(OVERRIDES("model.precision=16-mixed", "training.loss_scale.init=3e9",
                               "training.loss_scale.growth_interval=2", "training.loss_scale.growth=8",
                               "training.batch_size=1", "training.gradient_accumulation=2"));
}

static void test_never_recovers(void **state) {
  (void)state;
  const char *const *overrides = OVERRIDES("model.precision=16-mixed", "training.steps=100", "training.save_every=20",
                                           "training.loss_scale.init=1e30", "training.loss_scale.backoff=0.9");
  hr_train_result first, result;
  hr_error err = {0};
  const char *out = folder_make("overflow");
  assert_int_equal(train(OVERRIDES("model.precision=16-mixed", "training.loss_scale.init=1e30"),
                         (hr_train_options){.steps = 1}, &first, &err),
                   HR_OK); /* skipped: the weights are the first ones */
  assert_int_equal(train(overrides, (hr_train_options){.out = out}, &result, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "the gradients of step 50 overflow, as those of 49 steps before it did"));
  assert_non_null(strstr(err.message, "the newest checkpoint is that of step 40"));
  assert_non_null(strstr(err.remedy, "bf16-mixed"));
  assert_int_equal(train(overrides, (hr_train_options){.out = out, .resume = true, .stop_at = 41}, &result, &err),
                   HR_OK);
  assert_string_equal(result.weights_sha256, first.weights_sha256);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_overflow_anywhere),
                                     cmocka_unit_test(test_overflow_of_a_part), cmocka_unit_test(test_recovers),
                                     cmocka_unit_test(test_never_recovers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
