/* The split pass: runs blocks slice by slice of the batch, so that only one slice's inner values exist at a time.
 *
 * memory.split names blocks by pattern, each with a number of slices. The forward nodes of such a block are repeated
 * for every slice of the first axis: what enters and carries the batch is sliced, what leaves is joined, all else
 * (weights, rotary tables, the control block) is shared:
 *
 *   x [B, ...] -> slice -> nodes of the block -> join -> y [B, ...]        once per slice, one after another
 *
 * Every slice is a block of its own with `recompute` set: the checkpoint pass makes its inside again in backward
 * instead of keeping it. grad sees an ordinary graph, in which the contributions of slices to a weight add up.
 *
 * Which values carry the batch follows from the data flow: inputs of the program do, and so does what ops with a
 * separable first axis (hr_op.axes) make of them. A node that couples the batch cannot be split.
 *
 * Same bits: rows are independent, so losses, activations and gradients of activations are those of the whole. Weights'
 * gradients are summed slice by slice, in another order than over the whole batch: they agree to rounding.
 *
 * The loss head is the first case of the same idea, inside an op: head_loss takes its rows (all tokens of the batch) in
 * chunks. A pattern that names its module sets their number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "op/head_loss.h"
#include "op/slice.h"
#include "pass/pass.h"

#define KEY "memory.split"

typedef struct split_rule {
  const hr_doc_node *node; /* pattern: slices */
  int64_t slices;
  bool used;   /* a block or head is split, or left whole, by it */
  bool beaten; /* it fits a block that another rule, or a rule for a block around it, has taken */
} split_rule;

/* What stands for something of the whole block in one slice of it. */
typedef struct stand_in {
  hr_id id;
  hr_id slice; /* block of that slice; others have none yet */
} stand_in;

typedef struct region {
  hr_id block;
  size_t rule;
  hr_id first, last;          /* nodes, other blocks' may lie between */
  hr_id first_new, count_new; /* nodes that stand for them, at the place of the last one */
  int64_t rows;               /* of the batch */
} region;

typedef struct splitter {
  hr_builder *b;
  const hr_recipe *recipe;
  hr_error *err;
  split_rule *rules;
  size_t n_rules;
  region *regions;
  size_t n_regions;
  /* All of these are about the graph as the pass found it. */
  size_t n_nodes, n_values, n_blocks;
  size_t *region_of; /* per block: number + 1 of the region it lies in; 0: none */
  bool *batched;     /* per value: its first axis is the batch */
  bool *leaves;      /* per value: made in a region, read elsewhere */
  bool *repeated;    /* per node: in a region, and works on the batch */
  hr_id *joined;     /* per value: what stands for it outside of its region, or HR_NONE */
  stand_in *sliced;  /* per value */
  stand_in *inner;   /* per block inside a region */
} splitter;

/* ---- settings ---- */

static hr_status rules_read(splitter *s, const hr_doc_node *tree) {
  static const char remedy[] = "write for example \"split: { mlp: 4, lm_head: 8 }\"";
  if (tree->kind != HR_DOC_MAP)
    return hr__recipe_fail_at(s->recipe, KEY, tree, remedy, s->err, KEY " is a list, but it must name blocks");
  size_t count = 0;
  for (const hr_doc_node *node = tree->child; node; node = node->next)
    count++;
  s->rules = hr__arena_array(&s->b->graph->arena, count + 1, sizeof *s->rules);
  if (!s->rules) return hr__nomem(s->err);
  for (const hr_doc_node *node = tree->child; node; node = node->next) {
    split_rule *r = &s->rules[s->n_rules++];
    r->node = node;
    if (node->kind != HR_DOC_SCALAR || !hr__doc_int(node, &r->slices))
      return hr__recipe_fail_at(s->recipe, KEY, node, remedy, s->err, KEY ".%s must be a number of slices", node->key);
    if (r->slices < 1)
      return hr__recipe_fail_at(s->recipe, KEY, node, "1 leaves a block whole", s->err,
                                KEY ".%s is %" PRId64 ", but it must be at least 1", node->key, r->slices);
  }
  return HR_OK;
}

/* memory.split = auto: the outermost blocks, all alike. The head chooses its chunks itself. */
static hr_status rules_make(splitter *s, int64_t slices) {
  static const hr_doc_node any = {.kind = HR_DOC_SCALAR, .key = "*"};
  s->rules = hr__arena_array(&s->b->graph->arena, 1, sizeof *s->rules);
  if (!s->rules) return hr__nomem(s->err);
  s->rules[s->n_rules++] = (split_rule){.node = &any, .slices = slices};
  return HR_OK;
}

/* The first rule that fits a name; n_rules: none. */
static size_t rule_find(const splitter *s, const char *name) {
  size_t r = 0;
  while (r < s->n_rules && !hr__name_matches(name, s->rules[r].node->key))
    r++;
  return r;
}

/* "model.layers.*.mlp" of "model.layers.3.mlp" */
static void name_generalise(const char *name, char *out, size_t capacity) {
  size_t used = 0;
  for (const char *at = name; *at && used + 1 < capacity;) {
    size_t digits = strspn(at, "0123456789");
    bool number = digits > 0 && (at == name || at[-1] == '.') && (at[digits] == '.' || at[digits] == '\0');
    out[used++] = number ? '*' : *at;
    at += number ? digits : 1;
  }
  out[used] = '\0';
}

/* Adds a name to "a, b, c" unless it is there or there is no room. */
static void name_list(const char *name, char *list, size_t capacity) {
  char general[128];
  name_generalise(name, general, sizeof general);
  size_t used = strlen(list), length = strlen(general);
  for (const char *at = list; (at = strstr(at, general)); at++)
    if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) return;
  if (used + length + 3 < capacity) snprintf(list + used, capacity - used, "%s%s", used ? ", " : "", general);
}

static hr_status rules_check_used(const splitter *s) {
  const hr_graph *g = s->b->graph;
  for (size_t r = 0; r < s->n_rules; r++) {
    const split_rule *rule = &s->rules[r];
    if (rule->used) continue;
    if (rule->beaten)
      return hr__recipe_fail_at(s->recipe, KEY, rule->node,
                                "keep one of them: the first pattern that fits counts, and the outermost block", s->err,
                                KEY ".%s names only blocks that another pattern takes", rule->node->key);
    char names[256] = "", remedy[320];
    for (size_t k = 0; k < s->n_blocks; k++)
      name_list(g->blocks[k].name, names, sizeof names);
    for (size_t n = 0; n < s->n_nodes; n++)
      if (g->nodes[n].op == &hr_op_head_loss) name_list(g->nodes[n].module, names, sizeof names);
    snprintf(remedy, sizeof remedy, "this model has %s", *names ? names : "no blocks");
    return hr__recipe_fail_at(s->recipe, KEY, rule->node, remedy, s->err, KEY ".%s names no block of the model",
                              rule->node->key);
  }
  return HR_OK;
}

/* ---- what is split ---- */

static region *region_at(const splitter *s, hr_id block) {
  if (block == HR_NONE || block >= s->n_blocks || s->region_of[block] == 0) return NULL;
  return &s->regions[s->region_of[block] - 1];
}

static region *node_region(const splitter *s, hr_id n) {
  return region_at(s, s->b->graph->nodes[n].block);
}

/* The outermost block that a rule names is split as a whole. Parents come before their children. */
static void regions_find(splitter *s) {
  const hr_graph *g = s->b->graph;
  for (hr_id block = 0; block < s->n_blocks; block++) {
    size_t r = rule_find(s, g->blocks[block].name);
    const region *around = region_at(s, g->blocks[block].parent);
    if (around) s->region_of[block] = s->region_of[g->blocks[block].parent];
    if (r == s->n_rules) continue;
    for (size_t k = r; k < s->n_rules; k++)
      s->rules[k].beaten |= hr__name_matches(g->blocks[block].name, s->rules[k].node->key);
    s->rules[r].used |= around == NULL;
    if (around || s->rules[r].slices == 1) continue;
    s->regions[s->n_regions++] = (region){.block = block, .rule = r, .first = HR_NONE};
    s->region_of[block] = s->n_regions;
  }
  for (hr_id n = 0; n < s->n_nodes; n++) {
    region *r = node_region(s, n);
    if (!r) continue;
    if (r->first == HR_NONE) r->first = n;
    r->last = n;
  }
}

/* Whether a node gives the same rows when it works on some of them only. */
static bool node_separable(const hr_graph *g, const hr_node *node) {
  const hr_op *op = node->op;
  hr_axes axes = hr__op_axes(op, node->args);
  if (axes == HR_AXES_NONE || op->effect || (op->random && op->sample_at == 0)) return false;
  return axes != HR_AXES_ROWS || g->values[node->out[0]].desc.rank >= 2;
}

/* Rows of the batch that a node works on; 0: it does not. */
static int64_t node_rows(const splitter *s, const hr_node *node) {
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && s->batched[node->in[i]]) return s->b->graph->values[node->in[i]].desc.dim[0];
  return 0;
}

static void batch_follow(splitter *s) {
  const hr_graph *g = s->b->graph;
  for (size_t v = 0; v < s->n_values; v++) {
    const hr_buffer *buffer = &g->buffers[g->values[v].buffer];
    s->batched[v] = buffer->role == HR_ROLE_INPUT && !buffer->persistent && g->values[v].desc.rank > 0;
  }
  for (hr_id n = 0; n < s->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    int64_t rows = node_rows(s, node);
    s->repeated[n] = rows > 0 && node_region(s, n);
    for (int j = 0; j < node->n_out; j++) {
      const hr_desc *out = &g->values[node->out[j]].desc;
      s->batched[node->out[j]] = rows > 0 && node_separable(g, node) && out->rank > 0 && out->dim[0] == rows;
    }
  }
}

static hr_status coupled(const splitter *s, const region *r, const hr_node *node) {
  return hr__recipe_fail_at(s->recipe, KEY, s->rules[r->rule].node, "split a smaller block, or take fewer samples",
                            s->err, "%s cannot be split: %s in %s couples the batch",
                            s->b->graph->blocks[r->block].name, node->op->name, node->module);
}

/* Notes that node `reader` (HR_NONE: the host) reads a value. */
static hr_status read_note(splitter *s, hr_id v, hr_id reader) {
  const hr_graph *g = s->b->graph;
  hr_id producer = g->values[v].producer;
  if (producer >= s->n_nodes || !s->repeated[producer]) return HR_OK;
  const region *r = node_region(s, producer);
  if (!s->batched[v]) return coupled(s, r, &g->nodes[producer]);
  if (reader != HR_NONE && node_region(s, reader) == r) return HR_OK;
  if (reader != HR_NONE && reader < r->last)
    return hr__fail(s->err, HR_FAILURE, g->blocks[r->block].name, NULL, "another block's nodes lie between its own");
  s->leaves[v] = true;
  return HR_OK;
}

static hr_status reads_find(splitter *s) {
  const hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < s->n_nodes; n++)
    for (int i = 0; i < g->nodes[n].n_in; i++)
      if (g->nodes[n].in[i] != HR_NONE) HR_TRY(read_note(s, g->nodes[n].in[i], n));
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      HR_TRY(read_note(s, g->programs[p].output[i].value, HR_NONE));
  return HR_OK;
}

static hr_status region_check(splitter *s, region *r) {
  const hr_graph *g = s->b->graph;
  const split_rule *rule = &s->rules[r->rule];
  for (hr_id n = r->first; n <= r->last; n++) {
    if (!s->repeated[n] || node_region(s, n) != r) continue;
    const hr_node *node = &g->nodes[n];
    int64_t rows = node_rows(s, node);
    if (r->rows == 0) r->rows = rows;
    if (!node_separable(g, node) || rows != r->rows) return coupled(s, r, node);
  }
  if (rule->slices > r->rows)
    return hr__recipe_fail_at(s->recipe, KEY, rule->node, "use fewer slices, or raise training.batch_size", s->err,
                              "%s cannot be split into %" PRId64 " slices: its batch has %" PRId64 " row%s",
                              g->blocks[r->block].name, rule->slices, r->rows, r->rows == 1 ? "" : "s");
  return HR_OK;
}

/* ---- repeating ---- */

typedef struct slice {
  const region *region;
  hr_id block;
  int64_t first, count; /* rows */
} slice;

/* The block that stands for `block` in a slice. */
static hr_id block_in_slice(splitter *s, const slice *part, hr_id block) {
  if (block == part->region->block) return part->block;
  stand_in *here = &s->inner[block];
  if (here->slice == part->block) return here->id;
  s->b->block = block_in_slice(s, part, s->b->graph->blocks[block].parent);
  hr__block_begin(s->b, "%s", s->b->graph->blocks[block].name);
  *here = (stand_in){s->b->block, part->block};
  return here->id;
}

/* The value that stands for `value` in a slice: made there, cut out of what enters, or shared. */
static hr_id value_in_slice(splitter *s, const slice *part, hr_id value) {
  if (value == HR_NONE || !s->batched[value]) return value;
  stand_in *here = &s->sliced[value];
  if (here->slice == part->block) return here->id;
  s->b->block = part->block;
  s->b->module = s->b->graph->blocks[part->region->block].name;
  hr_id whole = s->joined[value] == HR_NONE ? value : s->joined[value];
  *here = (stand_in){hr__slice(s->b, whole, part->first, part->count), part->block};
  return here->id;
}

static const void *args_in_slice(splitter *s, const slice *part, const hr_node *node) {
  if (node->op->sample_at == 0) return node->args;
  char *args = hr__arena_alloc(&s->b->graph->arena, node->op->args_bytes);
  int64_t sample;
  if (!args) return NULL;
  memcpy(args, node->args, node->op->args_bytes);
  memcpy(&sample, args + node->op->sample_at, sizeof sample);
  sample += part->first;
  memcpy(args + node->op->sample_at, &sample, sizeof sample);
  return args;
}

static hr_status node_repeat(splitter *s, const slice *part, hr_id n) {
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
    expected.dim[0] = part->count;
    if (s->batched[node.out[j]] && !hr_desc_same_shape(&g->values[made->out[j]].desc, &expected))
      return coupled(s, part->region, &node);
    s->sliced[node.out[j]] = (stand_in){made->out[j], part->block};
  }
  return HR_OK;
}

static void node_join(splitter *s, const slice *part, hr_id n) {
  const hr_node *node = &s->b->graph->nodes[n];
  const hr_id *out = node->out;
  for (int j = 0, n_out = node->n_out; j < n_out; j++)
    if (s->leaves[out[j]])
      s->joined[out[j]] = hr__join(s->b, s->sliced[out[j]].id, s->joined[out[j]], part->first, part->region->rows);
}

static hr_status slice_emit(splitter *s, const region *r, int64_t number, int64_t first, int64_t count) {
  hr_builder *b = s->b;
  const char *name = b->graph->blocks[r->block].name;
  b->block = r->block;
  hr__block_begin(b, "%s/slice.%" PRId64, name, number);
  HR_TRY(hr__builder_status(b, s->err));
  b->graph->blocks[b->block].recompute = true;
  const slice part = {r, b->block, first, count};
  for (hr_id n = r->first; n <= r->last; n++)
    if (s->repeated[n] && node_region(s, n) == r) HR_TRY(node_repeat(s, &part, n));
  b->block = r->block;
  b->module = name;
  for (hr_id n = r->first; n <= r->last; n++)
    if (s->repeated[n] && node_region(s, n) == r) node_join(s, &part, n);
  return hr__builder_status(b, s->err);
}

/* Rows that slices do not share out evenly go to the first ones. */
static hr_status region_emit(splitter *s, region *r) {
  hr_graph *g = s->b->graph;
  int64_t slices = s->rules[r->rule].slices, each = r->rows / slices, more = r->rows % slices, first = 0;
  s->b->program = g->blocks[r->block].program;
  r->first_new = (hr_id)g->n_nodes;
  for (int64_t i = 0; i < slices; i++) {
    int64_t count = each + (i < more);
    HR_TRY(slice_emit(s, r, i, first, count));
    first += count;
  }
  r->count_new = (hr_id)g->n_nodes - r->first_new;
  return HR_OK;
}

static hr_status regions_emit(splitter *s) {
  const hr_builder before = *s->b;
  s->b->phase = HR_FORWARD;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    region *r = node_region(s, n);
    if (!r || n != r->last) continue;
    HR_TRY(region_check(s, r));
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
static hr_status reads_replace(splitter *s) {
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

static hr_status nodes_arrange(splitter *s) {
  hr_graph *g = s->b->graph;
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(s->err);
  size_t count = 0;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    const region *r = node_region(s, n);
    if (!s->repeated[n]) order[count++] = n;
    for (hr_id k = 0; r && n == r->last && k < r->count_new; k++)
      order[count++] = r->first_new + k;
  }
  return hr__graph_arrange(g, order, count, s->err);
}

static hr_status heads_chunk(splitter *s) {
  hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    hr_node *node = &g->nodes[n];
    size_t r = node->op == &hr_op_head_loss ? rule_find(s, node->module) : s->n_rules;
    if (r == s->n_rules) continue;
    split_rule *rule = &s->rules[r];
    int64_t rows = hr_desc_rows(&g->values[node->in[0]].desc);
    rule->used = true;
    if (rule->slices > rows)
      return hr__recipe_fail_at(s->recipe, KEY, rule->node, "use fewer", s->err,
                                "%s cannot be taken in %" PRId64 " chunks: it has %" PRId64 " rows", node->module,
                                rule->slices, rows);
    hr_head_loss_args *args = hr__arena_alloc(&g->arena, sizeof *args);
    if (!args) return hr__nomem(s->err);
    *args = *(const hr_head_loss_args *)node->args;
    args->chunk_rows = (rows + rule->slices - 1) / rule->slices;
    node->args = args;
  }
  return HR_OK;
}

static hr_status tables_create(splitter *s) {
  hr_graph *g = s->b->graph;
  s->n_nodes = g->n_nodes;
  s->n_values = g->n_values;
  s->n_blocks = g->n_blocks;
  s->regions = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->regions);
  s->region_of = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->region_of);
  s->inner = hr__arena_array(&g->arena, s->n_blocks + 1, sizeof *s->inner);
  s->repeated = hr__arena_array(&g->arena, s->n_nodes + 1, sizeof *s->repeated);
  s->batched = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->batched);
  s->leaves = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->leaves);
  s->joined = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->joined);
  s->sliced = hr__arena_array(&g->arena, s->n_values + 1, sizeof *s->sliced);
  if (!s->regions || !s->region_of || !s->inner || !s->repeated || !s->batched || !s->leaves || !s->joined ||
      !s->sliced)
    return hr__nomem(s->err);
  for (size_t v = 0; v < s->n_values; v++) {
    s->joined[v] = HR_NONE;
    s->sliced[v].slice = HR_NONE;
  }
  for (size_t k = 0; k < s->n_blocks; k++)
    s->inner[k].slice = HR_NONE;
  return HR_OK;
}

hr_status hr__pass_split(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  const hr_doc_node *tree = hr__recipe_tree(recipe, KEY);
  bool chosen = choices && choices->slices > 1;
  if (!tree && !chosen) return HR_OK;
  splitter s = {.b = b, .recipe = recipe, .err = err};
  HR_TRY(chosen ? rules_make(&s, choices->slices) : rules_read(&s, tree));
  HR_TRY(tables_create(&s));
  regions_find(&s);
  if (!chosen) HR_TRY(heads_chunk(&s));
  if (!chosen) HR_TRY(rules_check_used(&s));
  if (s.n_regions == 0) return HR_OK;
  batch_follow(&s);
  HR_TRY(reads_find(&s));
  HR_TRY(regions_emit(&s));
  HR_TRY(reads_replace(&s));
  return nodes_arrange(&s);
}
