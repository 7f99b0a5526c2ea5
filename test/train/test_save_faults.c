/* Faults of the file system in a save: whatever call fails, the error is clean, and a good checkpoint is there after
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "part_session.h"
#include "support/file_faults.h"

enum { OLD = 3, NEW = 5 };

/* Durability is not what is tested here: without waiting for the disk the test is quick. */
static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

typedef struct fixture {
  desk d;
  const char *out;
  char sha256[2][HR_SHA256_HEX];
} fixture;

static hr_status save_body(void *arg, hr_error *err) {
  fixture *f = arg;
  return desk_save(&f->d, NEW, err);
}

/* The newest good checkpoint is the new one after success, and one of the two after a failure; then all is put back. */
static void save_check(void *arg, hr_status status) {
  fixture *f = arg;
  hr_error err = {0};
  int64_t step;
  char hex[HR_SHA256_HEX];
  if (desk_load(&f->d, &step, &err) != HR_OK) fail_msg("no checkpoint is left: %s", err.message);
  if (step != NEW && (step != OLD || status == HR_OK))
    fail_msg("after %s: step %lld", hr_status_name(status), (long long)step);
  desk_sha256(&f->d, hex);
  assert_string_equal(hex, f->sha256[step == NEW]);
  folder_remove(path_join(f->out, "generation-00000005"));
  assert_int_equal(desk_load(&f->d, &step, &err), HR_OK);
  assert_int_equal(step, OLD);
  desk_steps(&f->d, OLD + 1, NEW); /* what the next save shall write */
}

static void test_save(void **state) {
  (void)state;
  fixture *f = calloc(1, sizeof *f);
  f->out = folder_make("faults");
  mkdir(f->out, 0755);
  desk_open(&f->d, f->out, NULL);
  hr_error err = {0};
  desk_steps(&f->d, 1, OLD);
  desk_sha256(&f->d, f->sha256[0]);
  assert_int_equal(desk_save(&f->d, OLD, &err), HR_OK);
  desk_steps(&f->d, OLD + 1, NEW);
  desk_sha256(&f->d, f->sha256[1]);
  size_t injected = hr_test_each_file_fault(save_body, save_check, f);
  print_message("%zu faults in a save\n", injected);
  assert_true(injected > 100);
  desk_close(&f->d);
  folder_remove(f->out);
  free((void *)(uintptr_t)f->out);
  free(f);
}

static hr_status train_body(void *arg, hr_error *err) {
  hr_train_result result;
  return tiny_train((const char *const[]){"training.steps=2", "training.save_every=1", NULL},
                    (hr_train_options){.out = arg}, &result, err);
}

static void train_check(void *arg, hr_status status) {
  const char *out = arg;
  hr_error err = {0};
  hr_train_result result;
  /* Going on works whatever happened, and what was reported as saved is there. */
  hr_status resumed = tiny_train((const char *const[]){"training.steps=2", NULL},
                                 (hr_train_options){.out = out, .resume = true}, &result, &err);
  if (resumed != HR_OK) fail_msg("cannot resume: %s: %s", err.place, err.message);
  if (status == HR_OK) assert_int_equal(result.steps_here, 0);
  folder_remove(out);
}

static void test_train(void **state) {
  (void)state;
  const char *out = folder_make("faults-train");
  size_t injected = hr_test_each_file_fault(train_body, train_check, (void *)(uintptr_t)out);
  print_message("%zu faults in a run\n", injected);
  assert_true(injected > 100);
  free((void *)(uintptr_t)out);
}

int main(void) {
  hr__system_root_set("/nonexistent"); /* as in test_start_faults.c */
  hr_test_faults_install();
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_save), cmocka_unit_test(test_train)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
