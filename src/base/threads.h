/* A pool of worker threads with one call: run a function over task numbers [0, tasks) on `threads` threads.
 *
 * The calling thread takes part. Tasks are claimed as threads get to them, so which thread runs a task is not
 * fixed; what a task computes must not depend on it (`worker` only selects scratch). Workers spin for about a
 * millisecond for the next call, then sleep: within a step they hardly ever do. Calls do not nest.
 */
#ifndef HR_BASE_THREADS_H
#define HR_BASE_THREADS_H

#include <pthread.h>
#include <stdint.h>

#include "base/status.h"

/* pthread_create of a thread that takes no signals: whoever started the program gets them, and nothing is put onto a
 * stack that a kernel may be using otherwise (train/signals.c). Its stack takes its memory at once. An error number; 0
 * when it runs. */
int hr__thread_start(pthread_t *thread, void *(*function)(void *), void *arg);

typedef struct hr_pool hr_pool;

/* task: which piece of work; worker: 0 <= worker < threads, unique among the threads running now. */
typedef void (*hr_task)(void *arg, int64_t task, int worker);

hr_status hr__pool_create(int threads, hr_pool **out, hr_error *err); /* threads >= 1, the caller counted in */
void hr__pool_destroy(hr_pool *pool);
int hr__pool_threads(const hr_pool *pool);

/* Runs all tasks and returns when they are done. threads <= 1, tasks <= 1 or pool == NULL: runs in the caller. */
void hr__pool_run(hr_pool *pool, int threads, int64_t tasks, hr_task function, void *arg);

#endif
