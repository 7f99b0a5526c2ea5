/* coupling: see coupling.h. */
#include "fit/coupling.h"

enum { FROM_INPUTS = 1, FROM_COUPLING = 2 };

/* What the operands of a node come from. */
static unsigned char node_sources(const hr_graph *g, const unsigned char *sources, const hr_node *node) {
  unsigned char from = 0;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == HR_NONE) continue;
    from |= sources[node->in[i]];
    if (g->buffers[g->values[node->in[i]].buffer].role == HR_ROLE_INPUT) from |= FROM_INPUTS;
  }
  return from;
}

hr_status hr__samples_coupled(const hr_graph *graph, bool *coupled, hr_error *err) {
  *coupled = false;
  unsigned char *sources = hr__alloc_zero(graph->n_values + 1, sizeof *sources); /* per value */
  if (!sources) return hr__nomem(err);
  for (size_t n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    unsigned char from = node_sources(graph, sources, node);
    *coupled |= (from & FROM_COUPLING) != 0;
    if (hr__op_axes(node->op, node->args) == HR_AXES_NONE && from & FROM_INPUTS) from |= FROM_COUPLING;
    for (int j = 0; j < node->n_out; j++)
      sources[node->out[j]] = from;
  }
  hr__free(sources);
  return HR_OK;
}
