/* A graph of one op with its backward pass, executed without plan or arena. */
#include "part_gradient.h"

#include <stdio.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/add.h"
#include "op/copy.h"

typedef struct one_op {
  op_case *c;
  hr_graph *graph;
  hr_builder builder;
  hr_adjoint *adjoint;
  hr_id in[HR_OP_OPERANDS], partial[HR_OP_OPERANDS], seed, node;
  unsigned char **memory; /* per buffer */
} one_op;

static hr_id sum_add(hr_builder *b, hr_id a, hr_id c) {
  return hr__add(b, a, c, 1.0f);
}

static hr_id sum_copy(hr_builder *b, hr_id x) {
  return hr__copy(b, x, b->graph->values[x].desc.dtype);
}

/* A persistent operand of this kind would be updated in place. */
static bool operand_is_accumulated(const hr_op *op, int in) {
  for (int a = 0; a < op->n_alias; a++)
    if (op->alias[a].in == in && op->alias[a].kind == HR_ALIAS_ACCUMULATE) return true;
  return false;
}

/* Inputs as parameters, trained or not; integers, and what is added to, as inputs of the program. */
static void operands_build(one_op *g, uint32_t trained) {
  const op_case *c = g->c;
  for (int i = 0; i < c->sample->n_in; i++) {
    char name[32];
    snprintf(name, sizeof name, "in%d", i);
    g->in[i] = HR_NONE;
    if (c->in[i].rank == 0) continue;
    if (operand_is_control(&c->in[i])) {
      g->in[i] = hr__control(&g->builder);
    } else if (c->in[i].dtype == HR_I32 || c->in[i].dtype == HR_U8) {
      g->in[i] = hr__input(&g->builder, name, c->in[i]);
    } else if (operand_is_accumulated(c->op, i)) {
      g->in[i] = hr__input(&g->builder, name, c->in[i]);
      g->graph->values[g->in[i]].trained = (trained & (1u << i)) != 0;
    } else {
      g->in[i] = hr__parameter(&g->builder, name, c->in[i], (hr_init){.rule = HR_INIT_ZERO});
      g->graph->values[g->in[i]].trained = (trained & (1u << i)) != 0;
    }
  }
}

static void graph_build(one_op *g, gradient_options options) {
  op_case *c = g->c;
  hr_error err = {0};
  hr__builder_init(&g->builder, g->graph, HR_F32);
  hr__program_begin(&g->builder, HR_PROGRAM_STEP);
  operands_build(g, options.trained);
  hr_id y = hr__emit(&g->builder, c->op, g->in, c->sample->n_in, c->sample->args);
  if (y == HR_NONE) case_fail(c, "the builder refuses it: %s", g->builder.error.message);
  g->node = g->graph->values[y].producer;
  g->seed = hr__input(&g->builder, "seed", c->out[0]);
  for (int i = 0; i < c->sample->n_in; i++) {
    char name[32];
    snprintf(name, sizeof name, "partial%d", i);
    bool wanted = options.with_partial && (options.trained & (1u << i)) && g->in[i] != HR_NONE;
    g->partial[i] = wanted ? hr__input(&g->builder, name, c->in[i]) : HR_NONE;
  }
  g->builder.phase = HR_BACKWARD;
  if (hr__adjoint_create(&g->builder, (hr_sum_ops){.add = sum_add, .copy = sum_copy}, HR_HOMES_NONE, &g->adjoint,
                         &err) != HR_OK)
    case_fail(c, "no adjoint: %s", err.message);
  hr__adjoint_mark_trained(g->adjoint, g->builder.program);
  hr__adjoint_seed(g->adjoint, y, g->seed);
  for (int i = 0; i < c->sample->n_in; i++)
    if (g->partial[i] != HR_NONE) hr__adjoint_seed(g->adjoint, g->in[i], g->partial[i]);
  hr__adjoint_visit(g->adjoint, g->node);
  if (hr__builder_status(&g->builder, &err) != HR_OK) case_fail(c, "backward: %s", err.message);
  if (hr__graph_verify(g->graph, &err) != HR_OK) case_fail(c, "verifier: %s: %s", err.place, err.message);
}

/* Backward may read the seed, partials, its own results, and of the forward node what the op declares. */
static void reads_check(const one_op *g) {
  const hr_graph *graph = g->graph;
  const hr_node *forward = &graph->nodes[g->node];
  for (size_t n = g->node + 1; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    for (int k = 0; k < node->n_in; k++) {
      hr_id value = node->in[k];
      if (value == HR_NONE || value == g->seed) continue;
      hr_id producer = graph->values[value].producer;
      bool allowed = producer != HR_NONE && producer > g->node;
      for (int i = 0; i < forward->n_in; i++)
        allowed |=
            value == g->partial[i] || (value == forward->in[i] && (g->c->op->saves & (HR_SAVE_IN(i) | HR_SAVE_ALL_IN)));
      for (int j = 0; j < forward->n_out; j++)
        allowed |= value == forward->out[j] && (g->c->op->saves & HR_SAVE_OUT(j));
      if (!allowed) case_fail(g->c, "%s of its backward reads an undeclared value (operand %d)", node->op->name, k);
    }
  }
}

static void *value_data(const one_op *g, hr_id value) {
  const hr_value *v = &g->graph->values[value];
  return g->memory[v->buffer] + v->offset;
}

static void value_set(const one_op *g, hr_id value, const double *from) {
  const hr_desc *desc = &g->graph->values[value].desc;
  int64_t count = hr_desc_count(desc);
  for (int64_t e = 0; e < count; e++)
    element_write(desc->dtype, value_data(g, value), e, from[e]);
}

static double *value_get(const one_op *g, hr_id value) {
  const hr_desc *desc = &g->graph->values[value].desc;
  int64_t count = hr_desc_count(desc);
  double *to = hr__arena_array(&g->c->arena, (size_t)count, sizeof *to);
  for (int64_t e = 0; e < count; e++)
    to[e] = element_read(desc->dtype, value_data(g, value), e);
  return to;
}

static double *value_draw(const one_op *g, hr_id value, uint64_t which) {
  const hr_desc *desc = &g->graph->values[value].desc;
  int64_t count = hr_desc_count(desc);
  double *to = hr__arena_array(&g->c->arena, (size_t)count, sizeof *to);
  draw("gradient", which, to, count);
  for (int64_t e = 0; e < count; e++)
    to[e] = (double)(float)to[e];
  value_set(g, value, to);
  return to;
}

static hr_tensor value_tensor(const one_op *g, hr_id value) {
  hr_tensor tensor = {0};
  if (value == HR_NONE) return tensor;
  tensor.data = value_data(g, value);
  tensor.desc = g->graph->values[value].desc;
  memcpy(tensor.stride, g->graph->values[value].stride, sizeof tensor.stride);
  return tensor;
}

static void node_run(one_op *g, const hr_node *node) {
  enum { THREADS = 2 };
  hr_tensor in[HR_OP_OPERANDS], out[HR_OP_OPERANDS];
  hr_desc storage[2 * HR_OP_OPERANDS];
  hr_error err = {0};
  for (int i = 0; i < node->n_in; i++)
    in[i] = value_tensor(g, node->in[i]);
  for (int j = 0; j < node->n_out; j++)
    out[j] = value_tensor(g, node->out[j]);
  hr_op_view view = hr__node_view(g->graph, node, storage);
  size_t workspace = node->op->workspace ? node->op->workspace(&view, HR_CPU, THREADS) : 0;
  hr_call call = {.in = in,
                  .out = out,
                  .n_in = node->n_in,
                  .n_out = node->n_out,
                  .args = node->args,
                  .workspace = workspace ? hr__arena_alloc(&g->c->arena, workspace) : NULL,
                  .workspace_bytes = workspace,
                  .stream_key = CASE_STREAM,
                  .threads = THREADS,
                  .device = device_get()};
  if (node->op->cpu.prepare && node->op->cpu.prepare(&call, &call.prepared, &err) != HR_OK)
    case_fail(g->c, "%s: prepare: %s", node->op->name, err.message);
  hr_status status = node->op->cpu.run(&call);
  if (node->op->cpu.release) node->op->cpu.release(call.prepared);
  if (status != HR_OK) case_fail(g->c, "%s: %s", node->op->name, hr_status_text(status));
}

static void memory_create(one_op *g) {
  g->memory = hr__arena_array(&g->c->arena, g->graph->n_buffers, sizeof *g->memory);
  for (size_t b = 0; b < g->graph->n_buffers; b++) {
    size_t bytes = g->graph->buffers[b].bytes;
    g->memory[b] = hr__arena_alloc(&g->c->arena, bytes ? bytes : 1);
    memset(g->memory[b], 0xff, bytes);
  }
}

gradient_result gradient_run(op_case *c, gradient_options options) {
  one_op g = {.c = c};
  gradient_result result = {0};
  hr_error err = {0};
  if (hr__graph_create(&g.graph, &err) != HR_OK) case_fail(c, "no graph: %s", err.message);
  graph_build(&g, options);
  reads_check(&g);
  result.reads = hr__adjoint_reads(g.adjoint);

  memory_create(&g);
  for (int i = 0; i < c->sample->n_in; i++)
    if (g.in[i] != HR_NONE) value_set(&g, g.in[i], c->value[i]);
  result.seed = value_draw(&g, g.seed, 100);
  for (int i = 0; i < c->sample->n_in; i++)
    if (g.partial[i] != HR_NONE) result.partial[i] = value_draw(&g, g.partial[i], (uint64_t)i);
  for (size_t n = 0; n < g.graph->n_nodes; n++)
    node_run(&g, &g.graph->nodes[n]);

  for (int i = 0; i < c->sample->n_in; i++) {
    hr_id gradient = g.in[i] == HR_NONE ? HR_NONE : hr__adjoint_of(g.adjoint, g.in[i]);
    if (gradient != HR_NONE) result.gradient[i] = value_get(&g, gradient);
  }
  hr__adjoint_destroy(g.adjoint);
  hr__graph_destroy(g.graph);
  return result;
}
