/* Storage and look-ups of a graph; names of its enumerations. */
#include "graph/graph.h"

#include <string.h>

const char *hr_role_name(hr_role role) {
  static const char *const names[HR_ROLE_COUNT] = {
      [HR_ROLE_PARAMETER] = "parameter",   [HR_ROLE_GRADIENT] = "gradient", [HR_ROLE_OPTIMIZER] = "optimizer",
      [HR_ROLE_ACTIVATION] = "activation", [HR_ROLE_INPUT] = "input",       [HR_ROLE_OUTPUT] = "output",
      [HR_ROLE_STAGING] = "staging",       [HR_ROLE_STATE] = "state",       [HR_ROLE_AVERAGE] = "average",
      [HR_ROLE_CACHE] = "cache",
  };
  return names[role];
}

const char *hr_phase_name(hr_phase phase) {
  static const char *const names[] = {[HR_FORWARD] = "forward", [HR_BACKWARD] = "backward", [HR_UPDATE] = "update"};
  return names[phase];
}

const char *hr_program_kind_name(hr_program_kind kind) {
  static const char *const names[HR_PROGRAM_KINDS] = {
      [HR_PROGRAM_STEP] = "step",
      [HR_PROGRAM_MICRO_FIRST] = "micro_first",
      [HR_PROGRAM_MICRO_NEXT] = "micro_next",
      [HR_PROGRAM_UPDATE] = "update",
      [HR_PROGRAM_EVAL] = "eval",
      [HR_PROGRAM_FEATURES] = "features",
      [HR_PROGRAM_GENERATE] = "generate",
  };
  return names[kind];
}

const char *hr_op_class_name(hr_op_class op_class) {
  static const char *const names[HR_CLASS_COUNT] = {
#define HR_COST_CLASS(name, text, flops, bytes, launch, gpu_flops, gpu_bytes) text,
#include "graph/classes.def"
#undef HR_COST_CLASS
  };
  return names[op_class];
}

hr_status hr__graph_create(hr_graph **out, hr_error *err) {
  hr_graph *graph = hr__alloc_zero(1, sizeof *graph);
  if (!graph) return hr__nomem(err);
  hr__arena_init(&graph->arena);
  *out = graph;
  return HR_OK;
}

void hr__graph_destroy(hr_graph *graph) {
  if (!graph) return;
  hr__arena_fini(&graph->arena);
  hr__free(graph);
}

hr_op_view hr__node_view(const hr_graph *graph, const hr_node *node, hr_desc *storage) {
  hr_desc *in = storage, *out = storage + node->n_in;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == HR_NONE)
      memset(&in[i], 0, sizeof in[i]);
    else
      in[i] = graph->values[node->in[i]].desc;
  }
  for (int j = 0; j < node->n_out; j++)
    out[j] = graph->values[node->out[j]].desc;
  return (hr_op_view){.in = in, .out = out, .n_in = node->n_in, .n_out = node->n_out, .args = node->args};
}

hr_id hr__block_layer(const hr_graph *graph, hr_id block) {
  hr_id layer = HR_NONE;
  for (; block != HR_NONE; block = graph->blocks[block].parent)
    if (!graph->blocks[block].component) layer = block;
  return layer;
}

bool hr__block_within(const hr_graph *graph, hr_id block, hr_id outer) {
  while (block != HR_NONE && block != outer)
    block = graph->blocks[block].parent;
  return block == outer;
}

size_t hr__program_layers(const hr_graph *graph, hr_id program, hr_id *blocks) {
  size_t count = 0;
  for (hr_id block = 0; block < graph->n_blocks; block++)
    if (graph->blocks[block].program == program && hr__block_numbered(graph, block) == block) blocks[count++] = block;
  return count;
}

hr_id hr__block_numbered(const hr_graph *graph, hr_id block) {
  hr_id layer = hr__block_layer(graph, block);
  while (layer != HR_NONE && graph->blocks[layer].origin != HR_NONE)
    layer = graph->blocks[layer].origin;
  return layer;
}

hr_id hr__graph_find_program(const hr_graph *graph, hr_program_key key) {
  for (size_t p = 0; p < graph->n_programs; p++) {
    const hr_program_key *own = &graph->programs[p].key;
    if (own->kind == key.kind && own->bucket == key.bucket && own->stage == key.stage) return (hr_id)p;
  }
  return HR_NONE;
}

hr_id hr__graph_find_kind(const hr_graph *graph, hr_program_kind kind) {
  return hr__graph_find_program(graph, (hr_program_key){.kind = kind});
}

hr_id hr__program_output(const hr_graph *graph, hr_id program, const char *name) {
  const hr_program *p = &graph->programs[program];
  for (int i = 0; i < p->n_outputs; i++)
    if (strcmp(p->output[i].name, name) == 0) return p->output[i].value;
  return HR_NONE;
}

hr_id hr__program_input(const hr_graph *graph, hr_id program, const char *name) {
  const hr_program *p = &graph->programs[program];
  for (int i = 0; i < p->n_inputs; i++)
    if (strcmp(p->input[i].name, name) == 0) return p->input[i].value;
  for (size_t v = 0; v < graph->n_values; v++) {
    const hr_buffer *buffer = &graph->buffers[graph->values[v].buffer];
    if (buffer->role == HR_ROLE_INPUT && buffer->program == program && strcmp(graph->values[v].name, name) == 0)
      return (hr_id)v;
  }
  return HR_NONE;
}

bool hr__graph_is_packed(const hr_graph *graph, hr_id value) {
  for (size_t i = 0; i < graph->n_packed; i++) {
    const hr_packed *packed = &graph->packed[i];
    if (value == packed->codes || value == packed->absmax || value == packed->nested_absmax ||
        value == packed->nested_offset)
      return true;
  }
  return false;
}

bool hr__graph_is_tensor(const hr_graph *graph, hr_id value) {
  const hr_value *v = &graph->values[value];
  if (v->producer != HR_NONE || v->members > 0 || !graph->buffers[v->buffer].persistent) return false;
  return v->base == HR_NONE || (value > v->base && value - v->base <= graph->values[v->base].members);
}

bool hr__module_member(const char *module, int i, char out[HR_MODULE_PATH]) {
  const char *plus = strchr(module, '+'), *begin = plus, *end = plus;
  if (!plus) {
    if (i == 0) snprintf(out, HR_MODULE_PATH, "%s", module);
    return i == 0;
  }
  while (begin > module && begin[-1] != '.')
    begin--;
  int head = (int)(begin - module);
  end = begin + strcspn(begin, ".");
  for (; i > 0 && begin < end; i--)
    begin += strcspn(begin, "+.") + 1;
  if (begin >= end) return false;
  snprintf(out, HR_MODULE_PATH, "%.*s%.*s%s", head, module, (int)strcspn(begin, "+."), begin, end);
  return true;
}

size_t hr__graph_untrained(const hr_graph *graph, hr_id *values, size_t capacity) {
  size_t count = 0;
  for (hr_id v = 0; v < graph->n_values; v++) {
    if (!graph->values[v].trained || !hr__graph_is_tensor(graph, v)) continue;
    hr_id whole = graph->values[v].base == HR_NONE ? v : graph->values[v].base;
    if (graph->values[whole].gradient != HR_NONE) continue;
    if (count < capacity) values[count] = v;
    count++;
  }
  return count;
}

/* programs: bits of every buffer, side by side: those in buffers themselves are far apart. */
static void node_place(hr_graph *graph, const hr_node *node, hr_id at, uint32_t *programs) {
  const uint32_t own = 1u << node->program;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE) programs[graph->values[node->in[i]].buffer] |= own;
  for (int j = 0; j < node->n_out; j++) {
    graph->values[node->out[j]].producer = at;
    programs[graph->values[node->out[j]].buffer] |= own;
  }
}

/* Views follow their whole. */
static void views_follow(hr_graph *graph) {
  for (size_t v = 0; v < graph->n_values; v++)
    if (graph->values[v].base != HR_NONE && graph->values[v].base < v)
      graph->values[v].producer = graph->values[graph->values[v].base].producer;
}

/* Producers where the last `count` nodes have come before others: each is as much further back as stand before it. */
static void producers_follow(hr_graph *graph, const hr_id *before, size_t count) {
  const size_t end = graph->n_nodes - count;
  for (size_t v = 0; v < graph->n_values; v++) {
    hr_id *producer = &graph->values[v].producer;
    size_t passed = count;
    if (*producer >= graph->n_nodes) continue; /* none, or dropped */
    while (*producer < end && passed > 0 && before[passed - 1] > *producer)
      passed--;
    *producer = *producer < end ? *producer + (hr_id)passed : before[*producer - end] + (hr_id)(*producer - end);
  }
}

/* Programs lie one behind the other. */
static void programs_follow(hr_graph *graph) {
  for (hr_id p = 0; p < graph->n_programs; p++)
    graph->programs[p].first = p == 0 ? 0 : graph->programs[p - 1].first + graph->programs[p - 1].count;
}

/* Results of nodes that are not in order[0..count) are dropped. */
static hr_status nodes_drop(hr_graph *graph, const hr_id *order, size_t count, hr_error *err) {
  if (count == graph->n_nodes) return HR_OK;
  bool *stays = hr__alloc_zero(graph->n_nodes, sizeof *stays);
  if (!stays) return hr__nomem(err);
  for (size_t at = 0; at < count; at++)
    stays[order[at]] = true;
  for (size_t n = 0; n < graph->n_nodes; n++)
    for (int j = 0; !stays[n] && j < graph->nodes[n].n_out; j++)
      graph->values[graph->nodes[n].out[j]].producer = HR_DROPPED;
  hr__free(stays);
  return HR_OK;
}

hr_status hr__graph_arrange(hr_graph *graph, const hr_id *order, size_t count, hr_error *err) {
  const size_t room = graph->n_nodes + graph->n_nodes / 16 + 64; /* with what a pass may put between them */
  hr_node *nodes = hr__arena_room(&graph->arena, room, sizeof *nodes);
  if (!nodes) return hr__nomem(err);
  HR_TRY(nodes_drop(graph, order, count, err));
  uint32_t *programs = hr__alloc_zero(graph->n_buffers + 1, sizeof *programs);
  if (!programs) return hr__nomem(err);
  for (hr_id p = 0; p < graph->n_programs; p++)
    graph->programs[p].count = 0;
  for (hr_id at = 0; at < count; at++) {
    nodes[at] = graph->nodes[order[at]];
    node_place(graph, &nodes[at], at, programs);
    graph->programs[nodes[at].program].count++;
  }
  for (size_t b = 0; b < graph->n_buffers; b++)
    graph->buffers[b].programs = programs[b];
  hr__free(programs);
  programs_follow(graph);
  graph->nodes = nodes;
  graph->cap_nodes = room;
  graph->n_nodes = count;
  views_follow(graph);
  return HR_OK;
}

hr_status hr__graph_insert(hr_graph *graph, const hr_id *before, size_t count, hr_error *err) {
  if (count == 0) return HR_OK;
  hr_node *nodes = graph->nodes, *inserted = hr__alloc(count * sizeof *inserted);
  if (!inserted) return hr__nomem(err);
  size_t end = graph->n_nodes - count;
  producers_follow(graph, before, count);
  memcpy(inserted, nodes + end, count * sizeof *inserted);
  for (size_t i = count; i-- > 0; end = before[i]) {
    memmove(nodes + before[i] + i + 1, nodes + before[i], (end - before[i]) * sizeof *nodes);
    nodes[before[i] + i] = inserted[i];
  }
  hr__free(inserted);
  for (hr_id p = 0; p < graph->n_programs; p++)
    graph->programs[p].count = 0;
  for (size_t n = 0; n < graph->n_nodes; n++)
    graph->programs[nodes[n].program].count++;
  programs_follow(graph);
  return HR_OK;
}

hr_status hr__graph_regroup(hr_graph *graph, hr_error *err) {
  hr_id *order = hr__arena_room(&graph->arena, graph->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  size_t count = 0;
  for (hr_id p = 0; p < graph->n_programs; p++)
    for (hr_id n = 0; n < graph->n_nodes; n++)
      if (graph->nodes[n].program == p) order[count++] = n;
  return hr__graph_arrange(graph, order, count, err);
}
