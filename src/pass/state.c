/* state: see state.h. */
#include "pass/state.h"

static bool writes_state(const hr_graph *g, const hr_node *node) {
  for (int j = 0; j < node->n_out; j++)
    if (g->buffers[g->values[node->out[j]].buffer].role == HR_ROLE_STATE) return true;
  return false;
}

hr_status hr__state_last(hr_graph *graph, hr_error *err) {
  hr_id *order = hr__arena_array(&graph->arena, graph->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  size_t count = 0, moved = 0;
  for (hr_id p = 0; p < graph->n_programs; p++) {
    hr_id first = graph->programs[p].first, end = first + graph->programs[p].count;
    for (hr_id n = first; n < end; n++)
      if (!writes_state(graph, &graph->nodes[n])) order[count++] = n;
    for (hr_id n = first; n < end; n++) {
      if (!writes_state(graph, &graph->nodes[n])) continue;
      graph->nodes[n].phase = HR_UPDATE;
      graph->nodes[n].block = HR_NONE;
      order[count++] = n;
      moved++;
    }
  }
  return moved == 0 ? HR_OK : hr__graph_arrange(graph, order, count, err);
}
