#include "plan/simulate.h"

enum { STREAM_IN, STREAM_OUT, STREAM_HOST, STREAMS };

/* Seconds of a copy, and its stream. */
static double copy_seconds(const hr_graph *graph, const hr_node *node, const hr_rates *rates, int *stream) {
  hr_tier from = graph->buffers[graph->values[node->in[0]].buffer].home;
  hr_tier to = graph->buffers[graph->values[node->out[0]].buffer].home;
  double bytes = (double)hr_desc_bytes(&graph->values[node->in[0]].desc);
  *stream = to == HR_TIER_DEVICE ? STREAM_IN : STREAM_OUT;
  double seconds = rates->copies.overhead_seconds + bytes / rates->copies.host_bytes_per_second;
  if (from == HR_TIER_DISK) seconds += bytes / rates->copies.disk_read_bytes_per_second;
  if (to == HR_TIER_DISK) seconds += bytes / rates->copies.disk_write_bytes_per_second;
  return seconds;
}

/* What follows `seconds` of work on a stream that begins no earlier than at `from`. */
static double stream_run(double *free_at, double from, double seconds) {
  if (*free_at < from) *free_at = from;
  return *free_at += seconds;
}

double hr__simulate(const hr_graph *graph, hr_id program, const hr_rates *rates, double *seconds_of_node,
                    double *done) {
  const hr_program *p = &graph->programs[program];
  double now = 0, free_at[STREAMS] = {0};
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &graph->nodes[n];
    if (node->op->transfer == HR_TRANSFER_START) {
      int stream;
      double seconds = copy_seconds(graph, node, rates, &stream), host = free_at[STREAM_HOST];
      done[n] = stream_run(&free_at[stream], host > now ? host : now, seconds);
      seconds_of_node[n] = 0;
    } else if (node->op->transfer == HR_TRANSFER_WAIT) {
      double until = done[graph->values[node->in[0]].producer];
      seconds_of_node[n] = until > now ? until - now : 0;
      now += seconds_of_node[n];
    } else if (node->place == HR_ON_HOST && rates->kind != HR_CPU) {
      done[n] = stream_run(&free_at[STREAM_HOST], now, seconds_of_node[n]);
    } else {
      now += seconds_of_node[n];
    }
  }
  return free_at[STREAM_HOST] > now ? free_at[STREAM_HOST] : now;
}
