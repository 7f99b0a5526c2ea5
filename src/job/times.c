/* times: see times.h. */
#include "job/times.h"

#include <stdlib.h>
#include <string.h>

static int longest_first(const void *a, const void *b) {
  const hr_time *x = a, *y = b;
  if (x->measured != y->measured) return x->measured < y->measured ? 1 : -1;
  return strcmp(x->name, y->name);
}

static size_t node_class(const hr_job *job, const hr_node *node, hr_desc *storage) {
  if (node->op->transfer) return HR_CLASS_COUNT;
  hr_op_view view = hr__node_view(job->graph, node, storage);
  view.kind = node->place == HR_ON_HOST ? HR_CPU : job->facts.kind;
  hr_cost cost = {0};
  node->op->cost(&view, &cost);
  return (size_t)cost.op_class;
}

static void time_add(hr_time *times, size_t *count, const char *name, double planned, double measured) {
  size_t i = 0;
  while (i < *count && times[i].name != name)
    i++;
  if (i == *count) times[(*count)++] = (hr_time){.name = name};
  times[i].planned += planned;
  times[i].measured += measured;
}

hr_status hr__times(const hr_job *job, const double *node_seconds, hr_arena *arena, hr_times *out, hr_error *err) {
  int widest = 0; /* operands of a node */
  for (size_t n = 0; n < job->graph->n_nodes; n++) {
    int width = job->graph->nodes[n].n_in + job->graph->nodes[n].n_out;
    if (width > widest) widest = width;
  }
  hr_desc *storage = hr__arena_array(arena, (size_t)widest + 1, sizeof *storage);
  *out = (hr_times){.ops = hr__arena_array(arena, hr_op_count, sizeof *out->ops)};
  if (!storage || !out->ops) return hr__nomem(err);
  for (size_t p = 0; p < job->graph->n_programs; p++) {
    const hr_program *program = &job->graph->programs[p];
    double runs = hr__program_runs(program, job->shape.accumulation);
    for (hr_id n = program->first; runs > 0 && n < program->first + program->count; n++) {
      const hr_node *node = &job->graph->nodes[n];
      size_t kind = node_class(job, node, storage);
      double planned = runs * job->plan->seconds_of_node[n];
      double measured = (job->facts.kind == HR_CPU ? 1 : runs) * node_seconds[n];
      time_add(out->ops, &out->n_ops, node->op->name, planned, measured);
      time_add(out->classes, &out->n_classes, kind < HR_CLASS_COUNT ? hr_op_class_name((hr_op_class)kind) : "copies",
               planned, measured);
    }
  }
  qsort(out->ops, out->n_ops, sizeof *out->ops, longest_first);
  qsort(out->classes, out->n_classes, sizeof *out->classes, longest_first);
  return HR_OK;
}
