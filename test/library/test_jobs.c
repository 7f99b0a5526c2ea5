/* Jobs and devices of include/headroom.h: what the program has, as the same objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "headroom.h"

#define DEMO HR_SOURCE_DIR "/recipes/demo.yaml"

static json_t *parsed(char *text) {
  assert_non_null(text);
  json_t *object = json_loads(text, 0, NULL);
  assert_non_null(object);
  hr_text_destroy(text);
  return object;
}

static json_t *plan_of(hr_job *job) {
  char *text = NULL;
  assert_int_equal(hr_job_plan_json(job, &text, NULL), HR_RESULT_OK);
  return parsed(text);
}

static json_t *setting_of(json_t *plan, const char *section, const char *name) {
  return json_object_get(json_object_get(json_object_get(plan, "settings"), section), name);
}

/* What neither recipe nor override writes is open, what they write stays, and the plan is no slower. */
static void test_auto(void **state) {
  (void)state;
  static const char *const overrides[] = {"memory.checkpoint=every-layer", "memory.device=cpu"};
  hr_error *error = hr_error_create();
  hr_job *closed = NULL, *open = NULL;
  if (hr_job_create(DEMO, overrides, 2, &closed, error) != HR_RESULT_OK ||
      hr_job_create_auto(DEMO, overrides, 2, &open, error) != HR_RESULT_OK)
    fail_msg("%s", hr_error_message(error));
  json_t *before = plan_of(closed), *after = plan_of(open);
  assert_true(json_is_null(json_object_get(before, "search")));
  json_t *knobs = json_object_get(json_object_get(after, "search"), "open");
  assert_true(json_array_size(knobs) > 0);
  for (size_t i = 0; i < json_array_size(knobs); i++) {
    const char *key = json_string_value(json_object_get(json_array_get(knobs, i), "key"));
    assert_string_not_equal(key, "memory.checkpoint");
  }
  assert_string_equal(json_string_value(setting_of(after, "memory", "checkpoint")), "every-layer");
  assert_true(hr_job_fits(closed) && hr_job_fits(open));
  assert_true(hr_job_step_seconds(open) <= hr_job_step_seconds(closed));
  json_decref(before);
  json_decref(after);
  hr_job_destroy(closed);
  hr_job_destroy(open);
  hr_error_destroy(error);
}

static void test_auto_refuses(void **state) {
  (void)state;
  hr_error *error = hr_error_create();
  hr_job *job = (hr_job *)state;
  static const char *const wrong[] = {"training.batch_sise=4"};
  assert_int_equal(hr_job_create_auto(DEMO, wrong, 1, &job, error), HR_RESULT_BAD_INPUT);
  assert_null(job);
  assert_non_null(strstr(hr_error_message(error), "batch_sise"));
  hr_error_destroy(error);
}

static void test_devices(void **state) {
  (void)state;
  char *text = NULL;
  assert_int_equal(hr_devices_json(&text, NULL), HR_RESULT_OK);
  json_t *object = parsed(text), *devices = json_object_get(object, "devices");
  assert_true(json_array_size(devices) >= 1);
  json_t *cpu = json_array_get(devices, 0);
  assert_string_equal(json_string_value(json_object_get(cpu, "kind")), "cpu");
  assert_true(json_integer_value(json_object_get(cpu, "memory_bytes")) > 0);
  assert_true(json_is_object(json_object_get(cpu, "rates")));
  json_decref(object);
}

/* Every GPU of the catalogue can be planned for by its label. */
static void test_gpus(void **state) {
  (void)state;
  char *text = NULL, gpu[128];
  assert_int_equal(hr_gpus_json(&text, NULL), HR_RESULT_OK);
  json_t *object = parsed(text), *gpus = json_object_get(object, "gpus");
  assert_true(json_array_size(gpus) > 100);
  for (size_t i = 0; i < json_array_size(gpus); i += 40) {
    const char *label = json_string_value(json_object_get(json_array_get(gpus, i), "label"));
    const char *const overrides[] = {"memory.device=cuda", gpu, "memory.budget=auto"};
    hr_error *error = hr_error_create();
    hr_job *job = NULL;
    snprintf(gpu, sizeof gpu, "memory.gpu=%s", label);
    if (hr_job_create(DEMO, overrides, 3, &job, error) != HR_RESULT_OK)
      fail_msg("%s: %s", gpu, hr_error_message(error));
    hr_job_destroy(job);
    hr_error_destroy(error);
  }
  json_decref(object);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_auto), cmocka_unit_test(test_auto_refuses),
                                     cmocka_unit_test(test_devices), cmocka_unit_test(test_gpus)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
