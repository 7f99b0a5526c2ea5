/* traffic: see traffic.h. */
#include "fit/traffic.h"

#include <math.h>

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

static void copy_count(const hr_graph *g, const hr_node *node, double runs, const bool open[HR_OFFLOAD_KINDS],
                       bool activations, hr_carried carried[HR_TRAFFIC_KINDS]) {
  const hr_buffer *from = &g->buffers[g->values[node->in[0]].buffer], *to = &g->buffers[g->values[node->out[0]].buffer];
  int way = to->home == HR_TIER_DEVICE ? HR_TRAFFIC_IN : HR_TRAFFIC_OUT;
  hr_carried *own = &carried[kind_of(way == HR_TRAFFIC_IN ? from : to, open, activations)];
  own->bytes[way] += runs * (double)hr_desc_bytes(&g->values[node->in[0]].desc);
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

void hr__traffic_add(hr_carried to[HR_TRAFFIC_KINDS], const hr_carried more[HR_TRAFFIC_KINDS]) {
  for (int k = 0; k < HR_TRAFFIC_KINDS; k++)
    for (int way = 0; way < HR_TRAFFIC_WAYS; way++) {
      to[k].bytes[way] += more[k].bytes[way];
      to[k].copies[way] += more[k].copies[way];
    }
}

double hr__traffic_seconds(const hr_carried carried[HR_TRAFFIC_KINDS], const double below[HR_OFFLOAD_KINDS],
                           const double disk[HR_OFFLOAD_KINDS], const hr_copy_rates *rates) {
  const double disk_rate[] = {
      [HR_TRAFFIC_IN] = rates->disk_read_bytes_per_second, [HR_TRAFFIC_OUT] = rates->disk_write_bytes_per_second};
  double seconds[HR_TRAFFIC_WAYS] = {0}, crossing = 0;
  for (int k = 0; k < HR_TRAFFIC_KINDS; k++)
    for (int way = 0; way < HR_TRAFFIC_WAYS; way++) {
      bool closed = k == HR_TRAFFIC_CLOSED;
      double part = closed ? 1 : below[k], bytes = carried[k].bytes[way];
      seconds[way] +=
          part * (bytes / rates->host_alone_bytes_per_second + carried[k].copies[way] * rates->overhead_seconds);
      if (!closed) seconds[way] += disk[k] * bytes / disk_rate[way];
      crossing += part * bytes;
    }
  double both = fmax(2 * rates->host_bytes_per_second, rates->host_alone_bytes_per_second);
  return fmax(fmax(seconds[HR_TRAFFIC_IN], seconds[HR_TRAFFIC_OUT]), crossing / both);
}
