#include "plan/lifetimes.h"

#include "base/checked.h"

typedef struct merge {
  const hr_graph *graph;
  hr_device_kind kind;
  hr_lifetime *lifetimes;
  uint32_t *taken; /* per home: position + 1 of the last node with a result in it that is in place; 0: none */
} merge;

static void buffer_touch(hr_lifetime *life, uint32_t position) {
  if (!life->used || position < life->first) life->first = position;
  if (!life->used || position > life->last) life->last = position;
  life->used = true;
}

static void node_touch(const hr_graph *graph, const hr_node *node, uint32_t position, hr_lifetime *lifetimes) {
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE) buffer_touch(&lifetimes[graph->values[node->in[i]].buffer], position);
  for (int j = 0; j < node->n_out; j++)
    buffer_touch(&lifetimes[graph->values[node->out[j]].buffer], position);
}

/* What the host writes before a program is there from its start, what it reads afterwards to its end. */
static void host_touch(const hr_graph *graph, hr_lifetime *lifetimes) {
  for (size_t b = 0; b < graph->n_buffers; b++) {
    const hr_buffer *buffer = &graph->buffers[b];
    if (buffer->persistent) continue;
    uint32_t count = graph->programs[buffer->program].count;
    if (buffer->role == HR_ROLE_INPUT) buffer_touch(&lifetimes[b], 0);
    lifetimes[b].kept = buffer->role == HR_ROLE_OUTPUT && lifetimes[b].used;
    if (lifetimes[b].kept && count > 0) buffer_touch(&lifetimes[b], count - 1);
  }
  for (size_t p = 0; p < graph->n_programs; p++) {
    const hr_program *program = &graph->programs[p];
    for (int i = 0; i < program->n_outputs; i++) {
      hr_id buffer = graph->values[program->output[i].value].buffer;
      lifetimes[buffer].kept = true;
      if (program->count > 0) buffer_touch(&lifetimes[buffer], program->count - 1);
    }
  }
}

static hr_id home_of(const merge *m, hr_id value) {
  return m->lifetimes[m->graph->values[value].buffer].home;
}

/* The value is all of its buffer, dense and row-major. */
static bool value_is_whole(const hr_graph *graph, hr_id id) {
  const hr_value *value = &graph->values[id];
  int64_t stride = 1;
  for (int d = value->desc.rank - 1; d >= 0; d--) {
    if (value->desc.dim[d] > 1 && value->stride[d] != stride) return false;
    stride *= value->desc.dim[d];
  }
  return value->offset == 0 && hr_desc_bytes(&value->desc) == graph->buffers[value->buffer].bytes;
}

static bool takeover_allowed(const merge *m, const hr_node *node, uint32_t position, const hr_alias *alias) {
  const hr_graph *graph = m->graph;
  if (alias->in >= node->n_in || alias->out >= node->n_out || node->in[alias->in] == HR_NONE) return false;
  if (!hr__op_takes(node->op, node->args, alias, m->kind, graph->values[node->out[0]].desc.dtype)) return false;
  hr_id in = node->in[alias->in], out = node->out[alias->out];
  hr_id in_buffer = graph->values[in].buffer, out_buffer = graph->values[out].buffer;
  const hr_buffer *from = &graph->buffers[in_buffer], *to = &graph->buffers[out_buffer];
  if (hr_dtype_bytes(graph->values[in].desc.dtype) != hr_dtype_bytes(graph->values[out].desc.dtype)) return false;
  if (from->persistent || to->persistent || from->home != to->home || in_buffer == out_buffer) return false;
  hr_id home = m->lifetimes[in_buffer].home;
  const hr_lifetime *life = &m->lifetimes[home];
  if (life->last != position || life->kept || m->taken[home] == position + 1) return false;
  /* the result must be new here and not yet have a home */
  if (m->lifetimes[out_buffer].home != out_buffer || m->lifetimes[out_buffer].first != position) return false;
  if (!value_is_whole(graph, in) || !value_is_whole(graph, out) || from->bytes != to->bytes || from->bytes == 0)
    return false;
  for (int i = 0; i < node->n_in; i++)
    if (i != alias->in && node->in[i] != HR_NONE && home_of(m, node->in[i]) == home) return false;
  for (int j = 0; j < node->n_out; j++) /* another result that is a view of the same buffer */
    if (j != alias->out && graph->values[node->out[j]].buffer == out_buffer) return false;
  return true;
}

static void takeover(merge *m, const hr_node *node, uint32_t position, const hr_alias *alias) {
  hr_id out_buffer = m->graph->values[node->out[alias->out]].buffer;
  hr_id home = home_of(m, node->in[alias->in]);
  hr_lifetime *life = &m->lifetimes[home], *joined = &m->lifetimes[out_buffer];
  m->lifetimes[m->graph->values[node->in[alias->in]].buffer].passed_on = true;
  joined->home = home;
  life->last = joined->last;
  life->kept = joined->kept;
  m->taken[home] = position + 1;
}

/* Results that the graph itself puts in place (updates of state) have taken their operand's storage already. */
static void node_mark_taken(merge *m, const hr_node *node, uint32_t position) {
  for (int j = 0; j < node->n_out; j++)
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != HR_NONE && home_of(m, node->in[i]) == home_of(m, node->out[j]))
        m->taken[home_of(m, node->out[j])] = position + 1;
}

/* Sums go first: adding in place also saves the copy of the partial sum. */
static void node_merge(merge *m, const hr_node *node, uint32_t position) {
  static const hr_alias_kind kinds[] = {HR_ALIAS_ACCUMULATE, HR_ALIAS_MAY};
  bool open = false;
  for (int a = 0; a < node->op->n_alias; a++)
    open |= node->op->alias[a].kind != HR_ALIAS_MUST;
  if (!open) return;
  node_mark_taken(m, node, position);
  for (int k = 0; k < 2; k++) {
    for (int a = 0; a < node->op->n_alias; a++) {
      const hr_alias *alias = &node->op->alias[a];
      if (alias->kind == kinds[k] && takeover_allowed(m, node, position, alias)) takeover(m, node, position, alias);
    }
  }
}

hr_status hr__lifetimes(const hr_graph *graph, hr_device_kind kind, hr_lifetime *lifetimes, hr_error *err) {
  merge m = {.graph = graph, .kind = kind, .lifetimes = lifetimes};
  m.taken = hr__alloc_zero(graph->n_buffers + 1, sizeof *m.taken);
  if (!m.taken) return hr__nomem(err);
  for (hr_id b = 0; b < graph->n_buffers; b++)
    lifetimes[b] = (hr_lifetime){.home = b};
  for (size_t p = 0; p < graph->n_programs; p++) {
    const hr_program *program = &graph->programs[p];
    for (hr_id i = 0; i < program->count; i++)
      node_touch(graph, &graph->nodes[program->first + i], i, lifetimes);
  }
  host_touch(graph, lifetimes);
  for (size_t b = 0; b < graph->n_buffers; b++)
    lifetimes[b].own_last = lifetimes[b].last;
  for (size_t p = 0; p < graph->n_programs; p++) {
    const hr_program *program = &graph->programs[p];
    for (hr_id i = 0; i < program->count; i++)
      node_merge(&m, &graph->nodes[program->first + i], i);
  }
  hr__free(m.taken);
  return HR_OK;
}
