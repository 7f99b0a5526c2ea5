/* Copies between tiers, beside the computing.
 *
 * Every fetch and store of the plan is one job, bound once. Starting it puts it into a queue; one thread copies in, one
 * out, and a few move what lives on the disk, each job whole by one of them. A wait blocks until its job is done and
 * hands on its failure. Nothing here allocates once it is made. On a device that cannot copy beside its launches a job
 * is done on the spot, in order.
 */
#include <pthread.h>
#include <stdlib.h>

#include "op/transfer.h"
#include "run/internal.h"

typedef enum lane { LANE_IN, LANE_OUT, LANE_DISK, LANES } lane;
enum { DISK_THREADS = 4, THREADS = 2 + DISK_THREADS };

typedef struct job {
  hr_copy kind;
  lane lane;
  void *device, *host; /* ends of the copy; host: the room of what goes over it to the disk */
  hr_disk_range range; /* where it lies on the disk; without name: it does not */
  size_t bytes;
  hr_status status;
  hr_error error; /* of the job, when status is not HR_OK */
  bool done;
} job;

/* A ring of the jobs of one lane in the order of their start. */
typedef struct queue {
  job **jobs;
  size_t head, tail; /* [head, tail) wait; positions in the ring are these modulo its room */
  pthread_cond_t filled;
} queue;

typedef struct hand {
  struct hr_copier *copier;
  lane lane;
  pthread_t thread;
} hand;

struct hr_copier {
  hr_run *run;
  job *jobs;         /* of all starts */
  job **job_of_node; /* per node: of a start, its job; of a wait, that of its start */
  size_t n_jobs;
  bool beside; /* threads copy */
  bool stop;
  size_t pending; /* started and not done */
  pthread_mutex_t mutex;
  pthread_cond_t finished;
  queue queues[LANES];
  hand hands[THREADS];
  int n_hands;
};

static hr_status job_copy(hr_run *run, job *j, hr_error *err) {
  const hr_device_functions *functions = run->device->functions;
  hr_status (*copy)(hr_device *, hr_copy, void *, const void *, size_t, hr_error *) =
      run->copier->beside ? functions->copy_beside : functions->copy;
  if (j->kind == HR_COPY_TO_DEVICE) {
    if (j->range.name) HR_TRY(hr__disk_read(&run->disk, &j->range, 0, j->host, j->bytes, err));
    return copy(run->device, j->kind, j->device, j->host, j->bytes, err);
  }
  HR_TRY(copy(run->device, j->kind, j->host, j->device, j->bytes, err));
  return j->range.name ? hr__disk_write(&run->disk, &j->range, 0, j->host, j->bytes, err) : HR_OK;
}

static void *hand_main(void *arg) {
  hand *h = arg;
  hr_copier *c = h->copier;
  queue *q = &c->queues[h->lane];
  pthread_mutex_lock(&c->mutex);
  for (;;) {
    while (q->head == q->tail && !c->stop)
      pthread_cond_wait(&q->filled, &c->mutex);
    if (q->head == q->tail) break;
    job *j = q->jobs[q->head++ % c->n_jobs];
    pthread_mutex_unlock(&c->mutex);
    j->status = job_copy(c->run, j, &j->error);
    pthread_mutex_lock(&c->mutex);
    j->done = true;
    c->pending--;
    pthread_cond_broadcast(&c->finished);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

/* --- binding ---------------------------------------------------------------------------------------------------- */

static void job_bind(hr_run *run, hr_id node, job *j) {
  const hr_node *n = &run->plan->graph->nodes[node];
  const hr_call *call = &run->launches[node].call;
  bool fetch = n->op == &hr_op_fetch;
  hr_id below = fetch ? n->in[0] : n->out[0];
  const hr_tensor *above = fetch ? &call->out[0] : &call->in[0];
  *j = (job){.kind = fetch ? HR_COPY_TO_DEVICE : HR_COPY_FROM_DEVICE,
             .lane = fetch ? LANE_IN : LANE_OUT,
             .device = above->data,
             .host = fetch ? call->in[0].data : call->out[0].data,
             .bytes = hr_desc_bytes(&above->desc)};
  if (hr__plan_value_tier(run->plan, below) != HR_TIER_DISK) return;
  j->lane = LANE_DISK;
  j->host = call->out[1].data;
  j->range = hr__run_disk_range(run, below);
}

static void jobs_bind(hr_run *run, hr_copier *c) {
  const hr_graph *graph = run->plan->graph;
  for (hr_id n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    if (node->op->transfer == HR_TRANSFER_START) {
      c->job_of_node[n] = &c->jobs[c->n_jobs++];
      job_bind(run, n, c->job_of_node[n]);
    } else if (node->op->transfer == HR_TRANSFER_WAIT) {
      c->job_of_node[n] = c->job_of_node[graph->values[node->in[0]].producer];
    }
  }
}

static hr_status hand_start(hr_copier *c, lane in_lane, hr_error *err) {
  hand *h = &c->hands[c->n_hands];
  *h = (hand){.copier = c, .lane = in_lane};
  int failure = pthread_create(&h->thread, NULL, hand_main, h);
  if (failure) return hr__fail_errno(err, NULL, "start a thread", failure);
  c->n_hands++;
  return HR_OK;
}

static hr_status hands_start(hr_copier *c, hr_error *err) {
  bool used[LANES] = {false};
  for (size_t i = 0; i < c->n_jobs; i++)
    used[c->jobs[i].lane] = true;
  for (int l = 0; l < LANES; l++)
    for (int i = 0; used[l] && i < (l == LANE_DISK ? DISK_THREADS : 1); i++)
      HR_TRY(hand_start(c, (lane)l, err));
  return HR_OK;
}

hr_status hr__copier_create(hr_run *run, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  size_t starts = 0;
  for (size_t n = 0; n < graph->n_nodes; n++)
    starts += graph->nodes[n].op->transfer == HR_TRANSFER_START;
  if (starts == 0) return HR_OK;
  hr_copier *c = hr__arena_array(&run->arena, 1, sizeof *c);
  if (!c) return hr__nomem(err);
  c->run = run;
  c->beside = run->device->functions->copy_beside != NULL;
  c->jobs = hr__arena_array(&run->arena, starts, sizeof *c->jobs);
  c->job_of_node = hr__arena_array(&run->arena, graph->n_nodes, sizeof *c->job_of_node);
  if (!c->jobs || !c->job_of_node) return hr__nomem(err);
  for (int l = 0; l < LANES; l++)
    if (!(c->queues[l].jobs = hr__arena_array(&run->arena, starts, sizeof *c->queues[l].jobs))) return hr__nomem(err);
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->finished, NULL);
  for (int l = 0; l < LANES; l++)
    pthread_cond_init(&c->queues[l].filled, NULL);
  run->copier = c;
  jobs_bind(run, c);
  return c->beside ? hands_start(c, err) : HR_OK;
}

void hr__copier_destroy(hr_run *run) {
  hr_copier *c = run->copier;
  if (!c) return;
  pthread_mutex_lock(&c->mutex);
  c->stop = true;
  for (int l = 0; l < LANES; l++)
    pthread_cond_broadcast(&c->queues[l].filled);
  pthread_mutex_unlock(&c->mutex);
  for (int i = 0; i < c->n_hands; i++)
    pthread_join(c->hands[i].thread, NULL);
  for (int l = 0; l < LANES; l++)
    pthread_cond_destroy(&c->queues[l].filled);
  pthread_cond_destroy(&c->finished);
  pthread_mutex_destroy(&c->mutex);
  run->copier = NULL;
}

/* --- running ---------------------------------------------------------------------------------------------------- */

hr_status hr__copier_start(hr_run *run, hr_id node, hr_error *err) {
  hr_copier *c = run->copier;
  job *j = c->job_of_node[node];
  if (!c->beside) return job_copy(run, j, err);
  queue *q = &c->queues[j->lane];
  pthread_mutex_lock(&c->mutex);
  j->done = false;
  q->jobs[q->tail++ % c->n_jobs] = j;
  c->pending++;
  pthread_cond_signal(&q->filled);
  pthread_mutex_unlock(&c->mutex);
  return HR_OK;
}

hr_status hr__copier_wait(hr_run *run, hr_id node, hr_error *err) {
  hr_copier *c = run->copier;
  job *j = c->job_of_node[node];
  if (!c->beside) return HR_OK;
  pthread_mutex_lock(&c->mutex);
  while (!j->done)
    pthread_cond_wait(&c->finished, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
  if (j->status != HR_OK && err) *err = j->error;
  return j->status;
}

void hr__copier_drain(hr_run *run) {
  hr_copier *c = run->copier;
  if (!c || !c->beside) return;
  pthread_mutex_lock(&c->mutex);
  while (c->pending > 0)
    pthread_cond_wait(&c->finished, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
}
