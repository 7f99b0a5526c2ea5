/* Memory that runs out at any request while a run is planned, started, saved and resumed: HR_NOMEM and nothing left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "format/file.h"
#include "part_tiny.h"
#include "support/faults.h"

static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

static const char *const settings[] = {"training.steps=1", NULL};

/* Of a stage that begins with the weights of another, in another type, some of them frozen. */
static const char *const other_settings[] = {"training.steps=1", "model.precision=bf16-mixed", "model.train=[lm_head]",
                                             NULL};

static hr_status plan_body(void *arg, hr_error *err) {
  tiny t;
  HR_TRY(tiny_open(&t, arg, err));
  tiny_close(&t);
  return HR_OK;
}

/* What is trained is planned once: faults while it is planned are those of plan_body. */
typedef struct start {
  tiny planned, other;
  const char *out;
} start;

static hr_status train(const tiny *t, hr_train_options options, hr_error *err) {
  hr_train_result result;
  options.recipe = t->recipe;
  options.plan = t->plan;
  options.device = t->device;
  return hr__train(&options, &result, err);
}

static hr_status train_body(void *arg, hr_error *err) {
  const start *s = arg;
  folder_remove(s->out);
  return train(&s->planned, (hr_train_options){.out = s->out}, err);
}

static hr_status resume_body(void *arg, hr_error *err) {
  const start *s = arg;
  return train(&s->planned, (hr_train_options){.out = s->out, .resume = true}, err);
}

static hr_status begin_body(void *arg, hr_error *err) {
  const start *s = arg;
  return train(&s->other, (hr_train_options){.begin = s->out}, err);
}

static void test_plan(void **state) {
  (void)state;
  void *both[] = {(void *)(uintptr_t)settings, (void *)(uintptr_t)other_settings};
  for (int other = 0; other < 2; other++) {
    size_t own = hr_test_each_fault(plan_body, both[other]),
           libraries = hr_test_each_library_fault(plan_body, both[other]);
    print_message("plan: %zu of our requests and %zu of libraries failed\n", own, libraries);
    assert_true(own > 50);
  }
}

static void test_train_and_resume(void **state) {
  (void)state;
  start s = {.out = folder_make("start")};
  hr_error err = {0};
  assert_int_equal(tiny_open(&s.planned, settings, &err), HR_OK);
  assert_int_equal(tiny_open(&s.other, other_settings, &err), HR_OK);
  size_t started = hr_test_each_fault(train_body, &s), resumed = hr_test_each_fault(resume_body, &s);
  size_t begun = hr_test_each_fault(begin_body, &s);
  print_message("train: %zu requests failed, resume: %zu, from another run: %zu\n", started, resumed, begun);
  assert_true(started > 50 && resumed > 50 && begun > 50);
  tiny_close(&s.other);
  tiny_close(&s.planned);
  folder_remove(s.out);
  free((void *)(uintptr_t)s.out);
}

int main(void) {
  hr_test_faults_install();
  hr__system_root_set("/nonexistent"); /* sixty files of control groups a start, for which no memory is asked */
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan), cmocka_unit_test(test_train_and_resume)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
