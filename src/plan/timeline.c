#include "plan/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "plan/simulate.h"

const char *hr_stream_name(hr_stream_kind stream) {
  static const char *const names[HR_STREAMS] = {[HR_STREAM_COMPUTE] = "kernels",
                                                [HR_STREAM_IN] = "copies in",
                                                [HR_STREAM_OUT] = "copies out",
                                                [HR_STREAM_HOST] = "host"};
  return names[stream];
}

static int by_stream(const void *a, const void *b) {
  const hr_span *x = a, *y = b;
  if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static hr_stream_kind stream_of(const hr_graph *graph, const hr_node *node, hr_device_kind kind) {
  if (node->op->transfer == HR_TRANSFER_START)
    return graph->buffers[graph->values[node->out[0]].buffer].home == HR_TIER_DEVICE ? HR_STREAM_IN : HR_STREAM_OUT;
  bool aside = node->op->transfer == HR_TRANSFER_NONE && node->place == HR_ON_HOST && kind != HR_CPU;
  return aside ? HR_STREAM_HOST : HR_STREAM_COMPUTE;
}

static void span_add(hr_timeline *out, const hr_graph *graph, const hr_span *span) {
  const hr_node *node = &graph->nodes[span->node];
  double seconds = span->end - span->begin;
  if (node->op->transfer == HR_TRANSFER_START)
    out->bytes[span->stream] += hr_desc_bytes(&graph->values[node->in[0]].desc);
  if (seconds <= 0) return;
  if (span->waits)
    out->wait_seconds += seconds;
  else
    out->busy[span->stream] += seconds;
  out->spans[out->count++] = *span;
}

hr_status hr__timeline(const hr_plan *plan, const hr_rates *rates, hr_id program, hr_arena *arena, hr_timeline *out,
                       hr_error *err) {
  const hr_graph *graph = plan->graph;
  const hr_program *p = &graph->programs[program];
  double *seconds = hr__arena_array(arena, graph->n_nodes + 1, sizeof *seconds);
  double *done = hr__arena_array(arena, graph->n_nodes + 1, sizeof *done);
  double *begun = hr__arena_array(arena, graph->n_nodes + 1, sizeof *begun);
  *out = (hr_timeline){.spans = hr__arena_array(arena, p->count + 1, sizeof *out->spans),
                       .seconds = plan->programs[program].seconds};
  if (!seconds || !done || !begun || !out->spans) return hr__nomem(err);
  memcpy(seconds, plan->seconds_of_node, graph->n_nodes * sizeof *seconds);
  hr__simulate_spans(graph, program, rates, seconds, done, begun);
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &graph->nodes[n];
    hr_span span = {.node = n,
                    .stream = stream_of(graph, node, rates->kind),
                    .waits = node->op->transfer == HR_TRANSFER_WAIT,
                    .begin = begun[n]};
    span.end = node->op->transfer == HR_TRANSFER_START ? done[n] : begun[n] + seconds[n];
    span_add(out, graph, &span);
  }
  if (out->count > 1) qsort(out->spans, out->count, sizeof *out->spans, by_stream);
  return HR_OK;
}
