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

static size_t resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  size_t total, resident;
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%zu %zu", &total, &resident), 2);
  fclose(file);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t heap_bytes(void) {
#ifdef HR_ASAN
  return 0; /* its own allocator keeps freed blocks for a while */
#else
  return mallinfo2().uordblks;
#endif
}

/* Whether heap and resident set stand still over a round of steps. What headroom itself requests is nothing, always. */
static bool round_is_still(desk *d, int64_t first) {
  uint64_t requests = hr__alloc_count();
  size_t live = hr_test_live_bytes(), heap = heap_bytes(), resident = resident_bytes();
  desk_steps(d, first, first + STEPS - 1);
  assert_int_equal(hr__alloc_count(), requests);
  assert_int_equal(hr_test_live_bytes(), live);
#ifdef HR_ASAN
  (void)resident;
  return heap_bytes() == heap;
#else
  return heap_bytes() == heap && resident_bytes() == resident;
#endif
}

/* On one thread every step does the same, so not a byte may move after the first steps. With several, a worker makes
 * the libraries' objects of its own and touches its stack when it first gets a task, which may be late: that may spoil
 * a round, but not all of them; anything that grows with the steps spoils every round. */
static void steady(const char *threads, int rounds, const char *const *overrides) {
  assert_int_equal(setenv("HEADROOM_THREADS", threads, 1), 0);
  desk d;
  desk_open(&d, "nowhere", overrides);
  desk_steps(&d, 1, WARM);
  (void)resident_bytes(); /* the C library makes its own buffers once */
  bool still = false;
  for (int64_t round = 0; round < rounds && !still; round++)
    still = round_is_still(&d, WARM + 1 + round * STEPS);
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
