/* Memory that runs out at any request while a run is planned, started, saved and resumed: HR_NOMEM and nothing left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/file.h"
#include "part_tiny.h"
#include "support/faults.h"

static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

static hr_status plan_body(void *arg, hr_error *err) {
  (void)arg;
  tiny t;
  HR_TRY(tiny_open(&t, NULL, err));
  tiny_close(&t);
  return HR_OK;
}

static hr_status train_body(void *arg, hr_error *err) {
  const char *out = arg;
  folder_remove(out);
  hr_train_result result;
  return tiny_train((const char *const[]){"training.steps=1", NULL}, (hr_train_options){.out = out}, &result, err);
}

static hr_status resume_body(void *arg, hr_error *err) {
  hr_train_result result;
  return tiny_train((const char *const[]){"training.steps=1", NULL}, (hr_train_options){.out = arg, .resume = true},
                    &result, err);
}

/* A stage that begins with the weights of another, in another type, some of them frozen. */
static hr_status begin_body(void *arg, hr_error *err) {
  hr_train_result result;
  return tiny_train(
      (const char *const[]){"training.steps=1", "model.precision=bf16-mixed", "model.train=[lm_head]", NULL},
      (hr_train_options){.begin = arg}, &result, err);
}

static void test_plan(void **state) {
  (void)state;
  size_t own = hr_test_each_fault(plan_body, NULL), libraries = hr_test_each_library_fault(plan_body, NULL);
  print_message("plan: %zu of our requests and %zu of libraries failed\n", own, libraries);
  assert_true(own > 50);
}

static void test_train_and_resume(void **state) {
  (void)state;
  char *out = (char *)(uintptr_t)folder_make("start");
  size_t started = hr_test_each_fault(train_body, out), resumed = hr_test_each_fault(resume_body, out);
  size_t begun = hr_test_each_fault(begin_body, out);
  print_message("train: %zu requests failed, resume: %zu, from another run: %zu\n", started, resumed, begun);
  assert_true(started > 50 && resumed > 50 && begun > started);
  folder_remove(out);
  free(out);
}

int main(void) {
  hr_test_faults_install();
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan), cmocka_unit_test(test_train_and_resume)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
