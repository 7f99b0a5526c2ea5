/* Steady memory: from the first steps on nothing is requested, and neither the heap nor the resident set grows. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "part_session.h"
#include "support/faults.h"

enum { WARM = 20, STEPS = 1000, ROUNDS = 4 };

/* Out of the page tables: /proc/self/statm counts pages in batches, up to 63 of each thread late. */
static size_t resident_bytes(void) {
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  if (!file) file = fopen("/proc/self/smaps", "r"); /* the same by mappings */
  assert_non_null(file);
  char line[512];
  size_t bytes = 0, kilobytes;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Rss: %zu kB", &kilobytes) == 1) bytes += kilobytes * 1024;
  fclose(file);
  assert_true(bytes > 0);
  return bytes;
}

static size_t heap_bytes(void) {
#ifdef HR_ASAN
  return 0; /* its own allocator keeps freed blocks for a while */
#else
  return mallinfo2().uordblks;
#endif
}

typedef struct memory {
  uint64_t requests; /* of headroom itself, so far */
  size_t live_bytes, heap, resident;
} memory;

static memory memory_now(void) {
  return (memory){hr__alloc_count(), hr_test_live_bytes(), heap_bytes(), resident_bytes()};
}

/* Memory before and after some steps. The steps that warm up go this way too, so that the stack is as deep. */
static void round_run(desk *d, int64_t first, int64_t steps, memory *before, memory *after) {
  *before = memory_now();
  desk_steps(d, first, first + steps - 1);
  *after = memory_now();
}

/* Whether heap and resident set stand still over a round of steps. What headroom itself requests is nothing, always. */
static bool memory_stands(const memory *before, const memory *after) {
  assert_int_equal(after->requests, before->requests);
  assert_int_equal(after->live_bytes, before->live_bytes);
#ifdef HR_ASAN
  return after->heap == before->heap;
#else
  return after->heap == before->heap && after->resident == before->resident;
#endif
}

/* On one thread every step does the same, so not a byte may move after the first steps. With several, a worker makes
 * the libraries' objects of its own and touches its stack when it first gets a task, which may be late: that may spoil
 * a round, but not all of them; anything that grows with the steps spoils every round. */
static void steady(const char *threads, int rounds, const char *const *overrides) {
  assert_int_equal(setenv("HEADROOM_THREADS", threads, 1), 0);
  desk d;
  desk_open(&d, "nowhere", overrides);
  memory before, after;
  round_run(&d, 1, WARM, &before, &after); /* the C library makes buffers of its own, too */
  bool still = false;
  for (int64_t round = 0; round < rounds && !still; round++) {
    round_run(&d, WARM + 1 + round * STEPS, STEPS, &before, &after);
    still = memory_stands(&before, &after);
  }
  assert_true(still);
  desk_close(&d);
}

static const char *const accumulated[] = {"training.gradient_accumulation=2", "training.batch_size=1",
                                          "model.precision=bf16-true", NULL};

static void test_step(void **state) {
  (void)state;
  steady("1", 1, NULL);
}

static void test_step_on_two_threads(void **state) {
  (void)state;
  steady("2", ROUNDS, NULL);
}

static void test_accumulated(void **state) {
  (void)state;
  steady("1", 1, accumulated);
}

static void test_accumulated_on_two_threads(void **state) {
  (void)state;
  steady("2", ROUNDS, accumulated);
}

static void test_saves_leave_nothing(void **state) {
  (void)state;
  const char *out = folder_make("steady");
  assert_int_equal(mkdir(out, 0755), 0);
  desk d;
  hr_error err = {0};
  desk_open(&d, out, NULL);
  for (int64_t step = 1; step <= 3; step++)
    assert_int_equal(desk_save(&d, step, &err), HR_OK);
  size_t live = hr_test_live_bytes(), heap = heap_bytes();
  for (int64_t step = 4; step <= 12; step++)
    assert_int_equal(desk_save(&d, step, &err), HR_OK);
  assert_int_equal(hr_test_live_bytes(), live);
  assert_int_equal(heap_bytes(), heap);
  desk_close(&d);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Freed blocks that glibc keeps per thread would count as live: starts again with one arena and without those caches.
 */
static void allocator_made_exact(char **argv) {
  static const char tunables[] = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1";
  const char *set = getenv("GLIBC_TUNABLES");
  if (set && strcmp(set, tunables) == 0) return;
  assert_int_equal(setenv("GLIBC_TUNABLES", tunables, 1), 0);
  execv("/proc/self/exe", argv);
  fail_msg("could not start again");
}

int main(int argc, char **argv) {
  (void)argc;
  allocator_made_exact(argv);
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_step), cmocka_unit_test(test_step_on_two_threads), cmocka_unit_test(test_accumulated),
      cmocka_unit_test(test_accumulated_on_two_threads), cmocka_unit_test(test_saves_leave_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
