/* The verifier: everything a graph promises, checked between any two passes in debug builds and in tests. */
#include <string.h>

#include "graph/graph.h"

typedef struct verifier {
  const hr_graph *g;
  hr_error *err;
  hr_arena arena;
  hr_id *next_in_buffer; /* per value: next value of the same buffer */
  hr_id *first_in_buffer;
  bool *dead; /* per value: overwritten in the program being checked */
} verifier;

#define REFUSE(v, n, ...)                                                                                              \
  return hr__fail((v)->err, HR_FAILURE, node_place((v)->g, (n), (char[160]){0}), NULL, __VA_ARGS__)

static const char *node_place(const hr_graph *g, hr_id n, char text[160]) {
  snprintf(text, 160, "node %u (%s, %s)", n, g->nodes[n].op->name, g->nodes[n].module);
  return text;
}

/* Bytes [begin, end) of the buffer that a value covers. */
static void value_range(const hr_value *v, size_t *begin, size_t *end) {
  size_t last = 0;
  for (int i = 0; i < v->desc.rank; i++) {
    if (v->desc.dim[i] == 0) {
      *begin = *end = v->offset;
      return;
    }
    last += (size_t)((v->desc.dim[i] - 1) * v->stride[i]);
  }
  *begin = v->offset;
  *end = v->offset + (last + 1) * hr_dtype_bytes(v->desc.dtype);
}

static bool values_overlap(const hr_value *a, const hr_value *b) {
  size_t a_begin, a_end, b_begin, b_end;
  value_range(a, &a_begin, &a_end);
  value_range(b, &b_begin, &b_end);
  return a_begin < b_end && b_begin < a_end;
}

static hr_status verify_values(verifier *v) {
  const hr_graph *g = v->g;
  for (hr_id i = 0; i < g->n_values; i++) {
    const hr_value *value = &g->values[i];
    if (value->buffer >= g->n_buffers)
      return hr__fail(v->err, HR_FAILURE, value->name, NULL, "value %u names no buffer", i);
    for (int d = 0; d < value->desc.rank; d++) {
      if (value->desc.dim[d] < 0 || value->stride[d] < 0)
        return hr__fail(v->err, HR_FAILURE, value->name, NULL, "value %u has a negative dimension or stride", i);
    }
    size_t begin, end;
    value_range(value, &begin, &end);
    if (end > g->buffers[value->buffer].bytes && !g->buffers[value->buffer].sketched)
      return hr__fail(v->err, HR_FAILURE, value->name, NULL, "value %u reaches beyond its buffer (%zu of %zu bytes)", i,
                      end, g->buffers[value->buffer].bytes);
    v->next_in_buffer[i] = v->first_in_buffer[value->buffer];
    v->first_in_buffer[value->buffer] = i;
  }
  return HR_OK;
}

static hr_status verify_shapes(verifier *v, hr_id n) {
  const hr_graph *g = v->g;
  const hr_node *node = &g->nodes[n];
  hr_desc *storage = hr__alloc_zero((size_t)(node->n_in + 2 * node->n_out) + 1, sizeof *storage);
  if (!storage) return hr__nomem(v->err);
  hr_op_view view = hr__node_view(g, node, storage);
  hr_desc *fresh = storage + node->n_in + node->n_out;
  hr_error why = {0};
  hr_status status = node->op->shape(&view, fresh, &why);
  bool same = true;
  for (int j = 0; status == HR_OK && j < node->n_out; j++)
    same &= fresh[j].dtype == view.out[j].dtype && hr_desc_same_shape(&fresh[j], &view.out[j]);
  hr__free(storage);
  if (status != HR_OK) REFUSE(v, n, "%s", why.message);
  if (!same) REFUSE(v, n, "an output is not what the op's shape rule says");
  return HR_OK;
}

static hr_status verify_reads(verifier *v, hr_id program, hr_id n) {
  const hr_graph *g = v->g;
  const hr_node *node = &g->nodes[n];
  for (int i = 0; i < node->n_in; i++) {
    hr_id in = node->in[i];
    if (in == HR_NONE) {
      if (node->op->variadic || !(node->op->optional & (1u << i))) REFUSE(v, n, "operand %d is missing", i);
      continue;
    }
    if (in >= g->n_values) REFUSE(v, n, "operand %d names no value", i);
    const hr_value *value = &g->values[in];
    const hr_buffer *buffer = &g->buffers[value->buffer];
    if (!buffer->persistent && buffer->program != program)
      REFUSE(v, n, "operand %d (%s) belongs to another program", i, value->name);
    if (value->producer == HR_DROPPED)
      REFUSE(v, n, "operand %d (%s) was made by a node that was dropped", i, value->name);
    if (value->producer != HR_NONE && (value->producer >= n || value->producer < g->programs[program].first))
      REFUSE(v, n, "operand %d (%s) is read before it is produced", i, value->name);
    if (v->dead[in]) REFUSE(v, n, "operand %d (%s) was overwritten in place by an earlier node", i, value->name);
  }
  return HR_OK;
}

static bool alias_allowed(const hr_op *op, int in, int out) {
  for (int a = 0; a < op->n_alias; a++)
    if (op->alias[a].in == in && op->alias[a].out == out) return true;
  return false;
}

static hr_status verify_writes(verifier *v, hr_id n) {
  const hr_graph *g = v->g;
  const hr_node *node = &g->nodes[n];
  for (int j = 0; j < node->n_out; j++) {
    hr_id out = node->out[j];
    if (out >= g->n_values) REFUSE(v, n, "output %d names no value", j);
    const hr_value *value = &g->values[out];
    if (value->producer != n) REFUSE(v, n, "output %d (%s) is produced by another node", j, value->name);
    if (g->buffers[value->buffer].role == HR_ROLE_PARAMETER && !node->op->effect)
      REFUSE(v, n, "output %d overwrites the parameter %s", j, g->buffers[value->buffer].name);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == HR_NONE || g->values[node->in[i]].buffer != value->buffer) continue;
      if (values_overlap(&g->values[node->in[i]], value) && !alias_allowed(node->op, i, j))
        REFUSE(v, n, "output %d overwrites operand %d in place, which the op does not allow", j, i);
    }
    for (hr_id other = v->first_in_buffer[value->buffer]; other != HR_NONE; other = v->next_in_buffer[other])
      if (values_overlap(&g->values[other], value)) v->dead[other] = other != out && g->values[other].base != out;
  }
  return HR_OK;
}

static hr_status verify_program(verifier *v, hr_id program) {
  const hr_graph *g = v->g;
  const hr_program *p = &g->programs[program];
  memset(v->dead, 0, g->n_values * sizeof *v->dead);
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->block != HR_NONE && node->block >= g->n_blocks) REFUSE(v, n, "names no block");
    HR_TRY(verify_reads(v, program, n));
    HR_TRY(verify_writes(v, n));
    HR_TRY(verify_shapes(v, n));
  }
  for (int i = 0; i < p->n_outputs; i++) {
    hr_id out = p->output[i].value;
    if (out >= g->n_values || v->dead[out] || g->values[out].producer == HR_DROPPED)
      return hr__fail(v->err, HR_FAILURE, p->name, NULL, "output '%s' does not survive the program", p->output[i].name);
  }
  return HR_OK;
}

static hr_status verify_all(verifier *v) {
  const hr_graph *g = v->g;
  for (size_t b = 0; b < g->n_buffers; b++)
    v->first_in_buffer[b] = HR_NONE;
  HR_TRY(verify_values(v));
  hr_id expected = 0;
  for (hr_id p = 0; p < g->n_programs; p++) {
    if (g->programs[p].first != expected)
      return hr__fail(v->err, HR_FAILURE, g->programs[p].name, NULL, "the nodes of this program are not contiguous");
    expected += g->programs[p].count;
    HR_TRY(verify_program(v, p));
  }
  if (expected != g->n_nodes) return hr__fail(v->err, HR_FAILURE, "graph", NULL, "some nodes belong to no program");
  return HR_OK;
}

hr_status hr__graph_verify(const hr_graph *graph, hr_error *err) {
  verifier v = {.g = graph, .err = err};
  v.next_in_buffer = hr__arena_array(&v.arena, graph->n_values, sizeof *v.next_in_buffer);
  v.first_in_buffer = hr__arena_array(&v.arena, graph->n_buffers, sizeof *v.first_in_buffer);
  v.dead = hr__arena_array(&v.arena, graph->n_values, sizeof *v.dead);
  hr_status status = v.next_in_buffer && v.first_in_buffer && v.dead ? verify_all(&v) : hr__nomem(err);
  hr__arena_fini(&v.arena);
  return status;
}
