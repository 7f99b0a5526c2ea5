/* traffic: see traffic.h. */
#include "fit/traffic.h"

#include <math.h>
#include <stdlib.h>

/* The kind that a copy's storage below the device belongs to; what is only on its way there (operands of an update that
 * the processor does) goes with the optimizer's state, because of which it travels. */
static int kind_of(const hr_buffer *below, const bool open[HR_OFFLOAD_KINDS], bool activations) {
  int kind = HR_OFFLOAD_OPTIMIZER;
  if (below->role == HR_ROLE_INPUT) return HR_TRAFFIC_CLOSED; /* batches come from the host whatever is chosen */
  if (below->role == HR_ROLE_PARAMETER || (below->role == HR_ROLE_ACTIVATION && !activations))
    kind = HR_OFFLOAD_PARAMETERS;
  else if (below->role == HR_ROLE_ACTIVATION)
    kind = HR_OFFLOAD_ACTIVATIONS;
  else if (below->role == HR_ROLE_GRADIENT)
    kind = HR_OFFLOAD_GRADIENTS;
  return open[kind] ? kind : HR_TRAFFIC_CLOSED;
}

/* The storage of a copy below the device. */
static hr_id below_of(const hr_graph *g, const hr_node *copy, int *way) {
  hr_id from = g->values[copy->in[0]].buffer, to = g->values[copy->out[0]].buffer;
  *way = g->buffers[to].home == HR_TIER_DEVICE ? HR_TRAFFIC_IN : HR_TRAFFIC_OUT;
  return *way == HR_TRAFFIC_IN ? from : to;
}

static double bytes_of(const hr_graph *g, const hr_node *copy) {
  return (double)hr_desc_bytes(&g->values[copy->in[0]].desc);
}

static void copy_count(const hr_graph *g, const hr_node *node, double runs, const bool open[HR_OFFLOAD_KINDS],
                       bool activations, hr_carried carried[HR_TRAFFIC_KINDS]) {
  int way;
  const hr_buffer *below = &g->buffers[below_of(g, node, &way)];
  hr_carried *own = &carried[kind_of(below, open, activations)];
  own->bytes[way] += runs * bytes_of(g, node);
  own->copies[way] += runs;
}

void hr__traffic_read(const hr_plan *plan, int accumulation, const bool open[HR_OFFLOAD_KINDS], bool activations,
                      hr_traffic *out) {
  const hr_graph *g = plan->graph;
  *out = (hr_traffic){0};
  for (hr_id p = 0; p < g->n_programs; p++) {
    const hr_program *program = &g->programs[p];
    double runs = hr__program_runs(program, accumulation);
    for (hr_id n = program->first; runs > 0 && n < program->first + program->count; n++) {
      const hr_node *node = &g->nodes[n];
      bool update = node->phase == HR_UPDATE;
      if (node->op->transfer == HR_TRANSFER_START)
        copy_count(g, node, runs, open, activations, update ? out->update : out->pass);
      else if (node->op->transfer == HR_TRANSFER_NONE && node->place == HR_ON_HOST)
        out->host_seconds += runs * plan->seconds_of_node[n];
      else if (node->op->transfer == HR_TRANSFER_NONE)
        *(update ? &out->update_seconds : &out->pass_seconds) += runs * plan->seconds_of_node[n];
    }
  }
}

/* --- what is left when a part stays further up ------------------------------------------------------------------- */

enum { PASS, UPDATE, PHASES };

/* A persistent buffer: its bytes, and those that it moves. */
typedef struct mover {
  int kind;
  double bytes, moved[PHASES][HR_TRAFFIC_WAYS];
  double density; /* what the order goes by */
} mover;

static int mover_compare(const void *a, const void *b) {
  const mover *x = a, *y = b;
  if (x->kind != y->kind) return x->kind - y->kind;
  return x->density > y->density ? -1 : x->density < y->density;
}

/* movers[0..count) are those of the kind, that which moves most for a byte first. */
static void curve_make(const mover *movers, size_t count, int kind, int phase, int way, hr_carried *out) {
  const double uneven = kind == HR_OFFLOAD_OPTIMIZER ? 1.02 : 1.25; /* of what is not persistent */
  double all = 0, known = 0, gone = 0, within = 0, total = out->bytes[way];
  for (size_t i = 0; i < count; i++)
    all += movers[i].bytes, known += movers[i].moved[phase][way];
  double others = total > 0 ? fmax(1 - known / total, 0) : 1;
  size_t next = 0; /* buffers before it lie within the part as a whole, with `within` bytes that move `gone` */
  for (int i = 0; i < HR_TRAFFIC_PARTS; i++) {
    double share = (double)i / HR_TRAFFIC_PARTS;
    for (; next < count && within + movers[next].bytes <= share * all; next++)
      within += movers[next].bytes, gone += movers[next].moved[phase][way];
    double piece = next < count ? (share * all - within) / movers[next].bytes * movers[next].moved[phase][way] : 0;
    double left = total > 0 ? fmax((known - gone - piece) / total, 0) : 0;
    out->left[way][i] = left + others * fmax(1 - uneven * share, 0);
  }
  out->left[way][HR_TRAFFIC_PARTS] = 0;
}

/* Persistent buffers of open kinds, each with what it moves; in no order. *movers is the caller's. */
static hr_status movers_find(const hr_plan *plan, int accumulation, const bool open[HR_OFFLOAD_KINDS], mover **movers,
                             size_t *count, hr_error *err) {
  const hr_graph *g = plan->graph;
  hr_id *number = hr__alloc(g->n_buffers * sizeof *number);
  *movers = hr__alloc(g->n_buffers * sizeof **movers);
  *count = 0;
  for (size_t b = 0; b < g->n_buffers && number && *movers; b++) {
    int kind = g->buffers[b].persistent ? kind_of(&g->buffers[b], open, true) : HR_TRAFFIC_CLOSED;
    number[b] = kind == HR_TRAFFIC_CLOSED ? HR_NONE : (hr_id)*count;
    if (kind != HR_TRAFFIC_CLOSED) (*movers)[(*count)++] = (mover){.kind = kind, .bytes = (double)g->buffers[b].bytes};
  }
  for (size_t n = 0; n < g->n_nodes && number && *movers; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op->transfer != HR_TRANSFER_START) continue;
    int way, phase = node->phase == HR_UPDATE ? UPDATE : PASS;
    hr_id own = number[below_of(g, node, &way)];
    double runs = hr__program_runs(&g->programs[node->program], accumulation);
    if (own != HR_NONE) (*movers)[own].moved[phase][way] += runs * bytes_of(g, node);
  }
  bool full = !number || !*movers;
  hr__free(number);
  if (full) hr__free(*movers);
  return full ? hr__nomem(err) : HR_OK;
}

hr_status hr__traffic_curves(const hr_plan *plan, int accumulation, const bool open[HR_OFFLOAD_KINDS], hr_traffic *out,
                             hr_error *err) {
  mover *movers;
  size_t count;
  HR_TRY(movers_find(plan, accumulation, open, &movers, &count, err));
  for (int turn = 0; turn < PHASES * HR_TRAFFIC_WAYS; turn++) {
    int phase = turn / HR_TRAFFIC_WAYS, way = turn % HR_TRAFFIC_WAYS;
    for (size_t i = 0; i < count; i++)
      movers[i].density = movers[i].bytes > 0 ? movers[i].moved[phase][way] / movers[i].bytes : 0;
    if (count > 0) qsort(movers, count, sizeof *movers, mover_compare);
    size_t first = 0, end = 0;
    for (int k = 0; k < HR_OFFLOAD_KINDS; k++, first = end) {
      while (end < count && movers[end].kind == k)
        end++;
      curve_make(movers + first, end - first, k, phase, way, phase == PASS ? &out->pass[k] : &out->update[k]);
    }
  }
  hr__free(movers);
  return HR_OK;
}

static double share_left(const hr_carried *carried, int way, double share) {
  double at = fmin(fmax(share, 0), 1) * HR_TRAFFIC_PARTS;
  int part = at < HR_TRAFFIC_PARTS ? (int)at : HR_TRAFFIC_PARTS - 1;
  const double *left = &carried->left[way][part];
  return left[0] + (at - part) * (left[1] - left[0]);
}

/* --- seconds ------------------------------------------------------------------------------------------------------ */

void hr__traffic_add(hr_carried to[HR_TRAFFIC_KINDS], const hr_carried more[HR_TRAFFIC_KINDS]) {
  for (int k = 0; k < HR_TRAFFIC_KINDS; k++)
    for (int way = 0; way < HR_TRAFFIC_WAYS; way++) {
      double sum = to[k].bytes[way] + more[k].bytes[way], own = sum > 0 ? to[k].bytes[way] / sum : 1;
      for (int i = 0; i <= HR_TRAFFIC_PARTS; i++)
        to[k].left[way][i] = own * to[k].left[way][i] + (1 - own) * more[k].left[way][i];
      to[k].bytes[way] = sum;
      to[k].copies[way] += more[k].copies[way];
    }
}

double hr__traffic_seconds(const hr_carried carried[HR_TRAFFIC_KINDS], const double device[HR_OFFLOAD_KINDS],
                           const double above[HR_OFFLOAD_KINDS], const hr_copy_rates *rates) {
  const double disk_rate[] = {
      [HR_TRAFFIC_IN] = rates->disk_read_bytes_per_second, [HR_TRAFFIC_OUT] = rates->disk_write_bytes_per_second};
  double seconds[HR_TRAFFIC_WAYS] = {0}, crossing = 0;
  for (int k = 0; k < HR_TRAFFIC_KINDS; k++)
    for (int way = 0; way < HR_TRAFFIC_WAYS; way++) {
      bool closed = k == HR_TRAFFIC_CLOSED;
      double part = closed ? 1 : share_left(&carried[k], way, device[k]), bytes = carried[k].bytes[way];
      seconds[way] +=
          part * (bytes / rates->host_alone_bytes_per_second + carried[k].copies[way] * rates->overhead_seconds);
      if (!closed) seconds[way] += share_left(&carried[k], way, above[k]) * bytes / disk_rate[way];
      crossing += part * bytes;
    }
  double both = fmax(2 * rates->host_bytes_per_second, rates->host_alone_bytes_per_second);
  return fmax(fmax(seconds[HR_TRAFFIC_IN], seconds[HR_TRAFFIC_OUT]), crossing / both);
}
