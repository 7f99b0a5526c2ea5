/* A model that takes no tokens: the recipe has no sequence length, and speed is told, and settings are ranked, by
 * samples.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "job/answer.h"
#include "model/losses.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "part_tiny.h"
#include "train/answer.h"

enum { WIDE = 64 };
static const hr_reported reported[] = {{.name = "fit", .weight = 1, .over = HR_OVER_SAMPLES}};

static void fields(const hr_model_part *part, const hr_field_shape *shape, hr_fields *out) {
  (void)part;
  hr_desc desc = hr__desc2(HR_F32, shape->batch, WIDE);
  hr__field_add(out, (hr_field){.name = "x", .purpose = HR_FOR_VALUES, .desc = desc});
}

static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr__module(b, "map");
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.1f};
  hr_id w = hr__parameter(b, "map.weight", hr__desc2(b->dtype, WIDE, WIDE), init);
  hr_id y = hr__linear(b, hr__batch_field(batch, "x"), w, HR_NONE);
  hr_id sum = hr__reduce(b, HR_REDUCE_SUM, hr__unary(b, HR_FORMULA_square, y, 0, 0), 3);
  hr_id fit = hr__squeeze(b, sum, 1);
  hr__report(b, part->model, batch, "fit", fit);
  return fit;
}

static const hr_model plain = {
    .family = "plain", .forward = forward, .fields = fields, .reported = reported, .n_reported = 1};

static const char recipe[] = "model: { family: plain }\n"
                             "data: { source: synthetic }\n"
                             "training: { batch_size: 4, steps: 8, optimizer: { lr: 1e-3 } }\n"
                             "memory: { device: cpu }\n";

typedef struct desk {
  const char *folder, *path;
  hr_job *job;
} desk;

static void desk_open(desk *d, const char *const *overrides, size_t count) {
  hr_error err = {0};
  d->folder = folder_make("without-tokens");
  assert_int_equal(mkdir(d->folder, 0700), 0);
  d->path = path_join(d->folder, "plain.yaml");
  file_put(d->path, recipe, sizeof recipe - 1);
  if (hr__job_open(&(hr_job_source){d->path, overrides, count}, &d->job, &err) != HR_OK)
    fail_msg("%s: %s", err.place, err.message);
}

static void desk_close(desk *d) {
  hr__job_close(d->job);
  folder_remove(d->folder);
  free((char *)(uintptr_t)d->folder);
}

static double number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

static void test_speed_is_by_sample(void **state) {
  (void)state;
  desk d;
  desk_open(&d, NULL, 0);
  json_t *plan = hr__answer_plan(d.job, NULL, 0);
  assert_true(number(plan, "tokens_per_second") == 0);
  assert_true(fabs(number(plan, "samples_per_second") * number(plan, "step_seconds") - 4) < 1e-6);
  json_decref(plan);
  hr_error err = {0};
  hr_device *device;
  hr_profile profile;
  hr_times times = {0};
  assert_int_equal(hr__job_device(d.job, &device, &err), HR_OK);
  hr_train_options options = {.recipe = d.job->recipe, .plan = d.job->plan, .device = device};
  assert_int_equal(hr__profile(&options, 2, &profile, NULL, &err), HR_OK);
  json_t *answer = hr__answer_profile(d.job, &profile, &times), *measured = json_object_get(answer, "measured");
  assert_true(number(measured, "tokens_per_second") == 0);
  assert_true(fabs(number(measured, "samples_per_second") * number(measured, "step_seconds") - 4) < 1e-6);
  json_decref(answer);
  hr__device_close(device);
  desk_close(&d);
}

/* Whatever length is given: it is no measure of anything. */
static void test_ranked_by_sample(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    desk d;
    const char *const overrides[] = {"training.batch_size=[1, 8, 32]", "data.sequence_length=16"};
    desk_open(&d, overrides, 1 + (size_t)given);
    const hr_found *chosen = &d.job->search.chosen;
    assert_string_equal(chosen->overrides[0], "training.batch_size=32"); /* a step has fixed costs */
    assert_true(fabs(chosen->token_seconds * 32 - chosen->step_seconds) < 1e-6);
    desk_close(&d);
  }
}

/* One that takes tokens needs their number. */
static void test_tokens_need_a_length(void **state) {
  (void)state;
  hr_error err =
      train_fails((const char *const[]){"data.sequence_length=null", NULL}, (hr_train_options){0}, HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "sequence_length"));
}

int main(void) {
  hr__model_register(&plain);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_speed_is_by_sample), cmocka_unit_test(test_ranked_by_sample),
                                     cmocka_unit_test(test_tokens_need_a_length)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
