/* coupling: see coupling.h. */
#include "fit/coupling.h"

#include "graph/batch.h"

static bool reads_coupled(const bool *coupled, const hr_node *node) {
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && coupled[node->in[i]]) return true;
  return false;
}

hr_status hr__samples_coupled(const hr_graph *graph, bool *coupled, hr_error *err) {
  *coupled = false;
  bool *of_value = hr__alloc_zero(graph->n_values + 1, sizeof *of_value); /* comes from a node that couples */
  bool *of_node = hr__alloc_zero(graph->n_nodes + 1, sizeof *of_node);
  hr_batch *batch = hr__alloc((graph->n_values + 1) * sizeof *batch);
  hr_status status = of_value && of_node && batch ? HR_OK : hr__nomem(err);
  if (status == HR_OK) status = hr__batch_follow(graph, batch, of_node, err);
  for (size_t n = 0; status == HR_OK && n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    bool reads = reads_coupled(of_value, node);
    *coupled |= reads;
    for (int j = 0; j < node->n_out; j++)
      of_value[node->out[j]] = reads || of_node[n];
  }
  hr__free(of_value);
  hr__free(of_node);
  hr__free(batch);
  return status;
}
