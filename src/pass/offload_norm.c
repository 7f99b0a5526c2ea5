/* Gradients that leave the device are squared for the norm on their way: one node for all of them becomes one for each,
 * right behind the node that makes it, or one after another where they lie below already. The sums have the same bits
 * (op/grad_norm.h). */
#include <string.h>

#include "op/grad_norm.h"
#include "pass/offload.h"

typedef struct norm_split {
  hr_builder *b;
  hr_id *parts;  /* per value of a split node: first of the values that stand for it, which are neighbours; HR_NONE */
  int *n_parts;  /* per value */
  hr_id *behind; /* per node: the first new node that goes behind it; HR_NONE */
  hr_id *follow; /* per node: the next new node behind the same; HR_NONE */
  bool *dropped; /* per node */
  hr_id *list;   /* values of parts */
  size_t n_list;
} norm_split;

static void behind_add(norm_split *s, hr_id node, hr_id added) {
  hr_id *at = &s->behind[node];
  while (*at != HR_NONE)
    at = &s->follow[*at];
  *at = added;
}

static void node_split(norm_split *s, hr_id id) {
  hr_graph *g = s->b->graph;
  const hr_node node = g->nodes[id];
  s->b->program = node.program;
  s->b->phase = node.phase;
  s->b->block = HR_NONE;
  s->b->module = node.module;
  s->parts[node.out[0]] = (hr_id)s->n_list;
  s->n_parts[node.out[0]] = node.n_in;
  s->dropped[id] = true;
  for (int i = 0; i < node.n_in && s->b->status == HR_OK; i++) {
    hr_id maker = g->values[node.in[i]].producer, part = hr__grad_squares(s->b, &node.in[i], 1);
    if (part == HR_NONE) return;
    s->list[s->n_list++] = part;
    behind_add(s, maker == HR_NONE ? id : maker, g->values[part].producer);
  }
}

/* A reader of split sums reads their parts. */
static hr_status reader_change(norm_split *s, hr_id id, hr_error *err) {
  hr_graph *g = s->b->graph;
  hr_node *node = &g->nodes[id];
  int n_in = 0;
  for (int i = 0; i < node->n_in; i++)
    n_in += node->in[i] != HR_NONE && s->parts[node->in[i]] != HR_NONE ? s->n_parts[node->in[i]] : 1;
  if (n_in == node->n_in) return HR_OK;
  hr_id *in = hr__arena_array(&g->arena, (size_t)n_in, sizeof *in);
  if (!in) return hr__nomem(err);
  n_in = 0;
  for (int i = 0; i < node->n_in; i++) {
    hr_id old = node->in[i];
    if (s->parts[old] == HR_NONE) {
      in[n_in++] = old;
      continue;
    }
    memcpy(in + n_in, s->list + s->parts[old], (size_t)s->n_parts[old] * sizeof *in);
    n_in += s->n_parts[old];
  }
  node->in = in;
  node->n_in = n_in;
  return HR_OK;
}

static hr_status split_all(norm_split *s, size_t n_nodes, hr_error *err) {
  hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < n_nodes; n++)
    if (g->nodes[n].op == &hr_op_grad_squares && g->nodes[n].n_in > 1) node_split(s, n);
  HR_TRY(hr__builder_status(s->b, err));
  if (s->n_list == 0) return HR_OK;
  for (hr_id n = 0; n < n_nodes; n++)
    if (g->nodes[n].op == &hr_op_grad_norm) HR_TRY(reader_change(s, n, err));
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  size_t count = 0;
  for (hr_id n = 0; n < n_nodes; n++) {
    if (!s->dropped[n]) order[count++] = n;
    for (hr_id added = s->behind[n]; added != HR_NONE; added = s->follow[added])
      order[count++] = added;
  }
  return hr__graph_arrange(g, order, count, err);
}

hr_status hr__offload_norm(hr_builder *b, hr_error *err) {
  hr_graph *g = b->graph;
  size_t n_nodes = g->n_nodes, n_values = g->n_values, operands = 0;
  for (size_t n = 0; n < n_nodes; n++)
    if (g->nodes[n].op == &hr_op_grad_squares) operands += (size_t)g->nodes[n].n_in;
  hr_arena scratch;
  hr__arena_init(&scratch);
  norm_split s = {.b = b,
                  .parts = hr__arena_array(&scratch, n_values + 1, sizeof *s.parts),
                  .n_parts = hr__arena_array(&scratch, n_values + 1, sizeof *s.n_parts),
                  .behind = hr__arena_array(&scratch, n_nodes + operands + 1, sizeof *s.behind),
                  .follow = hr__arena_array(&scratch, n_nodes + operands + 1, sizeof *s.follow),
                  .dropped = hr__arena_array(&scratch, n_nodes + 1, sizeof *s.dropped),
                  .list = hr__arena_array(&scratch, operands + 1, sizeof *s.list)};
  hr_status status = HR_OK;
  if (!s.parts || !s.n_parts || !s.behind || !s.follow || !s.dropped || !s.list) status = hr__nomem(err);
  for (size_t v = 0; status == HR_OK && v < n_values; v++)
    s.parts[v] = HR_NONE;
  for (size_t n = 0; status == HR_OK && n < n_nodes + operands; n++)
    s.behind[n] = s.follow[n] = HR_NONE;
  if (status == HR_OK) status = split_all(&s, n_nodes, err);
  hr__arena_fini(&scratch);
  return status;
}
