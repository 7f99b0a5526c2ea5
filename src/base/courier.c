#include "base/courier.h"

#include <pthread.h>

#include "base/mem.h"
#include "base/threads.h"

/* Errands [head, tail) of the ring wait; positions are these modulo its room. */
typedef struct lane {
  hr_errand **ring;
  size_t head, tail;
  pthread_cond_t filled;
} lane;

typedef struct hand {
  hr_courier *courier;
  lane *lane;
  pthread_t thread;
} hand;

struct hr_courier {
  pthread_mutex_t mutex;
  pthread_cond_t finished;
  lane lanes[HR_COURIER_LANES];
  int n_lanes;
  size_t capacity;
  size_t pending; /* sent and not done */
  bool stop;
  hand *hands;
  int n_hands;
};

static void *hand_main(void *arg) {
  hand *h = arg;
  hr_courier *c = h->courier;
  lane *l = h->lane;
  pthread_mutex_lock(&c->mutex);
  for (;;) {
    while (l->head == l->tail && !c->stop)
      pthread_cond_wait(&l->filled, &c->mutex);
    if (l->head == l->tail) break;
    hr_errand *errand = l->ring[l->head++ % c->capacity];
    pthread_mutex_unlock(&c->mutex);
    errand->run(errand->arg);
    pthread_mutex_lock(&c->mutex);
    errand->done = true;
    c->pending--;
    pthread_cond_broadcast(&c->finished);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

static hr_status hands_start(hr_courier *c, const int *threads, hr_error *err) {
  int all = 0;
  for (int l = 0; l < c->n_lanes; l++)
    all += threads[l];
  c->hands = hr__alloc_zero((size_t)all + 1, sizeof *c->hands);
  if (!c->hands) return hr__nomem(err);
  for (int l = 0; l < c->n_lanes; l++) {
    c->lanes[l].ring = hr__alloc_zero(c->capacity, sizeof *c->lanes[l].ring);
    if (!c->lanes[l].ring) return hr__nomem(err);
    for (int i = 0; i < threads[l]; i++) {
      hand *h = &c->hands[c->n_hands];
      *h = (hand){.courier = c, .lane = &c->lanes[l]};
      int failure = hr__thread_start(&h->thread, hand_main, h);
      if (failure) return hr__fail_errno(err, NULL, "start a thread", failure);
      c->n_hands++;
    }
  }
  return HR_OK;
}

hr_status hr__courier_create(const int *threads, int lanes, size_t capacity, hr_courier **out, hr_error *err) {
  *out = NULL;
  hr_courier *c = hr__alloc_zero(1, sizeof *c);
  if (!c) return hr__nomem(err);
  c->n_lanes = lanes;
  c->capacity = capacity ? capacity : 1;
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->finished, NULL);
  for (int l = 0; l < lanes; l++)
    pthread_cond_init(&c->lanes[l].filled, NULL);
  hr_status status = hands_start(c, threads, err);
  if (status != HR_OK) {
    hr__courier_destroy(c);
    return status;
  }
  *out = c;
  return HR_OK;
}

void hr__courier_destroy(hr_courier *c) {
  if (!c) return;
  pthread_mutex_lock(&c->mutex);
  c->stop = true;
  for (int l = 0; l < c->n_lanes; l++)
    pthread_cond_broadcast(&c->lanes[l].filled);
  pthread_mutex_unlock(&c->mutex);
  for (int i = 0; i < c->n_hands; i++)
    pthread_join(c->hands[i].thread, NULL);
  for (int l = 0; l < c->n_lanes; l++) {
    pthread_cond_destroy(&c->lanes[l].filled);
    hr__free(c->lanes[l].ring);
  }
  pthread_cond_destroy(&c->finished);
  pthread_mutex_destroy(&c->mutex);
  hr__free(c->hands);
  hr__free(c);
}

void hr__courier_send(hr_courier *c, int to, hr_errand *errand) {
  lane *l = &c->lanes[to];
  pthread_mutex_lock(&c->mutex);
  errand->done = false;
  l->ring[l->tail++ % c->capacity] = errand;
  c->pending++;
  pthread_cond_signal(&l->filled);
  pthread_mutex_unlock(&c->mutex);
}

void hr__courier_wait(hr_courier *c, hr_errand *errand) {
  pthread_mutex_lock(&c->mutex);
  while (!errand->done)
    pthread_cond_wait(&c->finished, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
}

void hr__courier_drain(hr_courier *c) {
  pthread_mutex_lock(&c->mutex);
  while (c->pending > 0)
    pthread_cond_wait(&c->finished, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
}
