/* The thread pool: see base/threads.h.
 *
 * One 64-bit word, the gate, says whether a job is open:   generation : 40 | limit : 12 | joined : 12
 * A worker enters a job by raising `joined` while joined < limit; its worker number is the new `joined`. The caller
 * works too, and when no task is left closes the gate (limit = 0) and waits only for those who had entered. A worker
 * that wakes late therefore delays nobody. The fields of a job are written only while nobody is inside, and read only
 * by those who entered, so the compare-and-swap on the gate orders every access.
 *
 * Tasks are cut into one range per thread. A thread works through the range of its own number first and then helps with
 * the others: neighbouring tasks, and the same part of the next job's data, stay in one core's cache, and nobody idles
 * while there is work.
 *
 * Sleeping follows one pattern on both sides: announce (counter or flag), look again, sleep; the other side changes the
 * word, then looks at the announcement. All four accesses are sequentially consistent, so one of them sees the other.
 */
#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/limits.h"
#include "base/mem.h"

enum { POOL_MOST = 1024, SPIN_NS = 1000000, COUNT_BITS = 12 };
#define COUNT_MASK (((uint64_t)1 << COUNT_BITS) - 1)

typedef struct worker {
  pthread_t thread;
  hr_pool *pool;
} worker;

/* Tasks [next, end) that nobody has claimed; a cache line of its own. */
typedef struct range {
  _Atomic int64_t next;
  int64_t end;
  char gap[48];
} range;

struct hr_pool {
  int threads; /* the caller and threads - 1 workers */
  int started; /* workers running */
  int64_t spin_ns;

  /* A cache line lies between words that different threads hammer. */
  char gap0[64];
  _Atomic uint64_t gate;
  char gap1[64];
  _Atomic uint32_t left; /* workers that entered the job and have left it */
  _Atomic bool stop;

  /* The job. */
  hr_task function;
  void *arg;
  int n_ranges;
  range *ranges; /* as many as threads */

  _Atomic int sleepers;       /* workers asleep, or about to look again and sleep */
  _Atomic bool caller_sleeps; /* the same for the caller */
  pthread_mutex_t mutex;
  pthread_cond_t opened, emptied;

  worker *workers;
};

static uint64_t gate_generation(uint64_t gate) {
  return gate >> (2 * COUNT_BITS);
}
static uint64_t gate_limit(uint64_t gate) {
  return gate >> COUNT_BITS & COUNT_MASK;
}
static uint64_t gate_joined(uint64_t gate) {
  return gate & COUNT_MASK;
}
static uint64_t gate_make(uint64_t generation, uint64_t limit) {
  return generation << (2 * COUNT_BITS) | limit << COUNT_BITS;
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void tasks_run(hr_pool *pool, int worker_number) {
  for (int i = 0; i < pool->n_ranges; i++) {
    range *r = &pool->ranges[(worker_number + i) % pool->n_ranges];
    for (;;) {
      int64_t task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
      if (task >= r->end) break;
      pool->function(pool->arg, task, worker_number);
    }
  }
}

/* Waits until a generation other than `seen` is at the gate, or the pool stops. */
static uint64_t gate_wait(hr_pool *pool, uint64_t seen) {
  uint64_t gate = atomic_load(&pool->gate);
  int64_t deadline = gate_generation(gate) == seen && pool->spin_ns ? now_ns() + pool->spin_ns : 0;
  while (gate_generation(gate) == seen && !atomic_load(&pool->stop) && deadline) {
    for (int i = 0; i < 32 && gate_generation(gate) == seen; i++) {
      spin_pause();
      gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    }
    if (now_ns() >= deadline) break;
  }
  if (gate_generation(gate) != seen || atomic_load(&pool->stop)) return atomic_load(&pool->gate);
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (gate = atomic_load(&pool->gate), gate_generation(gate) == seen && !atomic_load(&pool->stop))
    pthread_cond_wait(&pool->opened, &pool->mutex);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
  return gate;
}

static void *worker_main(void *arg) {
  hr_pool *pool = ((worker *)arg)->pool;
  uint64_t seen = 0;
  for (;;) {
    uint64_t gate = gate_wait(pool, seen);
    if (atomic_load(&pool->stop)) return NULL;
    seen = gate_generation(gate);
    bool entered = false;
    while (gate_generation(gate) == seen && gate_joined(gate) < gate_limit(gate) && !entered)
      entered = atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1);
    if (!entered) continue; /* full, closed or already the next generation: look again */
    tasks_run(pool, (int)gate_joined(gate) + 1);
    atomic_fetch_add(&pool->left, 1);
    if (atomic_load(&pool->caller_sleeps)) {
      pthread_mutex_lock(&pool->mutex);
      pthread_cond_signal(&pool->emptied);
      pthread_mutex_unlock(&pool->mutex);
    }
  }
}

/* Closes the gate and waits until all who entered have left. */
static void job_close(hr_pool *pool) {
  uint64_t gate = atomic_load(&pool->gate);
  while (!atomic_compare_exchange_weak(&pool->gate, &gate, gate & ~(COUNT_MASK << COUNT_BITS))) {
  }
  uint32_t entered = (uint32_t)gate_joined(gate);
  if (atomic_load(&pool->left) == entered) return;
  if (pool->spin_ns) {
    int64_t deadline = now_ns() + pool->spin_ns;
    do {
      for (int i = 0; i < 32; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == entered) return;
        spin_pause();
      }
    } while (now_ns() < deadline);
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_store(&pool->caller_sleeps, true);
  while (atomic_load(&pool->left) != entered)
    pthread_cond_wait(&pool->emptied, &pool->mutex);
  atomic_store(&pool->caller_sleeps, false);
  pthread_mutex_unlock(&pool->mutex);
}

/* The first task of range i; equal ranges, the first ones longer by one where it does not divide. */
static int64_t range_begin(int64_t tasks, int threads, int i) {
  int64_t whole = tasks / threads, rest = tasks % threads;
  return whole * i + (i < rest ? i : rest);
}

void hr__pool_run(hr_pool *pool, int threads, int64_t tasks, hr_task function, void *arg) {
  if (pool && threads > pool->threads) threads = pool->threads;
  if (threads > tasks) threads = (int)tasks;
  if (!pool || threads <= 1) {
    for (int64_t task = 0; task < tasks; task++)
      function(arg, task, 0);
    return;
  }
  pool->function = function;
  pool->arg = arg;
  pool->n_ranges = threads;
  for (int i = 0; i < threads; i++) {
    pool->ranges[i].end = range_begin(tasks, threads, i + 1);
    atomic_store_explicit(&pool->ranges[i].next, range_begin(tasks, threads, i), memory_order_relaxed);
  }
  atomic_store_explicit(&pool->left, 0, memory_order_relaxed);
  uint64_t generation = gate_generation(atomic_load_explicit(&pool->gate, memory_order_relaxed)) + 1;
  atomic_store(&pool->gate, gate_make(generation, (uint64_t)threads - 1));
  if (atomic_load(&pool->sleepers)) {
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->mutex);
  }
  tasks_run(pool, 0);
  job_close(pool);
}

/* What a thread is to do; on the stack of who starts it, until it has taken it over. */
typedef struct beginning {
  void *(*function)(void *);
  void *arg;
  sem_t taken;
} beginning;

/* Takes the pages of the stack that the thread may come to use: a path that is rarely taken would otherwise take its
 * first page hours later, beyond what was held when the plan was checked. */
__attribute__((noinline)) static void stack_touch(void) {
  enum { BYTES = 32 << 10, PAGE = 4096 };
  char pages[BYTES];
  volatile char *at = pages;
  for (size_t i = 0; i < BYTES; i += PAGE)
    at[i] = 0;
}

static void *thread_main(void *arg) {
  beginning *given = arg;
  void *(*function)(void *) = given->function;
  void *own = given->arg;
  stack_touch();
  sem_post(&given->taken);
  return function(own);
}

int hr__thread_start(pthread_t *thread, void *(*function)(void *), void *arg) {
  beginning begin = {.function = function, .arg = arg};
  if (sem_init(&begin.taken, 0, 0) != 0) return errno;
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}; /* of the thread itself */
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
    sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  int failure = pthread_create(thread, NULL, thread_main, &begin);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  while (!failure && sem_wait(&begin.taken) != 0) {
  }
  sem_destroy(&begin.taken);
  return failure;
}

hr_status hr__pool_create(int threads, hr_pool **out, hr_error *err) {
  *out = NULL;
  if (threads < 1 || threads > POOL_MOST)
    return hr__fail(err, HR_USAGE, NULL, NULL, "a pool of %d threads is not possible (1 to %d)", threads, POOL_MOST);
  hr_pool *pool = hr__alloc_zero(1, sizeof *pool);
  if (!pool) return hr__nomem(err);
  pool->workers = hr__alloc_zero((size_t)threads, sizeof *pool->workers);
  pool->ranges = hr__alloc_zero((size_t)threads, sizeof *pool->ranges);
  if (!pool->workers || !pool->ranges) {
    hr__free(pool->workers);
    hr__free(pool->ranges);
    hr__free(pool);
    return hr__nomem(err);
  }
  pool->threads = threads;
  pool->spin_ns = hr__cpu_count() >= threads ? SPIN_NS : 0; /* spinning on a processor that others need only hurts */
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->opened, NULL);
  pthread_cond_init(&pool->emptied, NULL);
  for (int i = 0; i < threads - 1; i++) {
    pool->workers[i].pool = pool;
    int failure = hr__thread_start(&pool->workers[i].thread, worker_main, &pool->workers[i]);
    if (failure) {
      hr__pool_destroy(pool);
      return hr__fail_errno(err, NULL, "start a thread", failure);
    }
    pool->started++;
  }
  *out = pool;
  return HR_OK;
}

void hr__pool_destroy(hr_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->opened);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < pool->started; i++)
    pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->emptied);
  pthread_cond_destroy(&pool->opened);
  pthread_mutex_destroy(&pool->mutex);
  hr__free(pool->workers);
  hr__free(pool->ranges);
  hr__free(pool);
}

int hr__pool_threads(const hr_pool *pool) {
  return pool->threads;
}
