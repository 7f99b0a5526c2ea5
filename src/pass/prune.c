/* The prune pass: a node stays if it writes persistent state, makes a program's output, or feeds a node that stays. */
#include "pass/prune.h"

#include "pass/pass.h"

static bool node_needed(const hr_graph *g, const hr_node *node, const bool *needed) {
  if (node->op->effect) return true;
  for (int j = 0; j < node->n_out; j++)
    if (needed[node->out[j]] || g->buffers[g->values[node->out[j]].buffer].persistent) return true;
  return false;
}

hr_status hr__prune_order(const hr_graph *g, hr_id *order, size_t *count, hr_arena *scratch, hr_error *err) {
  bool *needed = hr__arena_array(scratch, g->n_values, sizeof *needed); /* per value */
  bool *keep = hr__arena_array(scratch, g->n_nodes, sizeof *keep);      /* per node */
  if (!needed || !keep) return hr__nomem(err);
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      needed[g->programs[p].output[i].value] = true;
  for (size_t at = *count; at-- > 0;) {
    const hr_node *node = &g->nodes[order[at]];
    keep[order[at]] = node_needed(g, node, needed);
    for (int i = 0; keep[order[at]] && i < node->n_in; i++)
      if (node->in[i] != HR_NONE) needed[node->in[i]] = true;
  }
  size_t kept = 0;
  for (size_t at = 0; at < *count; at++)
    if (keep[order[at]]) order[kept++] = order[at];
  *count = kept;
  return HR_OK;
}

hr_status hr__pass_prune(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  hr_graph *g = b->graph;
  hr_arena scratch = {0};
  size_t count = g->n_nodes;
  hr_id *order = hr__arena_room(&scratch, count, sizeof *order);
  hr_status status = order ? HR_OK : hr__nomem(err);
  for (hr_id n = 0; status == HR_OK && n < count; n++)
    order[n] = n;
  if (status == HR_OK) status = hr__prune_order(g, order, &count, &scratch, err);
  if (status == HR_OK) status = hr__graph_arrange(g, order, count, err);
  hr__arena_fini(&scratch);
  return status;
}
