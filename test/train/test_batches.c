/* Batching as a whole: schedules by epoch, positions, stops and resumes anywhere, buckets against plain padding, and
 * steps that overflow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_session.h"

#define OVERRIDES(...)                                                                                                 \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

/* --- positions -------------------------------------------------------------------------------------------------- */

static void positions_check(hr_training_shape *shape, uint64_t epoch_rows) {
  hr_batches b = {.shape = shape, .epoch_rows = epoch_rows};
  uint64_t position = 0;
  for (int64_t steps = 0; steps < 400; steps++) {
    assert_int_equal(hr__batches_position(&b, steps), position);
    int64_t micros = hr__batches_micros(&b, position);
    assert_true(micros >= 1 && micros <= shape->accumulation_max);
    position += (uint64_t)(micros * shape->batch);
    if (shape->ragged && (position - 1) / epoch_rows != (position - (uint64_t)(micros * shape->batch)) / epoch_rows)
      fail_msg("a step of lines runs over the end of an epoch");
  }
}

static void test_positions(void **state) {
  (void)state;
  hr_training_shape shape = {.batch = 3,
                             .accumulation = 4,
                             .accumulation_max = 5,
                             .schedule = {{0, 4}, {2, 5}, {3, 1}, {9, 2}},
                             .n_schedule = 4};
  for (uint64_t rows = 1; rows < 60; rows++)
    positions_check(&shape, rows);
  positions_check(&shape, 1000000);
  shape.ragged = true;
  for (uint64_t micros = 1; micros < 20; micros++)
    positions_check(&shape, 3 * micros);
  shape.ragged = false;
  shape.n_schedule = 1;
  shape.accumulation_max = 4;
  positions_check(&shape, 7);
  positions_check(&shape, 0); /* without end */
  hr_batches endless = {.shape = &shape};
  assert_int_equal(hr__batches_position(&endless, 1000000000000), 12000000000000);
}

/* --- runs ------------------------------------------------------------------------------------------------------- */

static char data_set[4200];

/* Lines of 1 to 24 letters; as text the same bytes. */
static int group_setup(void **state) {
  (void)state;
  char text[4096], path[4096];
  size_t used = 0;
  for (int i = 0; i < 37; i++) {
    for (int k = 0; k < 1 + i * 7 % 24; k++)
      text[used++] = (char)('a' + (i + k * k) % 26);
    text[used++] = '\n';
  }
  snprintf(path, sizeof path, "%s/batches-%ld.txt", HR_BINARY_DIR, (long)getpid());
  file_put(path, text, used);
  snprintf(data_set, sizeof data_set, "data.path=%s", path);
  return 0;
}

static int group_teardown(void **state) {
  (void)state;
  return unlink(data_set + strlen("data.path="));
}

/* Writes the manifest of a generation again as it was before it held the position. */
static void state_remove(const char *out, int64_t step) {
  char name[64];
  snprintf(name, sizeof name, "generation-%08d/manifest.json", (int)step);
  size_t bytes;
  char *path = path_join(out, name), *text = file_get(path, &bytes), *again;
  hr_arena arena = {0};
  hr_manifest manifest;
  hr_error err = {0};
  assert_int_equal(hr__manifest_parse("m", text, bytes, &arena, &manifest, &err), HR_OK);
  assert_true(manifest.state.known && manifest.state.sample > 0);
  manifest.state.known = false;
  assert_int_equal(hr__manifest_text(&manifest, &arena, &again, &bytes, &err), HR_OK);
  file_put(path, again, bytes);
  free(text);
  hr__arena_fini(&arena);
}

static void resume_everywhere(const char *const *overrides, int64_t steps) {
  hr_train_result whole = train_ok(overrides, (hr_train_options){.steps = steps});
  for (int64_t stop = 1; stop < steps; stop += 2) {
    const char *out = folder_make("batches");
    train_ok(overrides, (hr_train_options){.out = out, .steps = steps, .stop_at = stop});
    if (stop % 4 == 1) state_remove(out, stop);
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .steps = steps, .resume = true});
    assert_int_equal(rest.steps_here, steps - stop);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    assert_true(rest.loss == whole.loss);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

/* The epochs change in the fifth and the tenth step, and the accumulation with them. */
static void test_resume_schedule(void **state) {
  (void)state;
  resume_everywhere(OVERRIDES("data.source=text", data_set, "training.gradient_accumulation={0: 4, 1: 3, 2: 1}"), 16);
}

static void test_resume_buckets(void **state) {
  (void)state;
  resume_everywhere(OVERRIDES("data.source=lines", data_set, "data.buckets=[4, 8, 16]", "training.eval_every=3",
                              "training.gradient_accumulation={0: 4, 1: 3, 3: 1}"),
                    17);
  resume_everywhere(OVERRIDES("data.source=lines", data_set, "data.buckets=[8, 16]"), 9);
  resume_everywhere(OVERRIDES("data.source=lines", data_set), 9);
}

/* The micro-batch may change where the samples of a step stay the same, also by schedule; else it may not. */
static void test_resume_other_batch(void **state) {
  (void)state;
  const char *out = folder_make("batches");
  const char *const *begun =
      OVERRIDES("data.source=text", data_set, "training.batch_size=2", "training.gradient_accumulation={0: 4, 1: 2}");
  train_ok(begun, (hr_train_options){.out = out, .stop_at = 3});
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(
      OVERRIDES("data.source=text", data_set, "training.batch_size=2", "training.gradient_accumulation={0: 4, 2: 2}"),
      (hr_train_options){.out = out, .resume = true}, &result, &err);
  assert_int_equal(status, HR_USAGE);
  assert_non_null(strstr(err.message, "run.samples_per_step was 0:8 1:4, is 0:8 2:4"));
  hr_train_result same = train_ok(
      OVERRIDES("data.source=text", data_set, "training.batch_size=4", "training.gradient_accumulation={0: 2, 1: 1}"),
      (hr_train_options){.out = out, .resume = true});
  assert_int_equal(same.steps, 8);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* A schedule of one number is that number, and where it is 1 the programs are those of a step as a whole. */
static void test_schedule_of_one(void **state) {
  (void)state;
  hr_train_result number = train_ok(OVERRIDES("training.gradient_accumulation=3"), (hr_train_options){0});
  hr_train_result schedule = train_ok(OVERRIDES("training.gradient_accumulation={0: 3}"), (hr_train_options){0});
  assert_string_equal(number.weights_sha256, schedule.weights_sha256);
  hr_train_result one = train_ok(OVERRIDES("training.gradient_accumulation={0: 1}"), (hr_train_options){0});
  assert_string_equal(one.weights_sha256, train_ok(NULL, (hr_train_options){0}).weights_sha256);
}

/* --- buckets ---------------------------------------------------------------------------------------------------- */

/* Steps of a whole epoch take the same lines whatever the buckets: loss, norm and weights agree to rounding. */
static void test_buckets_change_nothing(void **state) {
  (void)state;
  desk one, three;
  hr_error err = {0};
  desk_open(&one, "none", OVERRIDES("data.source=lines", data_set, "training.gradient_accumulation=40"));
  desk_open(&three, "none",
            OVERRIDES("data.source=lines", data_set, "training.gradient_accumulation=40", "data.buckets=[4, 10, 16]"));
  for (int64_t step = 1; step <= 4; step++) {
    hr_step_result a, b;
    assert_int_equal(hr__session_step(&one.session, step, &a, &err), HR_OK);
    assert_int_equal(hr__session_step(&three.session, step, &b, &err), HR_OK);
    assert_int_equal(a.tokens, b.tokens);
    assert_true(fabs(a.loss - b.loss) < 2e-5 * fabs(a.loss));
    assert_true(fabs(a.grad_norm - b.grad_norm) < 2e-4 * a.grad_norm);
  }
  const hr_graph *graph = one.tiny.graph;
  for (size_t i = 0; i < one.session.tensors.n_parameters; i++) {
    hr_id p = one.session.tensors.parameters[i], q = three.session.tensors.parameters[i];
    assert_string_equal(graph->values[p].name, three.tiny.graph->values[q].name);
    const float *x = hr__run_address(one.session.run, p), *y = hr__run_address(three.session.run, q);
    for (int64_t k = 0, n = hr_desc_count(&graph->values[p].desc); k < n; k++)
      assert_true(fabsf(x[k] - y[k]) < 2e-3f); /* Adam turns rounding of tiny gradients into steps of lr */
  }
  desk_close(&one);
  desk_close(&three);
}

/* Tokens of an epoch are those of the lines, in whatever steps; evaluation is the mean over the held-out tokens. */
static void test_tokens_and_eval(void **state) {
  (void)state;
  int64_t all = 0;
  for (int i = 0; i < 35; i++) /* two lines are held out */
    all += 1 + i * 7 % 24 > 16 ? 16 : 1 + i * 7 % 24;
  desk d;
  hr_error err = {0};
  desk_open(&d, "none",
            OVERRIDES("data.source=lines", data_set, "data.buckets=[8, 16]", "training.eval_every=1",
                      "training.eval_batches=1", "training.gradient_accumulation=3"));
  int64_t tokens = 0, step = 0;
  while (d.session.sample < hr__data_epoch_rows(d.session.data)) {
    hr_step_result result;
    assert_int_equal(hr__session_step(&d.session, ++step, &result, &err), HR_OK);
    tokens += result.tokens;
  }
  assert_int_equal(d.session.sample, hr__data_epoch_rows(d.session.data));
  assert_int_equal(tokens, all);
  double once, twice;
  assert_int_equal(hr__session_eval(&d.session, step, &once, &err), HR_OK);
  d.session.eval_batches = 2; /* the same two lines again */
  assert_int_equal(hr__session_eval(&d.session, step, &twice, &err), HR_OK);
  assert_true(fabs(once - twice) < 1e-6 * once);
  desk_close(&d);
}

/* --- loss scaling ------------------------------------------------------------------------------------------------ */

/* Spoils or mends one weight. */
static void weight_set(desk *d, float value) {
  hr_error err = {0};
  hr_id p = hr__graph_find_value(d->tiny.graph, "model.norm.weight");
  assert_int_not_equal(p, HR_NONE);
  assert_int_equal(hr__run_write(d->session.run, p, 0, &value, sizeof value, &err), HR_OK);
}

/* With a scale, a loss that is not finite is a step that is skipped: the run goes on, the scale falls, nothing of the
 * optimizer moves; and a run that only skips ends with a message. */
static void test_skipped_steps(void **state) {
  (void)state;
  desk d;
  hr_error err = {0};
  hr_step_result result;
  char before[HR_SHA256_HEX], after[HR_SHA256_HEX];
  desk_open(&d, "none", OVERRIDES("training.gradient_accumulation=2"));
  d.session.scales = true;
  d.session.saved = 3;
  desk_steps(&d, 1, 3);
  assert_int_equal(d.session.scaler.applied_steps, 3);
  float weight;
  hr_id p = hr__graph_find_value(d.tiny.graph, "model.norm.weight");
  assert_int_equal(hr__run_read(d.session.run, p, 0, &weight, sizeof weight, &err), HR_OK);
  desk_sha256(&d, before);
  weight_set(&d, NAN);
  assert_int_equal(hr__session_step(&d.session, 4, &result, &err), HR_OK);
  assert_true(result.skipped && !isfinite(result.loss) && result.loss_scale == 65536);
  assert_int_equal(d.session.done, 4);
  assert_int_equal(d.session.sample, 4 * 4); /* the data went on */
  assert_true(d.session.scaler.scale == 32768 && d.session.scaler.applied_steps == 3);
  weight_set(&d, weight);
  desk_sha256(&d, after);
  assert_string_equal(before, after);
  assert_int_equal(hr__session_step(&d.session, 5, &result, &err), HR_OK);
  assert_true(!result.skipped && isfinite(result.loss) && result.loss_scale == 32768);
  desk_sha256(&d, after);
  assert_string_not_equal(before, after);
  assert_int_equal(d.session.scaler.applied_steps, 4);
  weight_set(&d, NAN);
  int64_t step = 6;
  while (hr__session_step(&d.session, step, &result, &err) == HR_OK)
    step++;
  assert_int_equal(step, 6 + 15); /* 2^15 to 2^-1 */
  assert_int_equal(err.status, HR_FAILURE);
  assert_non_null(strstr(err.message, "the gradients of step 21 overflow, as those of 15 steps before it did"));
  assert_non_null(strstr(err.message, "the newest checkpoint is that of step 3"));
  desk_close(&d);
}

/* Without one it is an error. */
static void test_not_skipped(void **state) {
  (void)state;
  desk d;
  hr_error err = {0};
  hr_step_result result;
  desk_open(&d, "none", OVERRIDES("training.gradient_accumulation=2"));
  weight_set(&d, NAN);
  assert_int_equal(hr__session_step(&d.session, 1, &result, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "the loss of step 1 is NaN"));
  desk_close(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_positions),       cmocka_unit_test(test_resume_schedule),
      cmocka_unit_test(test_resume_buckets),  cmocka_unit_test(test_resume_other_batch),
      cmocka_unit_test(test_schedule_of_one), cmocka_unit_test(test_buckets_change_nothing),
      cmocka_unit_test(test_tokens_and_eval), cmocka_unit_test(test_skipped_steps),
      cmocka_unit_test(test_not_skipped),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
