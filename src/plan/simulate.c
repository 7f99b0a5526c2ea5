#include "plan/simulate.h"

#include <math.h>

enum { STREAM_IN, STREAM_OUT, STREAM_HOST, STREAMS };

/* Seconds that bytes take between host and device from `begin` on: as those of one direction alone, and what is lost
 * of that rate while the other direction is busy too. */
static double crossing_seconds(const hr_copy_rates *rates, double bytes, double begin, double other_until) {
  double shared = other_until - begin, all_shared = bytes / rates->host_bytes_per_second;
  if (shared < 0) shared = 0;
  if (shared > all_shared) shared = all_shared;
  return bytes / rates->host_alone_bytes_per_second +
         shared * (1 - rates->host_bytes_per_second / rates->host_alone_bytes_per_second);
}

/* Seconds of a copy that begins on its stream as soon as that is free, but not before `from`. The copies of the other
 * direction that are there already keep their times. */
static double copy_seconds(const hr_graph *graph, const hr_node *node, const hr_rates *rates, const double *free_at,
                           double from, int *stream) {
  hr_tier source = graph->buffers[graph->values[node->in[0]].buffer].home;
  hr_tier to = graph->buffers[graph->values[node->out[0]].buffer].home;
  double bytes = (double)hr_desc_bytes(&graph->values[node->in[0]].desc);
  *stream = to == HR_TIER_DEVICE ? STREAM_IN : STREAM_OUT;
  double begin = fmax(free_at[*stream], from) + rates->copies.overhead_seconds, read = 0;
  if (source == HR_TIER_DISK) read = bytes / rates->copies.disk_read_bytes_per_second;
  double seconds =
      rates->copies.overhead_seconds +
      crossing_seconds(&rates->copies, bytes, begin + read, free_at[*stream == STREAM_IN ? STREAM_OUT : STREAM_IN]);
  seconds += read;
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
      double from = fmax(free_at[STREAM_HOST], now);
      double seconds = copy_seconds(graph, node, rates, free_at, from, &stream);
      done[n] = stream_run(&free_at[stream], from, seconds);
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
