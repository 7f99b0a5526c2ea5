/* Adjoints: bookkeeping behind gradient rules. See adjoint.h for the rules of the game. */
#include "graph/adjoint.h"

#include <assert.h>
#include <string.h>

struct hr_adjoint {
  hr_builder *b;
  hr_sum_ops sum;
  hr_arena arena;
  size_t n_values; /* values that existed before backward; only those have adjoints */
  hr_id *gradient; /* per value: sum so far, or HR_NONE */
  hr_id *home;     /* per value: persistent gradient once something flows there, or HR_NONE */
  hr_homes homes;
  bool *trained;   /* per value: a trained parameter lies behind it */
  hr_id *root;     /* per value: itself, or the trained parameter that it is in another type */
  hr_node node;    /* whose rule is running */
  hr_id first_new; /* nodes from here on were emitted by that rule */
  uint32_t reads;  /* HR_SAVE_* bits read by that rule */
};

hr_status hr__adjoint_create(hr_builder *b, hr_sum_ops sum, hr_homes homes, hr_adjoint **out, hr_error *err) {
  HR_TRY(hr__builder_status(b, err));
  hr_adjoint *a = hr__alloc_zero(1, sizeof *a);
  if (!a) return hr__nomem(err);
  hr__arena_init(&a->arena);
  a->b = b;
  a->sum = sum;
  a->homes = homes;
  a->n_values = b->graph->n_values;
  a->gradient = hr__arena_array(&a->arena, a->n_values, sizeof *a->gradient);
  a->home = hr__arena_array(&a->arena, a->n_values, sizeof *a->home);
  a->trained = hr__arena_array(&a->arena, a->n_values, sizeof *a->trained);
  a->root = hr__arena_array(&a->arena, a->n_values, sizeof *a->root);
  if (!a->gradient || !a->home || !a->trained || !a->root) {
    hr__adjoint_destroy(a);
    return hr__nomem(err);
  }
  for (hr_id v = 0; v < a->n_values; v++) {
    a->gradient[v] = a->home[v] = HR_NONE;
    a->root[v] = v;
  }
  *out = a;
  return HR_OK;
}

void hr__adjoint_destroy(hr_adjoint *a) {
  if (!a) return;
  hr__arena_fini(&a->arena);
  hr__free(a);
}

void hr__adjoint_mark_trained(hr_adjoint *a, hr_id program) {
  const hr_graph *g = a->b->graph;
  for (size_t v = 0; v < a->n_values; v++)
    a->trained[v] = g->values[v].trained;
  const hr_program *p = &g->programs[program];
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    bool behind = false;
    for (int i = 0; i < node->n_in; i++)
      behind |= node->in[i] != HR_NONE && a->trained[node->in[i]];
    for (int j = 0; j < node->n_out; j++)
      a->trained[node->out[j]] = behind && !g->values[node->out[j]].detached;
    if (behind && a->sum.converts && a->sum.converts(g, node) && g->values[a->root[node->in[0]]].trained)
      a->root[node->out[0]] = a->root[node->in[0]];
  }
}

void hr__adjoint_seed(hr_adjoint *a, hr_id value, hr_id gradient) {
  a->gradient[value] = gradient;
}

hr_id hr__adjoint_of(const hr_adjoint *a, hr_id value) {
  return value < a->n_values ? a->gradient[a->root[value]] : HR_NONE;
}

hr_id hr__adjoint_home(const hr_adjoint *a, hr_id value) {
  return value < a->n_values ? a->home[a->root[value]] : HR_NONE;
}

uint32_t hr__adjoint_reads(const hr_adjoint *a) {
  return a->reads;
}

void hr__adjoint_visit(hr_adjoint *a, hr_id node) {
  a->reads = 0;
  if (a->b->status != HR_OK) return;
  const hr_graph *g = a->b->graph;
  a->node = g->nodes[node];
  a->first_new = (hr_id)g->n_nodes;
  bool flows = false;
  for (int j = 0; j < a->node.n_out; j++)
    flows |= hr__adjoint_of(a, a->node.out[j]) != HR_NONE;
  if (!flows || !a->node.op->grad) return;
  if (a->root[a->node.out[0]] != a->node.out[0]) return; /* what flows there is the parameter's gradient already */
  bool wanted = false;
  for (int i = 0; i < a->node.n_in; i++)
    wanted |= hr__wants_grad(a, i);
  if (!wanted) return;
  a->b->module = a->node.module;
  a->b->block = a->node.block;
  a->node.op->grad(a, &a->node);
  assert((a->reads & ~a->node.op->saves) == 0 && "a gradient rule reads only what its op declares");
}

hr_builder *hr__adjoint_builder(hr_adjoint *a) {
  return a->b;
}

hr_id hr__out_grad(hr_adjoint *a, int out) {
  return hr__adjoint_of(a, a->node.out[out]);
}

bool hr__wants_grad(hr_adjoint *a, int in) {
  hr_id value = a->node.in[in];
  return value != HR_NONE && value < a->n_values && a->trained[value];
}

hr_dtype hr__grad_dtype(hr_adjoint *a, int in) {
  return a->b->graph->values[a->root[a->node.in[in]]].desc.dtype;
}

hr_id hr__saved_in(hr_adjoint *a, int in) {
  a->reads |= a->node.op->variadic ? HR_SAVE_ALL_IN : HR_SAVE_IN(in);
  return a->node.in[in];
}

hr_id hr__saved_out(hr_adjoint *a, int out) {
  a->reads |= HR_SAVE_OUT(out);
  return a->node.out[out];
}

/* The persistent gradient of a parameter, declared when the first contribution is made; HR_NONE: it has none. */
static hr_id home_get(hr_adjoint *a, hr_id value) {
  hr_graph *g = a->b->graph;
  if (a->homes == HR_HOMES_NONE || !g->values[value].trained) return HR_NONE;
  if (a->home[value] != HR_NONE) return a->home[value];
  a->home[value] =
      hr__beside(a->b, value, "grad", HR_ROLE_GRADIENT, g->values[value].desc, (hr_init){.rule = HR_INIT_ZERO});
  return a->home[value];
}

hr_id hr__grad_partial(hr_adjoint *a, int in) {
  if (a->b->status != HR_OK || !hr__wants_grad(a, in)) return HR_NONE;
  hr_id value = a->root[a->node.in[in]];
  if (a->gradient[value] != HR_NONE || a->homes != HR_HOMES_HOLD_PARTIALS) return a->gradient[value];
  return home_get(a, value);
}

/* Puts a value that the running rule produced into the persistent home of a gradient; anything older is copied first,
 * since others may hold it. */
static hr_id value_move_home(hr_adjoint *a, hr_id value, hr_id home) {
  hr_graph *g = a->b->graph;
  if (value == HR_NONE || g->values[value].buffer == g->values[home].buffer) return value;
  hr_id producer = g->values[value].producer;
  if (producer == HR_NONE || producer < a->first_new) {
    value = a->sum.copy(a->b, value);
    if (value == HR_NONE) return HR_NONE;
  }
  hr_value *v = &g->values[value];
  g->buffers[v->buffer].programs = 0;
  v->buffer = g->values[home].buffer;
  v->offset = g->values[home].offset;
  g->buffers[v->buffer].programs |= 1u << a->b->program;
  return value;
}

void hr__grad_set(hr_adjoint *a, int in, hr_id total) {
  if (a->b->status != HR_OK || !hr__wants_grad(a, in)) return;
  hr_graph *g = a->b->graph;
  hr_id value = a->root[a->node.in[in]];
  hr_id home = home_get(a, value);
  if (home != HR_NONE) total = value_move_home(a, total, home);
  if (total == HR_NONE || a->b->status != HR_OK) return;
  assert(g->values[total].desc.dtype == g->values[value].desc.dtype && "a gradient has its value's type");
  a->gradient[value] = total;
  hr_buffer *buffer = &g->buffers[g->values[total].buffer];
  if (g->values[value].trained && buffer->role == HR_ROLE_ACTIVATION) buffer->role = HR_ROLE_GRADIENT;
}

void hr__grad_add(hr_adjoint *a, int in, hr_id contribution) {
  if (a->b->status != HR_OK || !hr__wants_grad(a, in)) return;
  hr_id partial = hr__grad_partial(a, in);
  hr__grad_set(a, in, partial == HR_NONE ? contribution : a->sum.add(a->b, partial, contribution));
}

void hr__replace_out(hr_adjoint *a, int out, hr_id value) {
  if (a->b->status != HR_OK) return;
  hr_graph *g = a->b->graph;
  hr_program *p = &g->programs[a->b->program];
  for (int i = 0; i < p->n_outputs; i++) {
    if (p->output[i].value != a->node.out[out]) continue;
    p->output[i].value = value;
    g->buffers[g->values[a->node.out[out]].buffer].role = HR_ROLE_ACTIVATION;
    g->buffers[g->values[value].buffer].role = HR_ROLE_OUTPUT;
  }
}
