/* Light values: see checkpoint_light.h. What a norm, an activation, dropout or a cast has made is as long as what it
 * was made of, and that is kept as well, since their own backward reads it: two values where one says it all. A value
 * is made again where
 *   - its op takes no longer than its bytes (hr_op.light);
 *   - what its op reads is there in backward anyway, or light itself;
 *   - all that is then read and written is MOST_MOVED times its own bytes at most: a norm or an activation is 2, gated
 * 3, an activation with dropout 4;
 *   - it is not small, so that it takes longer than starting a kernel does.
 * Copies of parameters are no such values: their bytes are read by many and do not grow with the batch. */
#include "pass/checkpoint_light.h"

enum { LEAST_BYTES = 4 << 20, MOST_MOVED = 5 };

/* Bytes to move for the results of a node; negative: some operand is not to be had. */
static double node_moves(const hr_graph *g, const hr_node *node, const hr_light_value *values, hr_desc *descs) {
  hr_op_view view = hr__node_view(g, node, descs);
  hr_cost cost = {0};
  node->op->cost(&view, &cost);
  bool made = false;
  for (int i = 0; i < node->n_in; i++) {
    hr_id from = node->in[i];
    if (from == HR_NONE || g->values[from].producer == HR_NONE) continue;
    if (values[from].moved < 0) return -1;
    cost.bytes += values[from].moved;
    made = true;
  }
  return made ? cost.bytes : -1;
}

static bool value_is_largest(const hr_graph *g, const hr_node *node, hr_id value) {
  size_t bytes = hr_desc_bytes(&g->values[value].desc);
  for (int j = 0; j < node->n_out; j++)
    if (hr_desc_bytes(&g->values[node->out[j]].desc) > bytes) return false;
  return true;
}

/* Marks what light values are made of and nothing else has in backward. */
static void makers_mark(const hr_graph *g, const hr_program *p, hr_light_value *values) {
  for (hr_id n = p->first + p->count; n-- > p->first;) {
    const hr_node *node = &g->nodes[n];
    bool light = false;
    for (int j = 0; node->phase == HR_FORWARD && j < node->n_out; j++)
      light |= values[node->out[j]].light;
    for (int i = 0; light && i < node->n_in; i++) {
      hr_id from = node->in[i];
      if (from != HR_NONE && g->values[from].producer != HR_NONE && !values[from].kept) values[from].light = true;
    }
  }
}

void hr__light_find(const hr_graph *g, hr_id program, hr_light_value *values, hr_desc *descs) {
  const hr_program *p = &g->programs[program];
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->phase != HR_FORWARD) continue;
    double moves = node->op->light ? node_moves(g, node, values, descs) : -1;
    for (int j = 0; j < node->n_out; j++) {
      hr_light_value *v = &values[node->out[j]];
      double bytes = (double)hr_desc_bytes(&g->values[node->out[j]].desc);
      bool again = v->open && moves >= 0 && value_is_largest(g, node, node->out[j]);
      bool worth = bytes > LEAST_BYTES && moves < MOST_MOVED * bytes;
      v->light = again && v->kept && worth;
      v->moved = v->kept && !v->light ? 0 : again ? moves : -1;
      v->kept &= !v->light;
    }
  }
  makers_mark(g, p, values);
}
