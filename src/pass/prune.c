/* The prune pass: a node stays if it writes persistent state, makes a program's output, or feeds a node that stays. */
#include "pass/pass.h"

static bool node_needed(const hr_graph *g, const hr_node *node, const bool *needed) {
  if (node->op->effect) return true;
  for (int j = 0; j < node->n_out; j++)
    if (needed[node->out[j]] || g->buffers[g->values[node->out[j]].buffer].persistent) return true;
  return false;
}

hr_status hr__pass_prune(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  hr_graph *g = b->graph;
  bool *needed = hr__arena_array(&g->arena, g->n_values, sizeof *needed); /* per value */
  bool *keep = hr__arena_array(&g->arena, g->n_nodes, sizeof *keep);      /* per node */
  if (!needed || !keep) return hr__nomem(err);
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      needed[g->programs[p].output[i].value] = true;
  for (hr_id n = (hr_id)g->n_nodes; n-- > 0;) {
    const hr_node *node = &g->nodes[n];
    keep[n] = node_needed(g, node, needed);
    for (int i = 0; keep[n] && i < node->n_in; i++)
      if (node->in[i] != HR_NONE) needed[node->in[i]] = true;
  }
  return hr__graph_regroup(g, keep, err);
}
