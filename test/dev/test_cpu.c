/* The CPU device: facts, arenas, recordings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "base/limits.h"
#include "dev/device.h"

static int opened(void **state) {
  hr_error err = {0};
  return hr__cpu_open((hr_device **)state, &err) == HR_OK ? 0 : -1;
}

static int closed(void **state) {
  hr__device_close(*state);
  return 0;
}

static void test_names(void **state) {
  (void)state;
  assert_string_equal(hr_tier_name(HR_TIER_DEVICE), "device");
  assert_string_equal(hr_tier_name(HR_TIER_HOST), "host");
  assert_string_equal(hr_tier_name(HR_TIER_DISK), "disk");
  assert_string_equal(hr_device_kind_name(HR_CPU), "cpu");
  assert_string_equal(hr_device_kind_name(HR_CUDA), "cuda");
}

static void test_facts(void **state) {
  (void)state;
  hr_facts facts;
  hr__cpu_facts(&facts);
  assert_int_equal(facts.kind, HR_CPU);
  assert_int_equal(facts.threads, hr__cpu_count());
  assert_int_equal(facts.alignment, 64);
  assert_true(facts.memory_bytes > (64u << 20));
  assert_true(facts.fixed_bytes > (4u << 20) && facts.fixed_bytes < (512u << 20));
  assert_non_null(strstr(facts.name, "thread"));
}

static void text_put(const char *folder, const char *name, const char *text) {
  char path[2048];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

/* A group above that of the process has 64 MiB, of which 60 are in use: planned for, and not exceeded. */
static void test_memory_of_a_group(void **state) {
  hr_device *device = *state;
  char root[1024], command[4096];
  snprintf(root, sizeof root, "%s/cpu-groups-%ld", HR_BINARY_DIR, (long)getpid());
  snprintf(command, sizeof command, "mkdir -p '%s/proc/self' '%s/sys/fs/cgroup/outer/inner'", root, root);
  assert_int_equal(system(command), 0);
  text_put(root, "proc/self/cgroup", "0::/outer/inner\n");
  text_put(root, "proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  text_put(root, "sys/fs/cgroup/outer/memory.max", "67108864\n");
  text_put(root, "sys/fs/cgroup/outer/memory.current", "62914560\n");
  text_put(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  hr__system_root_set(root);
  hr_facts facts;
  hr__cpu_facts(&facts);
  void *base;
  hr_error err = {0};
  hr_status fits = hr__host_memory_create(device->pool, 1 << 20, &base, &err);
  if (fits == HR_OK) hr__host_memory_destroy(base, 1 << 20);
  hr_status too_large = hr__host_memory_create(device->pool, 5 << 20, &base, &err);
  hr__system_root_set("");
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
  assert_int_equal(facts.memory_bytes, 64 << 20);
  assert_int_equal(fits, HR_OK);
  assert_int_equal(too_large, HR_NO_FIT);
}

static void test_threads_by_environment(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int threads; /* 0: as many as processors */
  } cases[] = {{"3", 3}, {"1", 1}, {"0", 0}, {"-2", 0}, {"two", 0}, {"", 0}, {"999999", 1024}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_facts facts;
    setenv("HEADROOM_THREADS", cases[i].text, 1);
    hr__cpu_facts(&facts);
    assert_int_equal(facts.threads, cases[i].threads ? cases[i].threads : hr__cpu_count());
  }
  unsetenv("HEADROOM_THREADS");
}

static void test_arena(void **state) {
  hr_device *device = *state;
  const size_t bytes = (40u << 20) + 100;
  hr_error err = {0};
  void *base = NULL;
  uint64_t peak = 0;
  assert_int_equal(device->functions->arena_create(device, HR_TIER_DEVICE, bytes, &base, &err), HR_OK);
  assert_int_equal((uintptr_t)base % device->facts.alignment, 0);
  for (size_t i = 0; i < bytes; i++)
    if (((char *)base)[i] != 0) fail_msg("byte %zu is not zero", i);
  memset(base, 1, bytes);
  assert_int_equal(device->functions->process_bytes(device, &peak, &err), HR_OK);
  assert_true(peak >= bytes);
  device->functions->arena_destroy(device, HR_TIER_DEVICE, base, bytes);

  assert_int_equal(device->functions->arena_create(device, HR_TIER_HOST, 0, &base, &err), HR_OK);
  device->functions->arena_destroy(device, HR_TIER_HOST, base, 0);
  assert_int_equal(device->functions->arena_create(device, HR_TIER_HOST, (size_t)1 << 62, &base, &err), HR_NO_FIT);
}

/* A kernel that appends its argument to a list, and fails on 9. */
typedef struct list {
  int items[8];
  int count;
} list;

static hr_status append(const hr_call *call) {
  list *to = call->workspace;
  int item = *(const int *)call->args;
  if (item == 9) return HR_FAILURE;
  to->items[to->count++] = item;
  return HR_OK;
}

static void test_recording(void **state) {
  hr_device *device = *state;
  static const hr_kernel kernel = {.run = append};
  static const int numbers[] = {4, 5, 9, 6};
  list seen = {0};
  hr_launch launches[4];
  for (int i = 0; i < 4; i++)
    launches[i] = (hr_launch){.kernel = &kernel,
                              .call = {.args = &numbers[i], .workspace = &seen, .device = device, .threads = 1}};
  hr_error err = {0};
  hr_recording *good = NULL, *bad = NULL;
  size_t failed = 0;
  assert_int_equal(device->functions->record(device, launches, 2, &good, &failed, &err), HR_OK);
  assert_int_equal(device->functions->record(device, launches, 4, &bad, &failed, &err), HR_OK);
  assert_int_equal(device->functions->replay(device, good, &failed), HR_OK);
  assert_int_equal(device->functions->replay(device, good, &failed), HR_OK);
  assert_int_equal(device->functions->replay(device, bad, &failed), HR_FAILURE);
  assert_int_equal(failed, 2);
  assert_int_equal(device->functions->launch(device, &launches[3]), HR_OK);
  assert_int_equal(device->functions->synchronize(device, &err), HR_OK);
  const int expected[] = {4, 5, 4, 5, 4, 5, 6};
  assert_int_equal(seen.count, 7);
  assert_memory_equal(seen.items, expected, sizeof expected);
  device->functions->recording_destroy(device, good);
  device->functions->recording_destroy(device, bad);
}

static void test_copy(void **state) {
  hr_device *device = *state;
  hr_error err = {0};
  char from[] = "abc", to[4] = {0};
  assert_int_equal(device->functions->copy(device, HR_COPY_TO_DEVICE, to, from, 4, &err), HR_OK);
  assert_string_equal(to, "abc");
  assert_int_equal(device->functions->copy(device, HR_COPY_FROM_DEVICE, NULL, NULL, 0, &err), HR_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_facts),
      cmocka_unit_test_setup_teardown(test_memory_of_a_group, opened, closed),
      cmocka_unit_test(test_threads_by_environment),
      cmocka_unit_test_setup_teardown(test_arena, opened, closed),
      cmocka_unit_test_setup_teardown(test_recording, opened, closed),
      cmocka_unit_test_setup_teardown(test_copy, opened, closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
