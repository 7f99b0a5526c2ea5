/* Compaction: a graph that passes are done with moves to storage of its own size. Tables that have grown, orders of
 * nodes and operand lists that were replaced, and names told twice stay behind and are released with the old arena. */
#include <string.h>

#include "base/hash.h"
#include "graph/graph.h"

typedef struct compaction {
  const hr_graph *from;
  hr_graph *to;
  hr_arena scratch;
  const char **texts; /* hash table of the texts in the new arena; NULL: free */
  size_t mask;        /* its size - 1 */
  bool full;          /* out of memory */
} compaction;

static void *table_copy(compaction *c, const void *items, size_t count, size_t item_bytes) {
  void *copy = hr__arena_array(&c->to->arena, count, item_bytes);
  if (!copy)
    c->full = true;
  else if (count)
    memcpy(copy, items, count * item_bytes);
  return copy;
}

/* The one copy of a text. */
static const char *text_move(compaction *c, const char *text) {
  if (!text || c->full) return NULL;
  size_t length = strlen(text);
  for (size_t at = (size_t)hr__xxh128(text, length).low & c->mask;; at = (at + 1) & c->mask) {
    if (!c->texts[at]) {
      c->texts[at] = hr__arena_text(&c->to->arena, text);
      if (!c->texts[at]) c->full = true;
      return c->texts[at];
    }
    if (strcmp(c->texts[at], text) == 0) return c->texts[at];
  }
}

static void node_move(compaction *c, hr_node *node) {
  hr_id *ids = hr__arena_array(&c->to->arena, (size_t)(node->n_in + node->n_out), sizeof *ids);
  if (!ids) {
    c->full = true;
    return;
  }
  if (node->n_in) memcpy(ids, node->in, (size_t)node->n_in * sizeof *ids);
  if (node->n_out) memcpy(ids + node->n_in, node->out, (size_t)node->n_out * sizeof *ids);
  node->in = ids;
  node->out = ids + node->n_in;
  if (node->args) node->args = table_copy(c, node->args, 1, node->op->args_bytes);
  node->module = text_move(c, node->module);
}

static void graph_move(compaction *c) {
  const hr_graph *from = c->from;
  hr_graph *to = c->to;
  to->cap_buffers = to->n_buffers = from->n_buffers;
  to->cap_values = to->n_values = from->n_values;
  to->cap_nodes = to->n_nodes = from->n_nodes;
  to->cap_blocks = to->n_blocks = from->n_blocks;
  to->cap_programs = to->n_programs = from->n_programs;
  to->cap_packed = to->n_packed = from->n_packed;
  to->buffers = table_copy(c, from->buffers, from->n_buffers, sizeof *to->buffers);
  to->values = table_copy(c, from->values, from->n_values, sizeof *to->values);
  to->nodes = table_copy(c, from->nodes, from->n_nodes, sizeof *to->nodes);
  to->blocks = table_copy(c, from->blocks, from->n_blocks, sizeof *to->blocks);
  to->programs = table_copy(c, from->programs, from->n_programs, sizeof *to->programs);
  to->packed = table_copy(c, from->packed, from->n_packed, sizeof *to->packed);
  for (size_t i = 0; i < to->n_buffers && !c->full; i++) {
    to->buffers[i].name = text_move(c, to->buffers[i].name);
    to->buffers[i].module = text_move(c, to->buffers[i].module);
  }
  for (size_t i = 0; i < to->n_values && !c->full; i++)
    to->values[i].name = text_move(c, to->values[i].name);
  for (size_t i = 0; i < to->n_nodes && !c->full; i++)
    node_move(c, &to->nodes[i]);
  for (size_t i = 0; i < to->n_blocks && !c->full; i++)
    to->blocks[i].name = text_move(c, to->blocks[i].name);
  for (size_t i = 0; i < to->n_packed && !c->full; i++)
    to->packed[i].name = text_move(c, to->packed[i].name);
  for (size_t i = 0; i < to->n_programs && !c->full; i++) {
    to->programs[i].name = text_move(c, to->programs[i].name);
    for (int j = 0; j < to->programs[i].n_outputs; j++)
      to->programs[i].output[j].name = text_move(c, to->programs[i].output[j].name);
    for (int j = 0; j < to->programs[i].n_inputs; j++)
      to->programs[i].input[j].name = text_move(c, to->programs[i].input[j].name);
  }
}

hr_status hr__graph_compact(hr_graph *graph, hr_error *err) {
  hr_graph moved = {0};
  compaction c = {.from = graph, .to = &moved, .mask = 1};
  size_t texts = graph->n_buffers + graph->n_values + graph->n_nodes + graph->n_blocks + graph->n_packed +
                 graph->n_programs * (1 + HR_PROGRAM_OUTPUTS + HR_INPUTS);
  while (c.mask <= 2 * texts)
    c.mask *= 2;
  c.texts = hr__arena_array(&c.scratch, c.mask, sizeof *c.texts);
  c.mask--;
  c.full = !c.texts;
  if (!c.full) graph_move(&c);
  hr__arena_fini(&c.scratch);
  hr__arena_fini(c.full ? &moved.arena : &graph->arena);
  if (c.full) return hr__nomem(err);
  *graph = moved;
  return HR_OK;
}
