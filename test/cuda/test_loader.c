/* Opening a CUDA device where the plug-in is missing, broken or something else: a clear refusal, never a crash. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev/device.h"

/* Opens with HEADROOM_CUDA_PLUGIN naming `path`; expects a refusal whose message holds `words`. */
static void expect_refusal(const char *path, const char *words) {
  hr_error err = {0};
  hr_device *device = NULL;
  setenv("HEADROOM_CUDA_PLUGIN", path, 1);
  hr_status status = hr__cuda_open(&device, &err);
  unsetenv("HEADROOM_CUDA_PLUGIN");
  assert_int_equal(status, HR_UNSUPPORTED);
  assert_null(device);
  if (!strstr(err.message, words)) fail_msg("message \"%s\" lacks \"%s\"", err.message, words);
  assert_true(err.remedy[0] != '\0');
}

static void test_missing(void **state) {
  (void)state;
  expect_refusal("/no/such/folder/libheadroom_cuda.so", "cannot be read");
}

static void test_not_a_library(void **state) {
  (void)state;
  char path[] = "/tmp/headroom-plugin-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "not a library", 13), 13);
  close(fd);
  expect_refusal(path, "cannot be loaded");
  unlink(path);
}

static void test_another_library(void **state) {
  (void)state;
  Dl_info info;
  void *symbol = dlsym(RTLD_DEFAULT, "strlen");
  assert_true(symbol && dladdr(symbol, &info) && info.dli_fname && access(info.dli_fname, R_OK) == 0);
  expect_refusal(info.dli_fname, "not a plug-in");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing), cmocka_unit_test(test_not_a_library),
                                     cmocka_unit_test(test_another_library)};
  return cmocka_run_group_tests_name("loading the CUDA plug-in", tests, NULL, NULL);
}
