/* See ticker.h. */
#include "base/ticker.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/mem.h"

struct hr_ticker {
  void (*tick)(void *user);
  void *user;
  struct timespec at; /* of the next one */
  double next;
  pthread_t thread;
  pthread_mutex_t mutex; /* held while it ticks; of `stopped` */
  pthread_cond_t wake;
  bool stopped;
};

static void time_add(struct timespec *time, double seconds) {
  int64_t ns = time->tv_nsec + (int64_t)(seconds * 1e9);
  time->tv_sec += ns / 1000000000;
  time->tv_nsec = ns % 1000000000;
}

static void *ticking(void *arg) {
  hr_ticker *t = arg;
  pthread_mutex_lock(&t->mutex);
  while (!t->stopped) {
    if (pthread_cond_timedwait(&t->wake, &t->mutex, &t->at) != ETIMEDOUT) continue;
    t->tick(t->user);
    clock_gettime(CLOCK_MONOTONIC, &t->at);
    time_add(&t->at, t->next);
  }
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

static bool wake_init(pthread_cond_t *wake) {
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic) != 0) return false;
  bool made = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 && pthread_cond_init(wake, &monotonic) == 0;
  pthread_condattr_destroy(&monotonic);
  return made;
}

hr_ticker *hr__ticker_start(double first, double next, void (*tick)(void *user), void *user) {
  hr_ticker *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return NULL;
  t->tick = tick;
  t->user = user;
  t->next = next;
  clock_gettime(CLOCK_MONOTONIC, &t->at);
  time_add(&t->at, first);
  if (wake_init(&t->wake)) {
    pthread_mutex_init(&t->mutex, NULL);
    if (pthread_create(&t->thread, NULL, ticking, t) == 0) return t;
    pthread_mutex_destroy(&t->mutex);
    pthread_cond_destroy(&t->wake);
  }
  hr__free(t);
  return NULL;
}

void hr__ticker_hold(hr_ticker *t) {
  pthread_mutex_lock(&t->mutex);
}

void hr__ticker_release(hr_ticker *t) {
  pthread_mutex_unlock(&t->mutex);
}

void hr__ticker_stop(hr_ticker *t) {
  if (!t) return;
  pthread_mutex_lock(&t->mutex);
  t->stopped = true;
  pthread_cond_signal(&t->wake);
  pthread_mutex_unlock(&t->mutex);
  pthread_join(t->thread, NULL);
  pthread_mutex_destroy(&t->mutex);
  pthread_cond_destroy(&t->wake);
  hr__free(t);
}
