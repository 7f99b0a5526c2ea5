/* grad: one backward walk over a program's nodes, each op's rule in turn. */
#include "grad/grad.h"

#include "op/add.h"
#include "op/copy.h"
#include "op/loss_seed.h"
#include "op/pointwise.h"

static hr_id sum_add(hr_builder *b, hr_id x, hr_id y) {
  return hr__add(b, x, y, 1.0f);
}

static hr_id sum_copy(hr_builder *b, hr_id x) {
  return hr__copy(b, x, b->graph->values[x].desc.dtype);
}

/* A copy that scales has a gradient of its own. */
static bool sum_converts(const hr_graph *g, const hr_node *node) {
  return node->op == &hr_op_copy && ((const hr_copy_args *)node->args)->factor == 1.0f &&
         g->values[node->in[0]].desc.dtype != g->values[node->out[0]].desc.dtype;
}

static hr_status losses_seed(hr_builder *b, hr_adjoint *a, const hr_loss *losses, const hr_id *factors, size_t n_losses,
                             hr_error *err) {
  for (size_t i = 0; i < n_losses; i++) {
    hr__module(b, "loss");
    b->block = HR_NONE;
    hr_id seed = hr__loss_seed(b, losses[i].weight);
    if (factors && factors[i] != HR_NONE) seed = hr__binary(b, HR_FORMULA_mul, seed, factors[i]);
    if (seed != HR_NONE) hr__adjoint_seed(a, losses[i].value, seed);
  }
  return hr__builder_status(b, err);
}

static hr_status grad_by(hr_builder *b, const hr_loss *losses, const hr_id *factors, size_t n_losses, hr_grad_mode mode,
                         hr_error *err) {
  static const hr_homes homes[] = {[HR_GRAD_TRANSIENT] = HR_HOMES_NONE,
                                   [HR_GRAD_WRITE] = HR_HOMES_EMPTY,
                                   [HR_GRAD_ACCUMULATE] = HR_HOMES_HOLD_PARTIALS};
  hr_adjoint *a;
  hr_sum_ops sum = {.add = sum_add, .copy = sum_copy, .converts = sum_converts};
  HR_TRY(hr__adjoint_create(b, sum, homes[mode], &a, err));
  hr_graph *g = b->graph;
  const hr_program forward = g->programs[b->program];
  size_t n_values = g->n_values;
  b->phase = HR_BACKWARD;
  hr__adjoint_mark_trained(a, b->program);
  hr_status status = losses_seed(b, a, losses, factors, n_losses, err);
  for (hr_id n = forward.first + forward.count; status == HR_OK && n-- > forward.first;)
    hr__adjoint_visit(a, n);
  if (status == HR_OK) status = hr__builder_status(b, err);
  for (hr_id v = 0; status == HR_OK && v < n_values; v++) {
    if (!g->values[v].trained || hr__adjoint_of(a, v) == HR_NONE) continue;
    g->values[v].gradient = mode == HR_GRAD_TRANSIENT ? hr__adjoint_of(a, v) : hr__adjoint_home(a, v);
  }
  hr__adjoint_destroy(a);
  return status;
}

hr_status hr__grad(hr_builder *b, const hr_loss *losses, size_t n_losses, hr_grad_mode mode, hr_error *err) {
  return grad_by(b, losses, NULL, n_losses, mode, err);
}

hr_status hr__grad_program(hr_builder *b, hr_grad_mode mode, hr_error *err) {
  const hr_program *p = &b->graph->programs[b->program];
  hr_loss losses[HR_PROGRAM_OUTPUTS];
  hr_id factors[HR_PROGRAM_OUTPUTS];
  size_t count = 0;
  for (int i = 0; i < p->n_outputs; i++) {
    if (p->output[i].kind != HR_OUTPUT_LOSS) continue;
    losses[count] = (hr_loss){.value = p->output[i].value, .weight = p->output[i].weight};
    factors[count++] = p->output[i].factor;
  }
  return grad_by(b, losses, factors, count, mode, err);
}
