/* Merging with memory that runs out and calls that fail: the error is clean, and the folder is there whole or not at
 * all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/safetensors.h"
#include "part_tiny.h"
#include "support/file_faults.h"
#include "train/merge.h"

#define SMALL     "training.steps=1", "model.config.hidden_size=16", "model.config.intermediate_size=32"
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct fixture {
  const char *base, *run, *out;
} fixture;

static hr_status merge_body(void *arg, hr_error *err) {
  const fixture *f = arg;
  hr_merge_options options = {.run = f->run, .out = f->out, .dtype = HR_BF16};
  hr_merge_result result;
  hr_status status = hr__merge_run(&options, &result, err);
  if (status == HR_OK && access(path_join(f->out, "config.json"), F_OK) != 0) fail_msg("merged, but not there");
  folder_remove(f->out); /* for the next time */
  return status;
}

/* What is there is whole. */
static void merge_check(void *arg, hr_status status) {
  const fixture *f = arg;
  (void)status;
  assert_int_not_equal(access(f->out, F_OK), 0);
}

static hr_status merge_once(void *arg, hr_error *err) {
  const fixture *f = arg;
  hr_merge_options options = {.run = f->run, .out = f->out, .dtype = HR_F32};
  hr_merge_result result;
  return hr__merge_run(&options, &result, err);
}

static void whole_check(void *arg, hr_status status) {
  const fixture *f = arg;
  hr_safetensors *file;
  hr_error err = {0};
  bool there = access(f->out, F_OK) == 0;
  if (status == HR_OK) assert_true(there);
  if (there) {
    assert_int_equal(hr__safetensors_open(path_join(f->out, "model.safetensors"), &file, &err), HR_OK);
    hr__safetensors_close(file);
    assert_int_equal(access(path_join(f->out, "config.json"), F_OK), 0);
    assert_int_equal(access(path_join(f->out, "tokenizer.json"), F_OK), 0);
  }
  folder_remove(f->out);
}

static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

static void make(fixture *f) {
  char path[4096];
  *f = (fixture){folder_make("merge-base"), folder_make("merge-run"), folder_make("merge-out")};
  train_ok(LIST(SMALL), (hr_train_options){.out = f->base});
  snprintf(path, sizeof path, "model.path=%s", path_join(f->base, "generation-00000001"));
  file_put(path_join(f->base, "generation-00000001/tokenizer.json"), "{}", 2);
  train_ok(LIST(path, SMALL, "model.adapters={kind: lora, rank: 2}", "data.tokenizer=bytes"),
           (hr_train_options){.out = f->run});
}

static void end(fixture *f) {
  const char *const folders[] = {f->base, f->run, f->out};
  for (int i = 0; i < 3; i++) {
    folder_remove(folders[i]);
    free((void *)(uintptr_t)folders[i]);
  }
}

static void test_memory(void **state) {
  (void)state;
  fixture f;
  make(&f);
  assert_true(hr_test_each_fault(merge_body, &f) >= 20);
  merge_check(&f, HR_OK);
  end(&f);
}

static void test_files(void **state) {
  (void)state;
  fixture f;
  make(&f);
  hr__file_calls.fdatasync = hr__file_calls.fsync = sync_nothing;
  hr_test_each_file_fault(merge_once, whole_check, &f);
  end(&f);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
