/* Along which axes rows can be made a few at a time: frames of a video, where a batch is a single one.
 *
 * A model names an axis of a value (hr__rows_along). What is made of it has that axis as long as each op says what rows
 * of its result are made of (hr_op.cut: a convolution reads rows around them), keeps rows apart as it keeps samples
 * apart, or takes something from all rows first (hr_op.gather: the statistics of a norm).
 */
#include <string.h>

#include "pass/split.h"

bool hr__split_rows_cut(hr_splitter *s, hr_id n, hr_rows rows, hr_rows *made) {
  const hr_graph *g = s->b->graph;
  const hr_node *node = &g->nodes[n];
  hr_op_view view = hr__node_view(g, node, s->descs);
  int axis = s->rows.axis[node->out[0]];
  if (node->args) memcpy(s->rows.args, node->args, node->op->args_bytes);
  for (int i = 0; i < node->n_in; i++)
    s->rows.in[i] = (hr_rows){0, 0};
  if (s->rows.gathered[n] != HR_NONE) s->descs[node->op->gathered] = g->values[s->rows.gathered[n]].desc;
  if (node->op->cut) return node->op->cut(&view, axis, rows, s->rows.in, made, s->rows.args);
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && s->rows.axis[node->in[i]]) s->rows.in[i] = rows;
  if (node->op->resize) node->op->resize(s->rows.args, axis, rows.count);
  *made = rows;
  return true;
}

/* Of an op that says itself what rows are made of: of those of operands that have the axis, along the same one. */
static bool cuts(hr_splitter *s, hr_id n, int axis) {
  const hr_graph *g = s->b->graph;
  const hr_node *node = &g->nodes[n];
  hr_rows made;
  if (axis < 2 || s->rows.axis[node->in[0]] != axis) return false;
  s->rows.axis[node->out[0]] = (int8_t)axis;
  hr_rows all = {0, g->values[node->out[0]].desc.dim[axis]};
  bool gathers = node->op->gather && node->in[node->op->gathered] == HR_NONE;
  bool good = hr__split_rows_cut(s, n, all, &made) || gathers;
  for (int i = 1; i < node->n_in && good; i++) {
    int has = node->in[i] == HR_NONE ? 0 : s->rows.axis[node->in[i]];
    good = node->in[i] == HR_NONE || (s->rows.in[i].count > 0 ? has == axis : has == 0);
  }
  if (!good) s->rows.axis[node->out[0]] = g->values[node->out[0]].row_axis;
  return good;
}

/* Of any other: as the batch goes through, with one row to a sample. */
static bool keeps_apart(hr_splitter *s, hr_id n) {
  const hr_graph *g = s->b->graph;
  const hr_node *node = &g->nodes[n];
  hr_batch *in = s->operands, *out = s->operands + node->n_in;
  for (int i = 0; i < node->n_in; i++) {
    int axis = node->in[i] == HR_NONE ? 0 : s->rows.axis[node->in[i]];
    in[i] = axis ? (hr_batch){axis, 1} : HR_NO_BATCH;
  }
  hr_op_view view = hr__node_view(g, node, s->descs);
  if (!hr__batch_through(node->op, &view, in, out) || out[0].axis < 1 || out[0].rows != 1) return false;
  s->rows.axis[node->out[0]] = (int8_t)out[0].axis;
  return true;
}

/* The axis of the first operand that has one; 0: none has. */
static int axis_enters(const hr_splitter *s, const hr_node *node) {
  int axis = 0;
  for (int i = 0; i < node->n_in && axis == 0; i++)
    if (node->in[i] != HR_NONE) axis = s->rows.axis[node->in[i]];
  return axis;
}

static hr_status tables_create(hr_splitter *s, size_t operands) {
  hr_graph *g = s->b->graph;
  hr_row_tables *t = &s->rows;
  size_t args = 1;
  for (size_t n = 0; n < s->n_nodes; n++)
    if (g->nodes[n].op->args_bytes > args) args = g->nodes[n].op->args_bytes;
  t->axis = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->axis);
  t->apart = hr__arena_array(&g->arena, s->n_nodes + 1, sizeof *t->apart);
  t->by_need = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->by_need);
  t->work = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->work);
  t->reads = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->reads);
  t->need = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->need);
  t->strip = hr__arena_array(&g->arena, s->n_values + 1, sizeof *t->strip);
  t->gathered = hr__arena_array(&g->arena, s->n_nodes + 1, sizeof *t->gathered);
  t->chain = hr__arena_array(&g->arena, s->n_nodes + 1, sizeof *t->chain);
  t->in = hr__arena_array(&g->arena, operands, sizeof *t->in);
  t->args = hr__arena_alloc(&g->arena, args);
  if (!t->axis || !t->apart || !t->by_need || !t->work || !t->reads || !t->need || !t->strip || !t->gathered ||
      !t->chain || !t->in || !t->args)
    return hr__nomem(s->err);
  for (size_t v = 0; v < s->n_values; v++)
    t->strip[v].slice = HR_NONE;
  for (size_t n = 0; n < s->n_nodes; n++)
    t->gathered[n] = HR_NONE;
  return HR_OK;
}

hr_status hr__split_rows_follow(hr_splitter *s, size_t operands) {
  const hr_graph *g = s->b->graph;
  HR_TRY(tables_create(s, operands));
  for (size_t v = 0; v < s->n_values; v++)
    s->rows.axis[v] = g->values[v].row_axis;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    int axis = axis_enters(s, node);
    if (axis) s->rows.apart[n] = node->op->cut ? cuts(s, n, axis) : keeps_apart(s, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != HR_NONE) s->rows.reads[node->in[i]]++;
  }
  return HR_OK;
}

bool hr__split_rows_try(hr_splitter *s, hr_region *r) {
  const hr_graph *g = s->b->graph;
  int64_t most = 0;
  for (hr_id n = r->first; r->first != HR_NONE && n <= r->last; n++) {
    const hr_node *node = &g->nodes[n];
    if (!hr__block_within(g, node->block, r->block) || !axis_enters(s, node)) continue;
    if (!s->rows.apart[n]) return false;
    for (int j = 1; j < node->n_out; j++)
      if (s->rows.reads[node->out[j]] > 0) return false;
    int64_t rows = g->values[node->out[0]].desc.dim[s->rows.axis[node->out[0]]];
    if (rows > most) most = rows;
  }
  if (most == 0) return false;
  for (hr_id n = r->first; n <= r->last; n++)
    if (hr__block_within(g, g->nodes[n].block, r->block)) s->repeated[n] = axis_enters(s, &g->nodes[n]) != 0;
  r->by_rows = true;
  r->units = most;
  return true;
}
