/* The pool: every task exactly once, whatever the numbers; worker numbers unique; many short calls; sleep and wake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "base/threads.h"

enum { MOST_TASKS = 5000, MOST_THREADS = 8 };

typedef struct work {
  _Atomic int done[MOST_TASKS];
  _Atomic int busy[MOST_THREADS]; /* threads inside with this worker number */
  int threads;
  _Atomic int clashes;
  int64_t plain[MOST_TASKS]; /* written without atomics: the end of the call must make it visible */
} work;

static void task_count(void *arg, int64_t task, int worker) {
  work *w = arg;
  if (worker < 0 || worker >= w->threads || atomic_fetch_add(&w->busy[worker], 1) != 0)
    atomic_fetch_add(&w->clashes, 1);
  atomic_fetch_add(&w->done[task], 1);
  w->plain[task] += task + 1;
  atomic_fetch_sub(&w->busy[worker], 1);
}

static work shared;

static void tasks_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= MOST_THREADS; threads++) {
    hr_pool *pool = NULL;
    assert_int_equal(hr__pool_create(threads, &pool, NULL), HR_OK);
    assert_int_equal(hr__pool_threads(pool), threads);
    static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, MOST_TASKS};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
      for (int used = 0; used <= threads + 1; used++) {
        memset(&shared, 0, sizeof shared);
        shared.threads = used < 1 ? 1 : used > threads ? threads : used;
        hr__pool_run(pool, used, counts[i], task_count, &shared);
        assert_int_equal(atomic_load(&shared.clashes), 0);
        for (int64_t t = 0; t < MOST_TASKS; t++) {
          assert_int_equal(atomic_load(&shared.done[t]), t < counts[i]);
          assert_int_equal(shared.plain[t], t < counts[i] ? t + 1 : 0);
        }
      }
    }
    hr__pool_destroy(pool);
  }
}

static void task_add(void *arg, int64_t task, int worker) {
  (void)worker;
  ((int64_t *)arg)[task]++;
}

/* The step loop makes thousands of short calls; between some of them the workers fall asleep. Two threads spin for
 * new work where there are two processors, many more than there are processors always sleep. */
static void many_short_calls(void **state) {
  (void)state;
  enum { CALLS = 20000, TASKS = 6 };
  for (int threads = 2; threads <= 4; threads++) {
    hr_pool *pool = NULL;
    assert_int_equal(hr__pool_create(threads, &pool, NULL), HR_OK);
    int64_t sums[TASKS] = {0};
    for (int i = 0; i < CALLS; i++) {
      hr__pool_run(pool, 2 + i % 3, TASKS, task_add, sums);
      if (i % 2000 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    for (int i = 0; i < TASKS; i++)
      assert_int_equal(sums[i], CALLS);
    hr__pool_destroy(pool);
  }
}

static void task_wait(void *arg, int64_t task, int worker) {
  (void)worker;
  nanosleep(&(struct timespec){.tv_nsec = task ? 200000 : 3000000}, NULL);
  ((int64_t *)arg)[task]++;
}

/* One task takes far longer than the others: whoever is done first sleeps until it ends. */
static void uneven_tasks(void **state) {
  (void)state;
  hr_pool *pool = NULL;
  assert_int_equal(hr__pool_create(2, &pool, NULL), HR_OK);
  int64_t sums[3] = {0};
  for (int i = 0; i < 50; i++)
    hr__pool_run(pool, 2, 3, task_wait, sums);
  for (int i = 0; i < 3; i++)
    assert_int_equal(sums[i], 50);
  hr__pool_destroy(pool);
}

static void without_pool(void **state) {
  (void)state;
  int64_t sums[3] = {0};
  hr__pool_run(NULL, 4, 3, task_add, sums);
  for (int i = 0; i < 3; i++)
    assert_int_equal(sums[i], 1);
  hr__pool_destroy(NULL);
}

static void create_and_destroy(void **state) {
  (void)state;
  hr_error err;
  hr_pool *pool;
  for (int i = 0; i < 100; i++) {
    assert_int_equal(hr__pool_create(1 + i % 5, &pool, &err), HR_OK);
    hr__pool_destroy(pool);
  }
  assert_int_equal(hr__pool_create(0, &pool, &err), HR_USAGE);
  assert_int_equal(hr__pool_create(100000, &pool, &err), HR_USAGE);
  assert_true(hr__cpu_count() >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_once),   cmocka_unit_test(many_short_calls),   cmocka_unit_test(uneven_tasks),
      cmocka_unit_test(without_pool), cmocka_unit_test(create_and_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
