/* The checkpoint pass: backward reads forward values that were kept, or clones of forward nodes make them again.
 *
 * A value's scope is the innermost block that holds its producer and all its forward readers. Values without scope
 * (outside blocks, between blocks) are kept; those inside a block with `recompute` are made again; all others by what
 * is to be kept of their layer; but for a GPU light ones
 * (checkpoint_light.h) are made again whatever the recipe keeps. Layers
 * may lie in a block that is recomputed (a slice of a component): then "kept" means from when that block is made again,
 * and what is made again of a layer is made twice, in passing while its block is, and once more right before its own
 * backward. Clones stand right before the first backward node that needs them, once per program; what a never_saved op
 * makes is made again for every reader. A clone has the module of its original, so that it draws the same random
 * numbers: recomputing changes no bit.
 */
#include <string.h>

#include "pass/checkpoint_cut.h"
#include "pass/checkpoint_light.h"
#include "pass/pass.h"
#include "pass/prune.h"
#include "recipe/rules.h"

enum {
  SUMMARY_SHARE = 4096, /* of what its node reads or makes, that a summary is at most */
  LARGE_SHARE = 3       /* of all that is kept, above which a light value is not held while its layer is made again */
};

#define KEY  "memory.checkpoint"
#define KEPT "none|selective|every-layer"

static const hr_key keys[] = {
    {.path = KEY,
     .type = HR_KEY_CHOICE,
     .fallback = "none",
     .choices = KEPT "|auto",
     .tree = true,
     .example = "{ text: every-layer, head: none }",
     .meaning = "what backward computes again: nothing, all but products and attention, whole layers, or the fastest "
                "mix that fits the budget; also by pattern of block or part: { pattern: word }"},
};
const hr_key_table hr_checkpoint_keys = {keys, sizeof keys / sizeof keys[0]};

typedef enum fate {
  FATE_KEPT,  /* backward reads the value itself */
  FATE_AGAIN, /* made again, once */
  FATE_TWICE, /* made in passing to make others again, and again for its own layer's backward */
  FATE_OPEN   /* to be decided by a cut */
} fate;

typedef struct remat {
  hr_builder *b;
  hr_graph *g;
  hr_arena arena; /* of everything below */
  hr_id program;
  size_t n_values; /* before clones */
  hr_id *scope;    /* per value, of those made in forward */
  bool *needed;    /* per value: a node behind forward reads it */
  bool *lasts;     /* per value: whoever asks for it does so behind the program, or in the update */
  fate *fates;     /* per value */
  hr_id *again;    /* per value: its clone, or HR_NONE */
  hr_id *passing;  /* per value that is made twice: the clone made in passing, or HR_NONE */
  hr_id *vertex;   /* per value: number in the cut of its block, or HR_NONE */
  hr_id *blocks;   /* room for all */
  hr_keep *keep;   /* per block of the graph: of layers */
  hr_desc *descs;  /* room for the operands of any node */
  hr_id *order;    /* of all programs */
  size_t n_order, cap_order;
  bool cloned;
  bool lights;  /* light values are made again */
  bool weighed; /* what is kept of layers is weighed against its time by who chooses: nothing of it is light */
} remat;

/* --- what is needed, and within which block ----------------------------------------------------------------------- */

static hr_id block_common(const hr_graph *g, hr_id a, hr_id b) {
  while (a != HR_NONE && !hr__block_within(g, b, a))
    a = g->blocks[a].parent;
  return a;
}

static bool made_in_forward(const remat *r, hr_id value) {
  hr_id producer = r->g->values[value].producer;
  return producer != HR_NONE && producer != HR_DROPPED && r->g->nodes[producer].phase == HR_FORWARD &&
         r->g->nodes[producer].program == r->program;
}

static void scopes_find(remat *r) {
  const hr_graph *g = r->g;
  const hr_program *p = &g->programs[r->program];
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    for (int j = 0; node->phase == HR_FORWARD && j < node->n_out; j++)
      r->scope[node->out[j]] = node->block;
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == HR_NONE || !made_in_forward(r, node->in[i])) continue;
      if (node->phase == HR_FORWARD)
        r->scope[node->in[i]] = block_common(g, r->scope[node->in[i]], node->block);
      else
        r->needed[node->in[i]] = true;
      if (node->phase == HR_UPDATE) r->lasts[node->in[i]] = true; /* what a state follows is made once */
    }
  }
  for (int i = 0; i < p->n_outputs; i++)
    r->lasts[p->output[i].value] = true;
  for (hr_id v = 0; v < r->n_values; v++)
    if (r->lasts[v]) r->scope[v] = HR_NONE;
}

/* Whether a node may run a second time: it writes no state, and what it makes has storage of its own. */
static bool node_repeats(const hr_graph *g, const hr_node *node) {
  if (node->op->effect || node->op->transfer != HR_TRANSFER_NONE) return false;
  for (int a = 0; a < node->op->n_alias; a++)
    if (node->op->alias[a].kind == HR_ALIAS_MUST) return false;
  for (int j = 0; j < node->n_out; j++)
    if (g->buffers[g->values[node->out[j]].buffer].persistent) return false;
  return true;
}

/* Whether a block from `block` up to `last` is made again whatever is kept. */
static bool block_recomputed(const hr_graph *g, hr_id block, hr_id last) {
  for (; last != HR_NONE && block != HR_NONE; block = g->blocks[block].parent) {
    if (g->blocks[block].recompute) return true;
    if (block == last) return false;
  }
  return false;
}

/* Whether a layer, or what lies between layers of a component, is in a block that is made again. */
static bool layer_recomputed(const hr_graph *g, hr_id layer) {
  for (hr_id block = layer; block != HR_NONE; block = g->blocks[block].parent)
    if (g->blocks[block].recompute) return true;
  return false;
}

/* Whether a value is as good as nothing beside what its node reads or makes with it: the statistics of a group norm. To
 * make it again would make all of that. */
static bool value_is_summary(const hr_graph *g, hr_id value) {
  const hr_node *node = &g->nodes[g->values[value].producer];
  size_t most = 0;
  for (int k = 0; k < node->n_in + node->n_out; k++) {
    hr_id v = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
    size_t bytes = v == HR_NONE ? 0 : hr_desc_bytes(&g->values[v].desc);
    if (bytes > most) most = bytes;
  }
  return hr_desc_bytes(&g->values[value].desc) <= most / SUMMARY_SHARE;
}

static fate value_fate(const remat *r, hr_id value) {
  const hr_graph *g = r->g;
  const hr_node *node = &g->nodes[g->values[value].producer];
  if (!node_repeats(g, node) || g->values[value].base != HR_NONE) return FATE_KEPT;
  if (node->op->never_saved) return FATE_AGAIN;
  hr_id scope = r->scope[value], layer = hr__block_layer(g, scope);
  if (scope == HR_NONE) return FATE_KEPT;
  if (block_recomputed(g, scope, layer)) return FATE_AGAIN; /* by a block inside of its layer */
  bool inside = layer_recomputed(g, layer == HR_NONE ? scope : layer);
  if (!inside && value_is_summary(g, value)) return FATE_KEPT;
  switch (layer == HR_NONE ? HR_KEEP_ALL : r->keep[layer]) {
  case HR_KEEP_ALL:
    return inside ? FATE_AGAIN : FATE_KEPT;
  case HR_KEEP_SELECTIVE:
    return FATE_OPEN;
  case HR_KEEP_INPUT:
  case HR_KEEP_OFFLOADED:
    break;
  }
  return inside ? FATE_TWICE : FATE_AGAIN;
}

/* --- selective: the cheapest values to keep so that no product is computed twice ---------------------------------- */

static bool node_expensive(const remat *r, const hr_node *node) {
  hr_op_view view = hr__node_view(r->g, node, r->descs);
  hr_cost cost = {0};
  node->op->cost(&view, &cost);
  return cost.op_class == HR_CLASS_PRODUCT || cost.op_class == HR_CLASS_ATTENTION;
}

/* Vertices are the values of the block that are not kept anyway; a path leads from what only a product can make to what
 * backward reads. Where a block is recomputed whatever is kept, its products are no sources. */
static hr_status cut_vertices(remat *r, hr_cut *cut, const hr_node *node, hr_error *err) {
  bool expensive = node_expensive(r, node);
  for (int j = 0; j < node->n_out; j++) {
    hr_id out = node->out[j], v = r->vertex[out];
    if (v == HR_NONE) continue;
    bool open = r->fates[out] == FATE_OPEN;
    cut->cost[v] = open ? hr_desc_bytes(&r->g->values[out].desc) : HR_CUT_NEVER;
    cut->source[v] = open && expensive;
    cut->sink[v] = r->needed[out];
    for (int i = 0; !cut->source[v] && i < node->n_in; i++) {
      hr_id from = node->in[i] == HR_NONE ? HR_NONE : r->vertex[node->in[i]];
      if (from != HR_NONE) HR_TRY(hr__cut_edge(cut, from, v, err));
    }
  }
  return HR_OK;
}

static hr_status block_cut(remat *r, hr_id block, hr_error *err) {
  const hr_graph *g = r->g;
  const hr_program *p = &g->programs[r->program];
  hr_id *values = hr__arena_array(&r->arena, r->n_values, sizeof *values);
  if (!values) return hr__nomem(err);
  size_t count = 0;
  hr_id first = p->first + p->count, end = p->first;
  bool inside = layer_recomputed(g, block); /* of a block that is made again; what leaves the layer is there then */
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->phase != HR_FORWARD || hr__block_layer(g, node->block) != block) continue;
    if (n < first) first = n;
    end = n + 1;
    for (int j = 0; j < node->n_out; j++) {
      bool leaves = inside && !hr__block_within(g, r->scope[node->out[j]], block) && !node->op->never_saved;
      if (r->fates[node->out[j]] == FATE_KEPT || leaves) continue;
      r->vertex[node->out[j]] = (hr_id)count;
      values[count++] = node->out[j];
    }
  }
  hr_cut cut;
  HR_TRY(hr__cut_init(&cut, &r->arena, count, err));
  bool *taken = hr__arena_array(&r->arena, count, sizeof *taken);
  if (!taken) return hr__nomem(err);
  for (hr_id n = first; n < end; n++)
    if (g->nodes[n].phase == HR_FORWARD && hr__block_layer(g, g->nodes[n].block) == block)
      HR_TRY(cut_vertices(r, &cut, &g->nodes[n], err));
  HR_TRY(hr__cut_solve(&cut, taken, err));
  for (size_t v = 0; v < count; v++)
    r->fates[values[v]] = inside ? (taken[v] ? FATE_AGAIN : FATE_TWICE) : (taken[v] ? FATE_KEPT : FATE_AGAIN);
  return HR_OK;
}

/* --- light values, wherever else is kept ----------------------------------------------------------------------------
 */

/* Whether a value is read within the layer that it is made in, or both are outside of layers. */
static bool value_stays_within(const remat *r, hr_id value) {
  const hr_graph *g = r->g;
  hr_id made = g->nodes[g->values[value].producer].block;
  return hr__block_layer(g, made) == hr__block_layer(g, r->scope[value]);
}

/* Of what is made again with its layer, a light value that is large beside all that is kept is made for those behind it
 * and once more for backward: in between it would be held while the rest of the layer is made. */
static hr_status lights_decide(remat *r, hr_error *err) {
  hr_light_value *values = hr__arena_array(&r->arena, r->n_values, sizeof *values);
  if (!values) return hr__nomem(err);
  for (hr_id v = 0; v < r->n_values; v++) {
    bool there = made_in_forward(r, v) && (r->fates[v] == FATE_KEPT || r->fates[v] == FATE_AGAIN);
    values[v].kept = there && r->needed[v];
    bool stays = r->weighed && there && r->fates[v] == FATE_KEPT;
    values[v].open = there && !stays && !r->lasts[v] && r->g->values[v].base == HR_NONE &&
                     node_repeats(r->g, &r->g->nodes[r->g->values[v].producer]) && value_stays_within(r, v);
    values[v].moved = -1;
  }
  hr__light_find(r->g, r->program, values, r->descs);
  size_t kept_bytes = 0;
  for (hr_id v = 0; v < r->n_values; v++)
    if (values[v].kept && r->fates[v] == FATE_KEPT) kept_bytes += hr_desc_bytes(&r->g->values[v].desc);
  for (hr_id v = 0; v < r->n_values; v++) {
    if (!values[v].light) continue;
    bool large = hr_desc_bytes(&r->g->values[v].desc) > kept_bytes / LARGE_SHARE;
    if (r->fates[v] == FATE_KEPT)
      r->fates[v] = FATE_AGAIN;
    else if (large)
      r->fates[v] = FATE_TWICE;
  }
  return HR_OK;
}

static hr_status fates_decide(remat *r, hr_error *err) {
  for (hr_id v = 0; v < r->n_values; v++)
    if (made_in_forward(r, v)) r->fates[v] = value_fate(r, v);
  for (hr_id block = 0; block < r->g->n_blocks; block++)
    if (r->keep[block] == HR_KEEP_SELECTIVE) HR_TRY(block_cut(r, block, err));
  return r->lights ? lights_decide(r, err) : HR_OK;
}

/* --- clones ------------------------------------------------------------------------------------------------------- */

static hr_status order_add(remat *r, hr_id node, hr_error *err) {
  if (hr__arena_grow(&r->arena, (void **)&r->order, &r->cap_order, r->n_order, sizeof *r->order) != 0)
    return hr__nomem(err);
  r->order[r->n_order++] = node;
  return HR_OK;
}

static hr_status value_again(remat *r, hr_id value, bool passing, hr_id *out, hr_error *err);

/* The operands of a node that runs in backward, each kept or made again; NULL in *out: they are those it has.
 * `passing`: the node is a clone that is there to make others. */
static hr_status operands_again(remat *r, const hr_node *node, bool passing, const hr_id **out, hr_error *err) {
  *out = NULL;
  hr_id *in = NULL;
  for (int i = 0; i < node->n_in; i++) {
    hr_id from = node->in[i], to = from;
    if (from == HR_NONE || from >= r->n_values || !made_in_forward(r, from) || r->fates[from] == FATE_KEPT) continue;
    for (int k = 0; in && k < i && to == from; k++) /* an operand that was named before */
      if (node->in[k] == from) to = in[k];
    if (to == from) HR_TRY(value_again(r, from, passing, &to, err));
    if (!in) {
      in = hr__arena_array(&r->g->arena, (size_t)node->n_in, sizeof *in);
      if (!in) return hr__nomem(err);
      memcpy(in, node->in, (size_t)node->n_in * sizeof *in);
    }
    in[i] = to;
  }
  *out = in;
  return HR_OK;
}

static hr_id *clone_of(const remat *r, hr_id value, bool passing) {
  return passing && r->fates[value] == FATE_TWICE ? &r->passing[value] : &r->again[value];
}

static hr_status value_again(remat *r, hr_id value, bool passing, hr_id *out, hr_error *err) {
  passing |= r->fates[value] == FATE_AGAIN;
  *out = *clone_of(r, value, passing);
  if (*out != HR_NONE) return HR_OK;
  const hr_node node = r->g->nodes[r->g->values[value].producer];
  const hr_id *in;
  HR_TRY(operands_again(r, &node, passing, &in, err));
  r->b->module = node.module;
  r->b->block = node.block;
  hr_id first = hr__emit(r->b, node.op, in ? in : node.in, node.n_in, node.args);
  HR_TRY(hr__builder_status(r->b, err));
  hr_id clone = r->g->values[first].producer;
  r->g->nodes[clone].place = node.place;
  r->cloned = true;
  for (int j = 0; j < node.n_out; j++) {
    hr_id made = r->g->nodes[clone].out[j];
    hr_id *clone_is = clone_of(r, node.out[j], passing);
    if (!node.op->never_saved && *clone_is == HR_NONE) *clone_is = made;
    if (node.out[j] == value) *out = made;
  }
  return order_add(r, clone, err);
}

static hr_status nodes_walk(remat *r, hr_error *err) {
  const hr_program p = r->g->programs[r->program];
  for (hr_id n = p.first; n < p.first + p.count; n++) {
    if (r->g->nodes[n].phase != HR_FORWARD) {
      const hr_node node = r->g->nodes[n];
      const hr_id *in;
      HR_TRY(operands_again(r, &node, false, &in, err));
      if (in) r->g->nodes[n].in = in;
    }
    HR_TRY(order_add(r, n, err));
  }
  return HR_OK;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static hr_keep recipe_keep(const hr_recipe *recipe, const char *block) {
  const char *word = hr__rules_word(recipe, KEY, block, "none");
  if (strcmp(word, "selective") == 0) return HR_KEEP_SELECTIVE;
  return strcmp(word, "every-layer") == 0 ? HR_KEEP_INPUT : HR_KEEP_ALL;
}

/* The names of layers: what is kept is settled for these. */
static const char *block_name(const void *user, size_t i) {
  const hr_graph *g = user;
  for (hr_id block = 0; block < g->n_blocks; block++)
    if (hr__block_layer(g, block) == block && i-- == 0) return g->blocks[block].name;
  return NULL;
}

static bool program_trains(const hr_graph *g, const hr_program *p) {
  for (hr_id n = p->first; n < p->first + p->count; n++)
    if (g->nodes[n].phase == HR_BACKWARD) return true;
  return false;
}

/* A choice is about a layer as it was declared, and about all that repeat it in slices of its component. */
static void keeps_set(remat *r, const hr_recipe *recipe, const hr_choices *choices) {
  const hr_graph *g = r->g;
  bool chosen = choices && choices->keep;
  for (hr_id block = 0; block < g->n_blocks; block++) {
    bool layer = g->blocks[block].program == r->program && hr__block_layer(g, block) == block;
    r->keep[block] = layer && !chosen ? recipe_keep(recipe, g->blocks[block].name) : HR_KEEP_ALL;
  }
  if (!chosen) return;
  size_t count = hr__program_layers(g, r->program, r->blocks);
  for (size_t i = 0; i < count && i < choices->n_keep; i++)
    r->keep[r->blocks[i]] = choices->keep[i];
  for (hr_id block = 0; block < g->n_blocks; block++)
    if (g->blocks[block].program == r->program && hr__block_layer(g, block) == block)
      r->keep[block] = r->keep[hr__block_numbered(g, block)];
}

static hr_status program_remat(remat *r, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  hr_graph *g = r->g;
  size_t operands = 1;
  for (size_t n = 0; n < g->n_nodes; n++) {
    size_t has = (size_t)(g->nodes[n].n_in + g->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  r->n_values = g->n_values;
  r->scope = hr__arena_array(&r->arena, g->n_values, sizeof *r->scope);
  r->needed = hr__arena_array(&r->arena, g->n_values, sizeof *r->needed);
  r->lasts = hr__arena_array(&r->arena, g->n_values, sizeof *r->lasts);
  r->fates = hr__arena_array(&r->arena, g->n_values, sizeof *r->fates);
  r->again = hr__arena_array(&r->arena, g->n_values, sizeof *r->again);
  r->passing = hr__arena_array(&r->arena, g->n_values, sizeof *r->passing);
  r->vertex = hr__arena_array(&r->arena, g->n_values, sizeof *r->vertex);
  r->blocks = hr__arena_array(&r->arena, g->n_blocks, sizeof *r->blocks);
  r->keep = hr__arena_array(&r->arena, g->n_blocks, sizeof *r->keep);
  r->descs = hr__arena_array(&r->arena, operands, sizeof *r->descs);
  if (!r->scope || !r->needed || !r->lasts || !r->fates || !r->again || !r->passing || !r->vertex || !r->blocks ||
      !r->keep || !r->descs)
    return hr__nomem(err);
  for (size_t v = 0; v < g->n_values; v++)
    r->scope[v] = r->again[v] = r->passing[v] = r->vertex[v] = HR_NONE;
  keeps_set(r, recipe, choices);
  scopes_find(r);
  HR_TRY(fates_decide(r, err));
  r->b->program = r->program;
  r->b->phase = HR_BACKWARD;
  return nodes_walk(r, err);
}

static hr_status programs_remat(remat *r, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  for (hr_id p = 0; p < r->g->n_programs; p++) {
    const hr_program *program = &r->g->programs[p];
    r->program = p;
    if (program_trains(r->g, program)) {
      HR_TRY(program_remat(r, recipe, choices, err));
      continue;
    }
    for (hr_id n = program->first; n < program->first + program->count; n++)
      HR_TRY(order_add(r, n, err));
  }
  if (!r->cloned) return HR_OK;
  /* forward nodes that only served backward have lost their readers */
  HR_TRY(hr__prune_order(r->g, r->order, &r->n_order, &r->arena, err));
  return hr__graph_arrange(r->g, r->order, r->n_order, err);
}

/* Beside products: a GPU makes an activation in the time of its bytes; on a processor it is a tenth of a product. */
static bool streams_are_quick(const hr_recipe *recipe) {
  return recipe && hr__recipe_word_is(recipe, "memory.device", "cuda");
}

hr_status hr__pass_checkpoint(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  hr_builder before = *b;
  bool chosen = choices && choices->keep, weighed = chosen || (recipe && hr__recipe_word_is(recipe, KEY, "auto"));
  if (!chosen) HR_TRY(hr__rules_check(recipe, KEY, KEPT, "block", block_name, b->graph, err));
  remat r = {.b = b, .g = b->graph, .lights = streams_are_quick(recipe), .weighed = weighed};
  hr__arena_init(&r.arena);
  hr_status status = programs_remat(&r, recipe, choices, err);
  hr__arena_fini(&r.arena);
  b->program = before.program;
  b->block = before.block;
  b->phase = before.phase;
  b->module = before.module;
  return status;
}
