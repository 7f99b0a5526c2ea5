/* The order pass: of two neighbours in backward that do not depend on each other, the one goes first with which fewer
 * bytes are alive at once. The gradient of a weight is taken before that of the input, so that the kept input is gone
 * when its gradient, as large as itself, is made. */
#include <string.h>

#include "pass/pass.h"

typedef struct ordering {
  hr_graph *g;
  hr_id *last;  /* per buffer: position of its last reader or writer; HR_NONE: it outlives the program */
  hr_id *order; /* nodes by position */
} ordering;

static hr_id buffer_of(const hr_graph *g, hr_id value) {
  return value == HR_NONE ? HR_NONE : g->values[value].buffer;
}

static bool node_reads(const hr_graph *g, const hr_node *node, hr_id buffer) {
  for (int i = 0; i < node->n_in; i++)
    if (buffer_of(g, node->in[i]) == buffer) return true;
  return false;
}

static bool node_writes(const hr_graph *g, const hr_node *node, hr_id buffer) {
  for (int j = 0; j < node->n_out; j++)
    if (buffer_of(g, node->out[j]) == buffer) return true;
  return false;
}

static bool nodes_independent(const hr_graph *g, const hr_node *a, const hr_node *b) {
  for (int j = 0; j < a->n_out; j++) {
    hr_id buffer = buffer_of(g, a->out[j]);
    if (node_reads(g, b, buffer) || node_writes(g, b, buffer)) return false;
  }
  for (int j = 0; j < b->n_out; j++)
    if (node_reads(g, a, buffer_of(g, b->out[j]))) return false;
  return true;
}

/* Whether output j may take over an operand that only this node of the pair reads, and that dies in the pair. */
static bool output_takes_over(const ordering *o, const hr_node *node, const hr_node *other, hr_id end, int j) {
  for (int a = 0; a < node->op->n_alias; a++) {
    const hr_alias *alias = &node->op->alias[a];
    if (alias->out != j || alias->in >= node->n_in || node->in[alias->in] == HR_NONE) continue;
    hr_id from = buffer_of(o->g, node->in[alias->in]), to = buffer_of(o->g, node->out[j]);
    if (from == to) return true;
    if (o->last[from] <= end && !node_reads(o->g, other, from) && o->g->buffers[from].bytes == o->g->buffers[to].bytes)
      return true;
  }
  return false;
}

/* What a node adds to the bytes alive while it runs, and what is gone behind it, when `other` runs next to it and both
 * are done at position `end`. Storage that passes from an operand to a result is both. */
static void node_bytes(const ordering *o, const hr_node *node, const hr_node *other, hr_id end, int64_t *adds,
                       int64_t *frees) {
  const hr_graph *g = o->g;
  *adds = *frees = 0;
  for (int j = 0; j < node->n_out; j++) {
    hr_id buffer = buffer_of(g, node->out[j]);
    int64_t bytes = (int64_t)g->buffers[buffer].bytes;
    if (g->buffers[buffer].persistent) continue;
    if (output_takes_over(o, node, other, end, j))
      *frees -= bytes;
    else
      *adds += bytes;
  }
  for (int i = 0; i < node->n_in; i++) {
    hr_id buffer = buffer_of(g, node->in[i]);
    bool seen = false;
    for (int k = 0; k < i && !seen; k++)
      seen = buffer_of(g, node->in[k]) == buffer;
    if (buffer == HR_NONE || seen || node_reads(g, other, buffer) || node_writes(g, node, buffer)) continue;
    if (o->last[buffer] <= end) *frees += (int64_t)g->buffers[buffer].bytes;
  }
}

static int64_t pair_peak(int64_t first_adds, int64_t first_frees, int64_t second_adds) {
  int64_t second = first_adds - first_frees + second_adds;
  return second > first_adds ? second : first_adds;
}

static bool pair_swaps(const ordering *o, hr_id at) {
  const hr_node *a = &o->g->nodes[o->order[at]], *b = &o->g->nodes[o->order[at + 1]];
  if (a->phase != HR_BACKWARD || b->phase != HR_BACKWARD || a->block != b->block) return false;
  if (a->op->effect || b->op->effect || a->op->transfer || b->op->transfer) return false;
  if (!nodes_independent(o->g, a, b)) return false;
  int64_t a_adds, a_frees, b_adds, b_frees;
  node_bytes(o, a, b, at + 1, &a_adds, &a_frees);
  node_bytes(o, b, a, at + 1, &b_adds, &b_frees);
  return pair_peak(b_adds, b_frees, a_adds) < pair_peak(a_adds, a_frees, b_adds);
}

static void last_uses_find(ordering *o, const hr_program *p) {
  const hr_graph *g = o->g;
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    for (int i = 0; i < node->n_in + node->n_out; i++) {
      hr_id buffer = buffer_of(g, i < node->n_in ? node->in[i] : node->out[i - node->n_in]);
      if (buffer != HR_NONE && !g->buffers[buffer].persistent) o->last[buffer] = n;
    }
  }
  for (int i = 0; i < p->n_outputs; i++)
    o->last[buffer_of(g, p->output[i].value)] = HR_NONE;
}

hr_status hr__pass_order(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  hr_graph *g = b->graph;
  ordering o = {.g = g,
                .last = hr__arena_array(&g->arena, g->n_buffers, sizeof *o.last),
                .order = hr__arena_array(&g->arena, g->n_nodes, sizeof *o.order)};
  if (!o.last || !o.order) return hr__nomem(err);
  memset(o.last, 0xff, g->n_buffers * sizeof *o.last);
  for (hr_id n = 0; n < g->n_nodes; n++)
    o.order[n] = n;
  bool swapped = false;
  for (size_t p = 0; p < g->n_programs; p++) {
    const hr_program *program = &g->programs[p];
    last_uses_find(&o, program);
    for (hr_id at = program->first; at + 1 < program->first + program->count; at++) {
      if (!pair_swaps(&o, at)) continue;
      hr_id first = o.order[at];
      o.order[at] = o.order[at + 1];
      o.order[at + 1] = first;
      swapped = true;
    }
  }
  return swapped ? hr__graph_arrange(g, o.order, g->n_nodes, err) : HR_OK;
}
