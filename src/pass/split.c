/* The split pass: runs blocks slice by slice of the batch, so that only one slice's inner values exist at a time.
 *
 * memory.split names blocks by pattern, each with a number of slices. The forward nodes of such a block are repeated
 * for every slice of the batch: what enters and carries it is sliced along its axis, what leaves is joined, all else
 * (weights, rotary tables, the control block) is shared:
 *
 *   x [B, ...] -> slice -> nodes of the block -> join -> y [B, ...]        once per slice, one after another
 *
 * Every slice is a block of its own with `recompute` set: the checkpoint pass makes its inside again in backward
 * instead of keeping it. grad sees an ordinary graph, in which the contributions of slices to a weight add up. Slices
 * of a component are components, so that its layers stay layers.
 *
 * Which values carry the batch, along which axis and with how many rows to a sample, follows from the data flow
 * (split_regions.c). A node that couples the batch cannot be split.
 *
 * Same bits: rows are independent, so losses, activations and gradients of activations are those of the whole. Weights'
 * gradients are summed slice by slice, in another order than over the whole batch: they agree to rounding.
 *
 * Where the batch has too few samples, a block may be split along another axis, which the model has named: by rows
 * (split_rows.c, split_strips.c).
 *
 * The loss head is the first case of the same idea, inside an op: head_loss takes its rows (all tokens of the batch) in
 * chunks. A pattern that names its module sets their number (split_rules.c).
 */
#include "pass/split.h"

#include <inttypes.h>
#include <string.h>

#include "op/slice.h"

/* ---- repeating ---- */

typedef struct slice {
  const hr_region *region;
  hr_id block;
  int64_t first, count; /* units */
} slice;

/* The block that stands for `block` in a slice. */
static hr_id block_in_slice(hr_splitter *s, const slice *part, hr_id block) {
  if (block == part->region->block) return part->block;
  hr_stand_in *here = &s->inner[block];
  if (here->slice == part->block) return here->id;
  s->b->block = block_in_slice(s, part, s->b->graph->blocks[block].parent);
  bool component = s->b->graph->blocks[block].component;
  hr__block_begin(s->b, "%s", s->b->graph->blocks[block].name);
  if (s->b->status == HR_OK) {
    s->b->graph->blocks[s->b->block].component = component;
    s->b->graph->blocks[s->b->block].origin = block;
  }
  *here = (hr_stand_in){s->b->block, part->block};
  return here->id;
}

/* The value that stands for `value` in a slice: made there, cut out of what enters, or shared. */
static hr_id value_in_slice(hr_splitter *s, const slice *part, hr_id value) {
  if (value == HR_NONE) return value;
  hr_batch unit = hr__split_units(s, part->region, value);
  if (unit.axis < 0) return value;
  hr_stand_in *here = &s->sliced[value];
  if (here->slice == part->block) return here->id;
  s->b->block = part->block;
  s->b->module = s->b->graph->blocks[part->region->block].name;
  hr_id whole = s->joined[value] == HR_NONE ? value : s->joined[value];
  hr_id cut = hr__slice(s->b, whole, unit.axis, part->first * unit.rows, part->count * unit.rows);
  *here = (hr_stand_in){cut, part->block};
  return here->id;
}

/* Arguments of a node for the samples of a slice: how many come before it, and how long its axis is. */
static const void *args_in_slice(hr_splitter *s, const slice *part, const hr_node *node) {
  hr_batch unit = s->unit[node->out[0]];
  if (node->op->sample_at == 0 && (!node->op->resize || unit.axis < 0)) return node->args;
  char *args = hr__arena_alloc(&s->b->graph->arena, node->op->args_bytes);
  if (!args) return NULL;
  memcpy(args, node->args, node->op->args_bytes);
  if (node->op->resize) node->op->resize(args, unit.axis, part->count * unit.rows);
  if (node->op->sample_at == 0) return args;
  int64_t sample;
  memcpy(&sample, args + node->op->sample_at, sizeof sample);
  sample += part->first * unit.rows;
  memcpy(args + node->op->sample_at, &sample, sizeof sample);
  return args;
}

static hr_status node_repeat(hr_splitter *s, const slice *part, hr_id n) {
  hr_builder *b = s->b;
  hr_graph *g = b->graph;
  const hr_node node = g->nodes[n];
  hr_id *in = hr__arena_array(&g->arena, (size_t)node.n_in + 1, sizeof *in);
  const void *args = args_in_slice(s, part, &node);
  if (!in || (node.args && !args)) return hr__nomem(s->err);
  for (int i = 0; i < node.n_in; i++)
    in[i] = value_in_slice(s, part, node.in[i]);
  b->block = block_in_slice(s, part, node.block);
  b->module = node.module;
  hr__emit(b, node.op, in, node.n_in, args);
  HR_TRY(hr__builder_status(b, s->err));
  hr_node *made = &g->nodes[g->n_nodes - 1];
  made->place = node.place;
  for (int j = 0; j < node.n_out; j++) {
    hr_desc expected = g->values[node.out[j]].desc;
    hr_batch unit = s->unit[node.out[j]];
    if (unit.axis >= 0) expected.dim[unit.axis] = part->count * unit.rows;
    if (unit.axis >= 0 && !hr_desc_same_shape(&g->values[made->out[j]].desc, &expected))
      return hr__split_coupled(s, part->region, &node);
    g->values[made->out[j]].detached = g->values[node.out[j]].detached;
    s->sliced[node.out[j]] = (hr_stand_in){made->out[j], part->block};
  }
  return HR_OK;
}

static void node_join(hr_splitter *s, const slice *part, hr_id n) {
  const hr_node *node = &s->b->graph->nodes[n];
  const hr_id *out = node->out;
  for (int j = 0, n_out = node->n_out; j < n_out; j++) {
    if (!s->leaves[out[j]]) continue;
    hr_batch unit = s->unit[out[j]];
    s->joined[out[j]] = hr__join(s->b, s->sliced[out[j]].id, s->joined[out[j]], unit.axis, part->first * unit.rows,
                                 part->region->units * unit.rows);
  }
}

static hr_status slice_emit(hr_splitter *s, const hr_region *r, int64_t number, int64_t first, int64_t count) {
  hr_builder *b = s->b;
  const char *name = b->graph->blocks[r->block].name;
  b->block = r->block;
  const bool component = b->graph->blocks[r->block].component;
  hr__block_begin(b, "%s/slice.%" PRId64, name, number);
  HR_TRY(hr__builder_status(b, s->err));
  b->graph->blocks[b->block].recompute = true;
  b->graph->blocks[b->block].component = component;
  const slice part = {r, b->block, first, count};
  for (hr_id n = r->first; n <= r->last; n++)
    if (s->repeated[n] && hr__split_node_region(s, n) == r) HR_TRY(node_repeat(s, &part, n));
  b->block = r->block;
  b->module = name;
  for (hr_id n = r->first; n <= r->last; n++)
    if (s->repeated[n] && hr__split_node_region(s, n) == r) node_join(s, &part, n);
  return hr__builder_status(b, s->err);
}

/* Units that slices do not share out evenly go to the first ones. */
static hr_status slices_emit(hr_splitter *s, const hr_region *r) {
  int64_t slices = s->rules[r->rule].slices, each = r->units / slices, more = r->units % slices, first = 0;
  for (int64_t i = 0; i < slices; i++) {
    int64_t count = each + (i < more);
    HR_TRY(slice_emit(s, r, i, first, count));
    first += count;
  }
  return HR_OK;
}

static hr_status region_emit(hr_splitter *s, hr_region *r) {
  const hr_graph *g = s->b->graph;
  s->b->program = g->blocks[r->block].program;
  r->first_new = (hr_id)g->n_nodes;
  HR_TRY(r->by_rows ? hr__split_strips(s, r) : slices_emit(s, r));
  r->count_new = (hr_id)g->n_nodes - r->first_new;
  return HR_OK;
}

static hr_status regions_emit(hr_splitter *s) {
  const hr_builder before = *s->b;
  s->b->phase = HR_FORWARD;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    hr_region *r = hr__split_node_region(s, n);
    if (!r || n != r->last) continue;
    HR_TRY(region_emit(s, r));
  }
  s->b->program = before.program;
  s->b->block = before.block;
  s->b->phase = before.phase;
  s->b->module = before.module;
  return HR_OK;
}

/* ---- the graph afterwards ---- */

/* What stayed reads joined values where it read those of a block. */
static hr_status reads_replace(hr_splitter *s) {
  hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    hr_node *node = &g->nodes[n];
    hr_id *in = NULL;
    for (int i = 0; i < node->n_in; i++) {
      hr_id v = node->in[i];
      if (v == HR_NONE || s->joined[v] == HR_NONE) continue;
      if (!in) {
        in = hr__arena_array(&g->arena, (size_t)node->n_in, sizeof *in);
        if (!in) return hr__nomem(s->err);
        memcpy(in, node->in, (size_t)node->n_in * sizeof *in);
      }
      in[i] = s->joined[v];
    }
    if (in) node->in = in;
  }
  for (size_t p = 0; p < g->n_programs; p++) {
    for (int i = 0; i < g->programs[p].n_outputs; i++) {
      hr_id *v = &g->programs[p].output[i].value, whole = s->joined[*v];
      if (whole == HR_NONE) continue;
      g->buffers[g->values[*v].buffer].role = HR_ROLE_ACTIVATION;
      g->buffers[g->values[whole].buffer].role = HR_ROLE_OUTPUT;
      *v = whole;
    }
  }
  return HR_OK;
}

static hr_status nodes_arrange(hr_splitter *s) {
  hr_graph *g = s->b->graph;
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(s->err);
  size_t count = 0;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    const hr_region *r = hr__split_node_region(s, n);
    if (!s->repeated[n]) order[count++] = n;
    for (hr_id k = 0; r && n == r->last && k < r->count_new; k++)
      order[count++] = r->first_new + k;
  }
  return hr__graph_arrange(g, order, count, s->err);
}

static hr_status tables_create(hr_splitter *s) {
  hr_graph *g = s->b->graph;
  s->n_nodes = g->n_nodes;
  s->n_values = g->n_values;
  s->n_blocks = g->n_blocks;
  s->regions = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->regions);
  s->region_of = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->region_of);
  s->inner = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->inner);
  s->repeated = hr__arena_array(&g->arena, s->n_nodes + 1, sizeof *s->repeated);
  s->spans = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->spans);
  s->batch = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->batch);
  s->unit = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->unit);
  s->leaves = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->leaves);
  s->joined = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->joined);
  s->sliced = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->sliced);
  size_t operands = 1;
  for (size_t n = 0; n < s->n_nodes; n++) {
    size_t has = (size_t)(g->nodes[n].n_in + g->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  s->descs = hr__arena_array(&g->arena, operands, sizeof *s->descs);
  s->operands = hr__arena_array(&g->arena, operands, sizeof *s->operands);
  if (!s->regions || !s->region_of || !s->inner || !s->repeated || !s->spans || !s->batch || !s->unit || !s->leaves ||
      !s->joined || !s->sliced || !s->descs || !s->operands)
    return hr__nomem(s->err);
  HR_TRY(hr__split_rows_follow(s, operands));
  for (size_t v = 0; v < s->n_values; v++) {
    s->joined[v] = HR_NONE;
    s->sliced[v].slice = HR_NONE;
  }
  for (size_t k = 0; k < s->n_blocks; k++)
    s->inner[k].slice = HR_NONE;
  return HR_OK;
}

hr_status hr__pass_split(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  const hr_doc_node *tree = hr__recipe_tree(recipe, HR_SPLIT_KEY);
  bool chosen = choices && choices->slices > 1;
  if (!tree && !chosen) return HR_OK;
  hr_splitter s = {.b = b, .recipe = recipe, .err = err, .chosen = chosen};
  HR_TRY(chosen ? hr__split_rules_make(&s, choices->slices) : hr__split_rules_read(&s, tree));
  HR_TRY(tables_create(&s));
  HR_TRY(hr__split_regions(&s));
  if (s.n_regions == 0 && chosen)
    return hr__fail(err, HR_BAD_INPUT, HR_SPLIT_KEY, "use fewer slices, or raise training.batch_size",
                    "no block of the model can be split into %" PRId64 " slices", choices->slices);
  if (s.n_regions == 0) return HR_OK;
  HR_TRY(regions_emit(&s));
  HR_TRY(reads_replace(&s));
  return nodes_arrange(&s);
}
