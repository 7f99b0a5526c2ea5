/* batch: see batch.h. */
#include "graph/batch.h"

#include <string.h>

/* ---- ops that have no rule of their own but hr_op.axes ---- */

/* The first operand that carries the batch. *agree: all that do have as much of it along the same axis, and none is one
 * that all rows share. */
static int carrier_find(const hr_op *op, const hr_op_view *view, const hr_batch *in, bool *agree) {
  int carrier = -1;
  *agree = true;
  for (int i = 0; i < view->n_in; i++) {
    if (in[i].axis < 0) continue;
    bool shared = op->shares >> i & 1;
    *agree &= !shared;
    if (shared) continue;
    if (carrier < 0) carrier = i;
    int axis = in[carrier].axis;
    *agree &=
        in[i].axis == axis && in[i].rows == in[carrier].rows && view->in[i].dim[axis] == view->in[carrier].dim[axis];
  }
  return carrier;
}

static int64_t before_axis(const hr_desc *desc, int axis) {
  int64_t count = 1;
  for (int d = 0; d < axis; d++)
    count *= desc->dim[d];
  return count;
}

/* Where a result has its batch, from its shape for all samples and for one. Rows that are joined into one axis (those
 * of statistics) stay together sample by sample only where no axis lies before the batch. */
static hr_batch result_batch(const hr_desc *all, const hr_desc *one, int axis, int64_t rows, bool leads) {
  int differs = -1;
  if (all->rank != one->rank || all->rank == 0) return HR_NO_BATCH;
  for (int d = 0; d < all->rank; d++) {
    if (all->dim[d] == one->dim[d]) continue;
    if (differs >= 0) return HR_NO_BATCH;
    differs = d;
  }
  if (differs < 0 && axis < all->rank && all->dim[axis] == rows) differs = axis; /* a batch of one sample */
  bool same = differs == axis || (leads && differs >= 0 && before_axis(all, differs) == 1);
  return same ? (hr_batch){differs, one->dim[differs]} : HR_NO_BATCH;
}

static bool axis_is_free(hr_axes axes, int axis, int rank) {
  return axes == HR_AXES_ALL || (axes == HR_AXES_ROWS && axis < rank - 1) || (axes == HR_AXES_BATCH && axis == 0);
}

/* Shapes for one sample tell where results have theirs. */
static bool through_by_shape(const hr_op *op, const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  bool agree;
  int carrier = carrier_find(op, view, in, &agree);
  if (carrier < 0 || op->axes == HR_AXES_NONE || view->n_in > 2 * HR_OP_OPERANDS || view->n_out > HR_OP_OPERANDS)
    return false;
  hr_desc one_in[2 * HR_OP_OPERANDS], one_out[HR_OP_OPERANDS] = {0};
  hr_error err;
  memcpy(one_in, view->in, (size_t)view->n_in * sizeof *one_in);
  for (int i = 0; i < view->n_in; i++)
    if (in[i].axis >= 0 && !(op->shares >> i & 1)) one_in[i].dim[in[i].axis] = in[i].rows;
  hr_op_view one = *view;
  one.in = one_in;
  one.out = one_out;
  if (op->shape(&one, one_out, &err) != HR_OK) return false;
  int axis = in[carrier].axis;
  bool leads = before_axis(&view->in[carrier], axis) == 1;
  for (int j = 0; j < view->n_out; j++)
    out[j] = result_batch(&view->out[j], &one_out[j], axis, in[carrier].rows, leads);
  return agree && out[0].axis == axis && axis_is_free(op->axes, axis, view->out[0].rank);
}

bool hr__batch_through(const hr_op *op, const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  for (int j = 0; j < view->n_out; j++)
    out[j] = HR_NO_BATCH;
  bool whole = op->batch ? op->batch(view, in, out) : through_by_shape(op, view, in, out);
  bool random = op->random && (op->sample_at == 0 || out[0].axis != 0);
  return whole && !op->effect && !random;
}

/* ---- a graph ---- */

/* Whether any operand carries the batch. */
static bool batch_enters(const hr_node *node, const hr_batch *of) {
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && of[node->in[i]].axis >= 0) return true;
  return false;
}

hr_status hr__batch_follow(const hr_graph *graph, hr_batch *of, bool *couples, hr_error *err) {
  size_t most = 1;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    size_t has = (size_t)(graph->nodes[n].n_in + graph->nodes[n].n_out);
    if (has > most) most = has;
  }
  for (size_t v = 0; v < graph->n_values; v++) {
    const hr_buffer *buffer = &graph->buffers[graph->values[v].buffer];
    bool input = buffer->role == HR_ROLE_INPUT && !buffer->persistent && graph->values[v].producer == HR_NONE;
    of[v] = input ? (hr_batch){graph->values[v].batch_axis, graph->values[v].batch_rows} : HR_NO_BATCH;
  }
  hr_desc *descs = hr__alloc(most * sizeof *descs);
  hr_batch *batch = hr__alloc(most * sizeof *batch);
  hr_status status = descs && batch ? HR_OK : hr__nomem(err);
  for (size_t n = 0; status == HR_OK && n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    if (couples) couples[n] = false;
    if (!batch_enters(node, of)) continue;
    hr_op_view view = hr__node_view(graph, node, descs);
    for (int i = 0; i < node->n_in; i++)
      batch[i] = node->in[i] == HR_NONE ? HR_NO_BATCH : of[node->in[i]];
    bool apart = hr__batch_through(node->op, &view, batch, batch + node->n_in);
    if (couples) couples[n] = !apart;
    for (int j = 0; j < node->n_out; j++)
      of[node->out[j]] = batch[node->n_in + j];
  }
  hr__free(descs);
  hr__free(batch);
  return status;
}
