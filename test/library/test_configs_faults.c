/* Configs of include/headroom.h when memory runs out: nothing leaks, no key of an answer is lost, and the file is never
 * anything but the old or the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "headroom.h"
#include "support/faults.h"

static const char config[] = "trainer: { accumulate_grad_batches: 7 }\ndata: { batch_size: 45 }\n";

typedef struct fixture {
  char path[512];
  hr_job *job;
} fixture;

static void holds(const char *path, const char *wanted) {
  char text[256];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = '\0';
  assert_string_equal(text, wanted);
}

static hr_status apply_and_revert(void *arg, hr_error *err) {
  fixture *f = arg;
  const char *paths[] = {f->path};
  hr_configs configs = {.size = sizeof configs, .paths = paths, .count = 1};
  char *json = NULL, *diff = NULL;
  if (hr_job_apply(f->job, &configs, &json, &diff, err) != HR_RESULT_OK) {
    holds(f->path, config);
    assert_true(json == NULL && diff == NULL);
    return err->status;
  }
  hr_text_destroy(json);
  hr_text_destroy(diff);
  hr_status status = HR_OK;
  if (hr_configs_revert(&configs, &json, &diff, err) != HR_RESULT_OK) {
    status = err->status;
    assert_true(json == NULL && diff == NULL);
    hr_test_faults_disarm(); /* it is back already, or can still be taken back */
    hr_result again = hr_configs_revert(&configs, NULL, NULL, NULL);
    assert_true(again == HR_RESULT_OK || again == HR_RESULT_BAD_INPUT);
  }
  hr_text_destroy(json);
  hr_text_destroy(diff);
  holds(f->path, config);
  return status;
}

static void test_memory_runs_out(void **state) {
  (void)state;
  fixture f = {0};
  hr_error err;
  static const char *const overrides[] = {"training.batch_size=4", "training.gradient_accumulation=2",
                                          "memory.device=cpu"};
  assert_int_equal(hr_job_create(HR_SOURCE_DIR "/recipes/demo.yaml", overrides, 3, &f.job, &err), HR_RESULT_OK);
  char folder[] = HR_BINARY_DIR "/faults-XXXXXX";
  assert_non_null(mkdtemp(folder));
  snprintf(f.path, sizeof f.path, "%s/config.yaml", folder);
  FILE *file = fopen(f.path, "w");
  assert_non_null(file);
  assert_true(fputs(config, file) >= 0 && fclose(file) == 0);
  size_t live = hr_test_live_bytes();
  assert_true(hr_test_each_fault(apply_and_revert, &f) > 20);
  assert_int_equal(hr_test_live_bytes(), live);
  hr_job_destroy(f.job);
  assert_int_equal(remove(f.path), 0);
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_runs_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
