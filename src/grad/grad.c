/* grad: one backward walk over a program's nodes, each op's rule in turn. */
#include "grad/grad.h"

#include "op/add.h"
#include "op/constant.h"
#include "op/copy.h"

static hr_id sum_add(hr_builder *b, hr_id x, hr_id y) { return hr__add(b, x, y, 1.0f); }

static hr_id sum_copy(hr_builder *b, hr_id x) { return hr__copy(b, x, b->graph->values[x].desc.dtype); }

/* The persistent gradient of every trained parameter that the program reads. */
static hr_status homes_declare(hr_builder *b, hr_adjoint *a, size_t n_values, bool holds_partial, hr_error *err) {
  hr_graph *g = b->graph;
  for (hr_id v = 0; v < n_values; v++) {
    if (!g->values[v].trained || !(g->buffers[g->values[v].buffer].programs & (1u << b->program))) continue;
    const char *name = hr__arena_format(&g->arena, "grad.%s", g->values[v].name);
    if (!name) return hr__nomem(err);
    hr_id home = hr__persistent(b, name, HR_ROLE_GRADIENT, g->values[v].desc, (hr_init){HR_INIT_ZERO, 0});
    if (home == HR_NONE) break;
    hr__adjoint_home(a, v, home, holds_partial);
    g->values[v].gradient = home;
  }
  return hr__builder_status(b, err);
}

static hr_status losses_seed(hr_builder *b, hr_adjoint *a, const hr_loss *losses, size_t n_losses, hr_error *err) {
  for (size_t i = 0; i < n_losses; i++) {
    hr__module(b, "loss");
    b->block = HR_NONE;
    hr_id seed = hr__constant(b, losses[i].weight);
    if (seed != HR_NONE) hr__adjoint_seed(a, losses[i].value, seed);
  }
  return hr__builder_status(b, err);
}

hr_status hr__grad(hr_builder *b, const hr_loss *losses, size_t n_losses, hr_grad_mode mode, hr_error *err) {
  hr_adjoint *a;
  HR_TRY(hr__adjoint_create(b, (hr_sum_ops){.add = sum_add, .copy = sum_copy}, &a, err));
  hr_graph *g = b->graph;
  const hr_program forward = g->programs[b->program];
  size_t n_values = g->n_values;
  b->phase = HR_BACKWARD;
  hr__adjoint_mark_trained(a, b->program);
  hr_status status = mode == HR_GRAD_TRANSIENT ? HR_OK : homes_declare(b, a, n_values, mode == HR_GRAD_ACCUMULATE, err);
  if (status == HR_OK) status = losses_seed(b, a, losses, n_losses, err);
  for (hr_id n = forward.first + forward.count; status == HR_OK && n-- > forward.first;) hr__adjoint_visit(a, n);
  if (status == HR_OK) status = hr__builder_status(b, err);
  for (hr_id v = 0; status == HR_OK && mode == HR_GRAD_TRANSIENT && v < n_values; v++)
    if (g->values[v].trained) g->values[v].gradient = hr__adjoint_of(a, v);
  hr__adjoint_destroy(a);
  return status;
}
