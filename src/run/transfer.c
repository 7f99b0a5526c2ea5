/* Copies between tiers, beside the computing.
 *
 * What the device does not copy itself (on the CPU everything, elsewhere what lives on the disk, and long fields of a
 * batch) is a job here, one for every fetch and store, bound once. Starting it sends it to a thread: one copies in, one
 * out, and a few move what lives on the disk, each job whole by one of them. A wait blocks until its job is done and
 * hands on its failure.
 *
 * Where launches are done when they return, a job that is sent comes after all nodes before it. A device that lags
 * behind is marked at the start, and the thread begins when the device has reached that place: only then has everything
 * before it let go of the job's destination and of its room on the host, and made its source. What comes behind the
 * wait is launched after it, so it finds the job done.
 */
#include "op/transfer.h"
#include <stdatomic.h>

#include "base/courier.h"
#include "run/internal.h"

typedef enum lane { LANE_IN, LANE_OUT, LANE_DISK, LANES } lane;
enum { DISK_THREADS = 4 };

typedef struct job {
  hr_run *run;
  hr_errand errand;
  hr_copy kind;
  lane lane;
  void *device, *host; /* ends of the copy; host: the room of what goes over it to the disk */
  hr_disk_range range; /* where it lies on the disk; without name: it does not */
  size_t bytes;
  bool feeds;       /* it brings a field of a batch, from one of several slots */
  const char *from; /* of such: the field in the slot it was sent for */
  hr_mark *start;   /* on a device that lags behind: where it was sent */
  hr_status status;
} job;

struct hr_copier {
  job *jobs; /* of all starts */
  size_t n_jobs;
  job **job_of_node; /* per node: of a start, its job; of a wait, that of its start */
  hr_courier *courier;
  atomic_flag failed; /* some job has */
  hr_error error;     /* of the first that did; written by its thread */
};

static hr_status job_copy(job *j, hr_error *err) {
  hr_run *run = j->run;
  const hr_device_functions *functions = run->device->functions;
  if (functions->reach) HR_TRY(functions->reach(run->device, j->start, err));
  if (j->kind == HR_COPY_TO_DEVICE) {
    if (j->range.name) HR_TRY(hr__disk_read(&run->disk, &j->range, 0, j->host, j->bytes, err));
    return functions->copy_beside(run->device, j->kind, j->device, j->feeds ? j->from : j->host, j->bytes, err);
  }
  HR_TRY(functions->copy_beside(run->device, j->kind, j->host, j->device, j->bytes, err));
  return j->range.name ? hr__disk_write(&run->disk, &j->range, 0, j->host, j->bytes, err) : HR_OK;
}

static void job_run(void *arg) {
  job *j = arg;
  hr_error error = {0};
  j->status = job_copy(j, &error);
  if (j->status != HR_OK && !atomic_flag_test_and_set(&j->run->copier->failed)) j->run->copier->error = error;
}

/* Whether a node fetches a field of a batch. Where it comes from changes, so it is part of no recording. */
static bool node_feeds(const hr_graph *graph, const hr_node *node) {
  if (node->op != &hr_op_fetch) return false;
  const hr_buffer *from = &graph->buffers[graph->values[node->in[0]].buffer];
  return from->persistent && from->role == HR_ROLE_INPUT;
}

/* Of fields up to this size: they are sent before a thread is awake. */
enum { SHORT_FEED_BYTES = 32 << 10 };

bool hr__feeds_in_line(const hr_run *run, hr_id node) {
  const hr_graph *graph = run->plan->graph;
  const hr_node *n = &graph->nodes[node];
  return run->device->functions->copies && node_feeds(graph, n) &&
         hr_desc_bytes(&graph->values[n->in[0]].desc) <= SHORT_FEED_BYTES;
}

bool hr__copier_takes(const hr_run *run, hr_id node) {
  const hr_graph *graph = run->plan->graph;
  const hr_node *n = &graph->nodes[node];
  if (n->op->transfer == HR_TRANSFER_NONE) return false;
  if (!run->device->functions->copies) return true;
  if (n->op->transfer == HR_TRANSFER_WAIT) {
    node = graph->values[n->in[0]].producer;
    n = &graph->nodes[node];
  }
  if (node_feeds(graph, n)) return !hr__feeds_in_line(run, node);
  return hr__plan_value_tier(run->plan, n->op == &hr_op_fetch ? n->in[0] : n->out[0]) == HR_TIER_DISK;
}

static void job_bind(hr_run *run, hr_id node, job *j) {
  const hr_node *n = &run->plan->graph->nodes[node];
  bool fetch = n->op == &hr_op_fetch;
  hr_id below = fetch ? n->in[0] : n->out[0], above = fetch ? n->out[0] : n->in[0];
  bool disk = hr__plan_value_tier(run->plan, below) == HR_TIER_DISK;
  *j = (job){.run = run,
             .errand = {.run = job_run, .arg = j},
             .kind = fetch ? HR_COPY_TO_DEVICE : HR_COPY_FROM_DEVICE,
             .lane = disk    ? LANE_DISK
                     : fetch ? LANE_IN
                             : LANE_OUT,
             .device = hr__run_place(run, above),
             .host = hr__run_place(run, disk ? n->out[1] : below),
             .bytes = hr_desc_bytes(&run->plan->graph->values[above].desc),
             .feeds = node_feeds(run->plan->graph, n)};
  if (disk) j->range = hr__run_disk_range(run, below);
}

static void jobs_bind(hr_run *run, hr_copier *c) {
  const hr_graph *graph = run->plan->graph;
  for (hr_id n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    if (!hr__copier_takes(run, n)) continue;
    if (node->op->transfer == HR_TRANSFER_START) {
      c->job_of_node[n] = &c->jobs[c->n_jobs++];
      job_bind(run, n, c->job_of_node[n]);
    } else {
      c->job_of_node[n] = c->job_of_node[graph->values[node->in[0]].producer];
    }
  }
}

hr_status hr__copier_create(hr_run *run, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  size_t starts = 0;
  for (hr_id n = 0; n < graph->n_nodes; n++)
    starts += graph->nodes[n].op->transfer == HR_TRANSFER_START && hr__copier_takes(run, n);
  if (starts == 0) return HR_OK;
  hr_copier *c = run->copier = hr__arena_array(&run->arena, 1, sizeof *c);
  if (!c) return hr__nomem(err);
  c->jobs = hr__arena_array(&run->arena, starts, sizeof *c->jobs);
  c->job_of_node = hr__arena_array(&run->arena, graph->n_nodes, sizeof *c->job_of_node);
  if (!c->jobs || !c->job_of_node) return hr__nomem(err);
  jobs_bind(run, c);
  for (size_t i = 0; run->device->functions->mark && i < c->n_jobs; i++) /* made now: nothing is, later */
    HR_TRY(run->device->functions->mark(run->device, &c->jobs[i].start, err));
  int threads[LANES] = {0};
  for (size_t i = 0; i < c->n_jobs; i++)
    threads[c->jobs[i].lane] = c->jobs[i].lane == LANE_DISK ? DISK_THREADS : 1;
  return hr__courier_create(threads, LANES, starts, &c->courier, err);
}

void hr__copier_destroy(hr_run *run) {
  hr_copier *c = run->copier;
  if (!c) return;
  hr__courier_destroy(c->courier);
  for (size_t i = 0; i < c->n_jobs; i++)
    if (c->jobs[i].start) run->device->functions->mark_destroy(run->device, c->jobs[i].start);
  run->copier = NULL;
}

hr_status hr__copier_start(hr_run *run, hr_id node, hr_error *err) {
  job *j = run->copier->job_of_node[node];
  j->from = (const char *)j->host + (j->feeds ? run->fed_bytes : 0);
  if (run->device->functions->mark) HR_TRY(run->device->functions->mark(run->device, &j->start, err));
  hr__courier_send(run->copier->courier, (int)j->lane, &j->errand);
  return HR_OK;
}

hr_status hr__copier_wait(hr_run *run, hr_id node, hr_error *err) {
  job *j = run->copier->job_of_node[node];
  hr__courier_wait(run->copier->courier, &j->errand);
  if (j->status == HR_OK) return HR_OK;
  hr__courier_drain(run->copier->courier); /* another thread may be writing down why */
  if (err) *err = run->copier->error;
  return j->status;
}

void hr__copier_drain(hr_run *run) {
  if (run->copier) hr__courier_drain(run->copier->courier);
}
