/* The fuse pass: chains of pointwise ops become one program, which reads each operand once and writes one result.
 *
 * A node takes over the program of another one whose result nobody else reads: pointwise by pointwise or reduce, and
 * what only rearranges into the map by which it is read. Steps stay in the order of their nodes, and each value is
 * rounded to the type it would have had in memory, so nothing changes a bit: neither results nor gradients, whose
 * programs are made of the joined one (op/pointwise_grad.c). What lies between is never stored, nor kept for backward.
 *
 * Not joined is
 *   - across blocks, which are sliced and recomputed each by itself;
 *   - over a node between the two that reads or writes an operand of the first, since gradients would be summed in
 *     another order, or the operand be gone;
 *   - what is computed and then repeated, cut or padded: only what is permuted, or not computed at all;
 *   - more than a program may hold with its backward.
 */
#include <string.h>

#include "op/pointwise_walk.h"
#include "pass/pass.h"

enum { OPERANDS = 7, STEPS = 12, DISTANCE = 64, READ_OUTSIDE = 1 << 20 };

typedef struct fusing {
  hr_graph *g;
  hr_error *err;
  hr_arena scratch;
  int *readers;   /* per value: how many operands it is; READ_OUTSIDE more for a program's output */
  hr_id **origin; /* per node: of each step of its program, the node it was; NULL: all its own */
  bool *gone;     /* per node: taken over by another */
} fusing;

/* A node's program while it grows. */
typedef struct growing {
  hr_id node;
  hr_pointwise_args args;
  hr_id in[HR_PROGRAM_INPUTS];
  hr_id origin[HR_PROGRAM_STEPS];
} growing;

static const hr_pointwise_args *program_of(const hr_node *node) {
  if (node->op == &hr_op_pointwise || node->op == &hr_op_rearrange) return node->args;
  const hr_reduce_args *reduce = node->op == &hr_op_reduce ? node->args : NULL;
  bool sums = reduce && (reduce->reduction == HR_REDUCE_SUM || reduce->reduction == HR_REDUCE_MEAN);
  return sums ? &reduce->program : NULL;
}

static growing growing_of(const fusing *f, hr_id n) {
  const hr_node *node = &f->g->nodes[n];
  growing w = {.node = n, .args = *program_of(node)};
  memcpy(w.in, node->in, (size_t)node->n_in * sizeof *w.in);
  for (int s = 0; s < w.args.n_steps; s++)
    w.origin[s] = f->origin[n] ? f->origin[n][s] : n;
  return w;
}

/* ---- may two nodes be joined ---- */

static bool node_touches(const hr_graph *g, const hr_node *node, hr_id value) {
  hr_id buffer = g->values[value].buffer;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] == value) return true;
  for (int j = 0; j < node->n_out; j++)
    if (g->values[node->out[j]].buffer == buffer) return true;
  return false;
}

/* Nodes in between leave the operands of the first alone; those that either has taken over do not count. */
static bool nothing_between(const fusing *f, hr_id first, hr_id second) {
  const hr_node *node = &f->g->nodes[first];
  if (second - first > DISTANCE) return false;
  for (hr_id n = first + 1; n < second; n++)
    for (int i = 0; !f->gone[n] && i < node->n_in; i++)
      if (node_touches(f->g, &f->g->nodes[n], node->in[i])) return false;
  return true;
}

/* The node whose result operand i is, if it can be taken over; HR_NONE. */
static hr_id maker_of(const fusing *f, const growing *w, int i) {
  const hr_graph *g = f->g;
  const hr_node *node = &g->nodes[w->node];
  hr_id maker = g->values[w->in[i]].producer;
  if (maker == HR_NONE || maker == HR_DROPPED || f->gone[maker] || g->values[w->in[i]].detached) return HR_NONE;
  const hr_node *from = &g->nodes[maker];
  if ((from->op != &hr_op_pointwise && from->op != &hr_op_rearrange) || from->program != node->program ||
      from->block != node->block)
    return HR_NONE;
  int reads = 0;
  for (int k = 0; k < w->args.n_in; k++)
    reads += w->in[k] == w->in[i];
  return reads == 1 && f->readers[w->in[i]] == 1 && nothing_between(f, maker, w->node) ? maker : HR_NONE;
}

/* ---- maps ---- */

/* Whether a map reads every element of a result once, in any order of axes. What is cut off or repeated would have
 * another gradient: zeros of another sign, sums in another order. */
static bool map_permutes(const hr_map *map, const hr_desc *result, const hr_desc *space) {
  for (int d = 0; d < space->rank; d++) {
    int own = map->axis[d];
    if (own < 0 || map->first[own] != 0 || space->dim[d] != result->dim[own]) return false;
  }
  return true;
}

/* Reads an operand of `inner` as `outer` reads inner's result. False: no map does that. */
static bool maps_compose(const hr_map *outer, const hr_map *inner, const hr_desc *operand, const hr_desc *result,
                         const hr_desc *space, hr_map *out) {
  memset(out, 0, sizeof *out);
  memset(out->axis, -1, sizeof out->axis);
  bool mapped[HR_RANK] = {false};
  for (int d = 0; d < space->rank; d++) {
    int between = outer->axis[d], own = between < 0 ? -1 : inner->axis[between];
    if (between < 0 || own < 0) {
      bool beside =
          between >= 0 && (outer->first[between] < 0 || outer->first[between] + space->dim[d] > result->dim[between]);
      if (beside) return false;
      continue;
    }
    bool padded = outer->first[between] < 0 || outer->first[between] + space->dim[d] > result->dim[between];
    bool cut = inner->first[own] != 0 || result->dim[between] != operand->dim[own];
    if (padded && cut) return false;
    out->axis[d] = (int8_t)own;
    out->first[own] = inner->first[own] + outer->first[between];
    mapped[own] = true;
  }
  for (int own = 0; own < operand->rank; own++)
    if (!mapped[own] && operand->dim[own] != 1) return false;
  return true;
}

/* ---- joining ---- */

/* The number of a value of `from` in the joined program. */
typedef struct numbers {
  int8_t of_first[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS], of_second[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS];
} numbers;

/* Adds an operand, or finds it: a value that is read in whole by both stands there once. -1: there is no room. */
static int operand_add(growing *to, hr_id value, const hr_map *map, const hr_desc *space) {
  hr_map plain = hr__program_plain(space->rank, 1).map[0];
  bool is_plain = memcmp(map, &plain, sizeof plain) == 0;
  for (int k = 0; k < to->args.n_in; k++) {
    if (to->in[k] != value) continue;
    bool other_plain = memcmp(&to->args.map[k], &plain, sizeof plain) == 0;
    if (is_plain && other_plain) return k;
    if (is_plain != other_plain) return -1; /* gradients would be summed in another order */
  }
  if (to->args.n_in == OPERANDS) return -1;
  to->args.map[to->args.n_in] = *map;
  to->in[to->args.n_in] = value;
  return to->args.n_in++;
}

static bool operands_join(const fusing *f, const growing *first, const growing *second, int at, const hr_desc *space,
                          growing *to, numbers *n) {
  const hr_graph *g = f->g;
  const hr_desc *result = &g->values[second->in[at]].desc;
  for (int k = 0; k < first->args.n_in; k++) {
    hr_map map;
    if (!maps_compose(&second->args.map[at], &first->args.map[k], &g->values[first->in[k]].desc, result, space, &map))
      return false;
    int number = operand_add(to, first->in[k], &map, space);
    if (number < 0) return false;
    n->of_first[k] = (int8_t)number;
  }
  for (int k = 0; k < second->args.n_in; k++) {
    if (k == at) continue;
    int number = operand_add(to, second->in[k], &second->args.map[k], space);
    if (number < 0) return false;
    n->of_second[k] = (int8_t)number;
  }
  return true;
}

static void step_take(growing *to, const growing *from, int s, int8_t *numbers_of) {
  hr_step step = from->args.step[s];
  for (int i = 0; i < 3; i++)
    step.from[i] = hr__step_reads(&step, i) ? numbers_of[step.from[i]] : 0;
  to->origin[to->args.n_steps] = from->origin[s];
  numbers_of[from->args.n_in + s] = (int8_t)(to->args.n_in + to->args.n_steps);
  to->args.step[to->args.n_steps++] = step;
}

/* Steps of both in the order of their nodes. Operand `at` of the second is the result of the first. */
static void steps_join(const growing *first, const growing *second, int at, growing *to, numbers *n) {
  int a = 0, b = 0;
  while (a < first->args.n_steps || b < second->args.n_steps) {
    bool takes_first = b == second->args.n_steps || (a < first->args.n_steps && first->origin[a] <= second->origin[b]);
    if (takes_first)
      step_take(to, first, a++, n->of_first);
    else
      step_take(to, second, b++, n->of_second);
    n->of_second[at] = n->of_first[first->args.result[0].from];
  }
  n->of_second[at] = n->of_first[first->args.result[0].from];
}

/* Axes whose size the operands no longer tell by themselves. */
static void sizes_set(const hr_graph *g, const hr_desc *space, growing *to) {
  for (int d = 0; d < space->rank; d++) {
    bool told = false, differs = false;
    for (int k = 0; k < to->args.n_in; k++) {
      int own = to->args.map[k].axis[d];
      if (own < 0) continue;
      bool whole = to->args.map[k].first[own] == 0 && g->values[to->in[k]].desc.dim[own] == space->dim[d];
      told |= whole;
      differs |= !whole;
    }
    to->args.size[d] = told && !differs ? 0 : space->dim[d];
  }
}

static bool join(const fusing *f, growing *second, int at, hr_id maker) {
  const hr_graph *g = f->g;
  growing first = growing_of(f, maker);
  hr_desc storage[HR_PROGRAM_INPUTS], space;
  hr_error ignored;
  for (int k = 0; k < second->args.n_in; k++)
    storage[k] = g->values[second->in[k]].desc;
  hr_op_view view = {.in = storage, .n_in = second->args.n_in, .args = &second->args};
  if (hr__program_shape(&view, &second->args, &space, &ignored) != HR_OK) return false;
  const hr_value *between = &g->values[second->in[at]];
  bool computes = first.args.n_steps > 0;
  if (computes && !map_permutes(&second->args.map[at], &between->desc, &space)) return false;
  if (first.args.n_steps + second->args.n_steps > STEPS) return false;
  if (computes) first.args.step[first.args.n_steps - 1].round = (int8_t)between->desc.dtype;
  growing to = {.node = second->node, .args = {.rank = second->args.rank, .n_out = 1}};
  numbers n = {{0}, {0}};
  if (!operands_join(f, &first, second, at, &space, &to, &n)) return false;
  steps_join(&first, second, at, &to, &n);
  sizes_set(g, &space, &to);
  const hr_node *node = &g->nodes[second->node];
  bool reduces = node->op == &hr_op_reduce;
  hr_program_result result = second->args.result[0];
  result.from = n.of_second[result.from];
  result.dtype = (int8_t)(reduces ? HR_SAME_TYPE : (int)g->values[node->out[0]].desc.dtype);
  to.args.result[0] = result;
  *second = to;
  return true;
}

/* ---- the pass ---- */

static hr_status node_replace(fusing *f, const growing *w) {
  hr_graph *g = f->g;
  hr_node *node = &g->nodes[w->node];
  hr_id *in = hr__arena_array(&g->arena, (size_t)w->args.n_in + (size_t)node->n_out, sizeof *in);
  void *args = hr__arena_alloc(&g->arena, node->op->args_bytes);
  hr_id *origin = hr__arena_array(&f->scratch, (size_t)w->args.n_steps + 1, sizeof *origin);
  if (!in || !args || !origin) return hr__nomem(f->err);
  memcpy(in, w->in, (size_t)w->args.n_in * sizeof *in);
  memcpy(in + w->args.n_in, node->out, (size_t)node->n_out * sizeof *in);
  memcpy(origin, w->origin, (size_t)w->args.n_steps * sizeof *origin);
  f->origin[w->node] = origin;
  if (node->op == &hr_op_reduce) {
    hr_reduce_args reduce = *(const hr_reduce_args *)node->args;
    reduce.program = w->args;
    reduce.dtype = (int8_t)g->values[node->out[0]].desc.dtype;
    memcpy(args, &reduce, sizeof reduce);
  } else {
    memcpy(args, &w->args, sizeof w->args);
    node->op = w->args.n_steps > 0 ? &hr_op_pointwise : &hr_op_rearrange;
  }
  node->in = in;
  node->out = in + w->args.n_in;
  node->n_in = w->args.n_in;
  node->args = args;
  return HR_OK;
}

static hr_status node_grow(fusing *f, hr_id n) {
  growing w = growing_of(f, n);
  bool grown = false;
  for (int i = 0; i < w.args.n_in;) {
    hr_id maker = maker_of(f, &w, i);
    if (maker == HR_NONE || !join(f, &w, i, maker)) {
      i++;
      continue;
    }
    f->gone[maker] = grown = true;
    i = 0;
  }
  return grown ? node_replace(f, &w) : HR_OK;
}

static hr_status readers_count(fusing *f) {
  hr_graph *g = f->g;
  f->readers = hr__arena_array(&f->scratch, g->n_values + 1, sizeof *f->readers);
  f->origin = hr__arena_array(&f->scratch, g->n_nodes + 1, sizeof(hr_id *));
  f->gone = hr__arena_array(&f->scratch, g->n_nodes + 1, sizeof *f->gone);
  if (!f->readers || !f->origin || !f->gone) return hr__nomem(f->err);
  for (size_t n = 0; n < g->n_nodes; n++)
    for (int i = 0; i < g->nodes[n].n_in; i++)
      if (g->nodes[n].in[i] != HR_NONE) f->readers[g->nodes[n].in[i]]++;
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      f->readers[g->programs[p].output[i].value] += READ_OUTSIDE;
  return HR_OK;
}

static hr_status nodes_fuse(fusing *f) {
  hr_graph *g = f->g;
  HR_TRY(readers_count(f));
  for (hr_id n = 0; n < g->n_nodes; n++)
    if (program_of(&g->nodes[n])) HR_TRY(node_grow(f, n));
  hr_id *order = hr__arena_room(&f->scratch, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(f->err);
  size_t count = 0;
  for (hr_id n = 0; n < g->n_nodes; n++)
    if (!f->gone[n]) order[count++] = n;
  return count < g->n_nodes ? hr__graph_arrange(g, order, count, f->err) : HR_OK;
}

hr_status hr__pass_fuse(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe, (void)choices;
  fusing f = {.g = b->graph, .err = err};
  bool any = false;
  for (size_t n = 0; n < f.g->n_nodes && !any; n++)
    any = program_of(&f.g->nodes[n]) != NULL;
  if (!any) return HR_OK;
  hr_status status = nodes_fuse(&f);
  hr__arena_fini(&f.scratch);
  return status;
}
