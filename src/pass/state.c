/* The state pass: nodes that write states of the model (hr__state) go to the end of their programs, in order. Whatever
 * else reads a state, in backward and recomputed too, then reads it as the program found it. */
#include "pass/pass.h"

static bool writes_state(const hr_graph *g, const hr_node *node) {
  for (int j = 0; j < node->n_out; j++)
    if (g->buffers[g->values[node->out[j]].buffer].role == HR_ROLE_STATE) return true;
  return false;
}

hr_status hr__pass_state(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  hr_graph *graph = b->graph;
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
