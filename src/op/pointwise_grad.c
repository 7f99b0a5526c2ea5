/* Backward of a program: another program, made of the slopes of its formulas, that gives the gradients of all operands.
 *
 * Steps of the program are made again as far as slopes need them, so nothing but operands is kept. A value that is read
 * several times sums its gradients in the order in which grad would have summed those of single nodes, each sum rounded
 * as it would have been in memory: programs give the same bits as their steps alone. Gradients of operands that are
 * repeated are summed by `reduce`, which takes the steps in where that reads no more than what it sums would take to be
 * written and read; permuted, cut or padded ones go back by `rearrange`.
 */
#include <string.h>

#include "graph/adjoint.h"
#include "op/pointwise_parts.h"

enum {
  SOURCES = 2 * HR_PROGRAM_INPUTS + 1, /* operands, then sums so far, then dy */
  DY = 2 * HR_PROGRAM_INPUTS,
  PARTIAL = HR_PROGRAM_INPUTS,
  MOST = SOURCES + 4 * HR_PROGRAM_STEPS
};

/* What may become a value of the backward program, numbered: sources, then steps. */
typedef struct draft {
  hr_step step[4 * HR_PROGRAM_STEPS];
  int n_steps;
  bool needed[MOST];
  int16_t number[MOST];                  /* in the program; -1: not there */
  int16_t from[4 * HR_PROGRAM_STEPS][3]; /* of a step, in this numbering */
  int16_t forward[HR_PROGRAM_VALUES];    /* of a forward value */
  int16_t gradient[HR_PROGRAM_VALUES];   /* of a forward value; -1: none yet */
  bool wanted[HR_PROGRAM_VALUES];        /* whether anything trained lies behind a forward value */
  bool adds[HR_PROGRAM_INPUTS];          /* whether an operand\'s gradient is added to a sum so far */
  hr_dtype type[HR_PROGRAM_VALUES];      /* of a forward value's gradient */
} draft;

static int16_t step_draft(draft *d, hr_step step, int16_t x, int16_t y, int16_t z) {
  d->step[d->n_steps] = step;
  d->from[d->n_steps][0] = x;
  d->from[d->n_steps][1] = y;
  d->from[d->n_steps][2] = z;
  return (int16_t)(SOURCES + d->n_steps++);
}

static void gradient_add(draft *d, int value, int16_t contribution) {
  if (d->gradient[value] >= 0) {
    hr_step add = {.formula = HR_FORMULA_add, .part = HR_PART_VALUE, .round = (int8_t)d->type[value]};
    contribution = step_draft(d, add, d->gradient[value], contribution, 0);
  }
  d->gradient[value] = contribution;
}

/* dy times the slope of a step by its operand i. Of a product that is dy times the other operand: the one itself is not
 * read, and not kept for backward where nobody wants the gradient of the other. */
static int16_t slope_draft(draft *d, const hr_pointwise_args *args, int s, int i) {
  const hr_step *step = &args->step[s];
  int value = step->from[i];
  int16_t dy = d->gradient[args->n_in + s];
  bool one = step->formula == HR_FORMULA_add || (step->formula == HR_FORMULA_sub && i == 0);
  if (one && d->type[args->n_in + s] == d->type[value]) return dy;
  hr_step slope = *step;
  slope.round = (int8_t)d->type[value];
  if (step->formula == HR_FORMULA_mul) return step_draft(d, slope, dy, d->forward[step->from[1 - i]], 0);
  slope.part = (uint8_t)(HR_PART_SLOPE_A + i);
  return step_draft(d, slope, dy, d->forward[step->from[0]], d->forward[step->from[1]]);
}

/* Whether the gradient of an operand lies as the result's: it is read in order, and has no further axes of size 1. */
static bool gradient_is_plain(const hr_graph *g, const hr_node *node, const hr_pointwise_args *args, int k) {
  return hr__map_is_plain(args, k) && g->values[node->in[k]].desc.rank == args->rank;
}

static void values_begin(draft *d, hr_adjoint *a, const hr_node *node, const hr_pointwise_args *args, hr_dtype result) {
  const hr_graph *g = hr__adjoint_builder(a)->graph;
  memset(d->gradient, -1, sizeof d->gradient);
  for (int k = 0; k < args->n_in; k++) {
    d->forward[k] = (int16_t)k;
    d->wanted[k] = hr__wants_grad(a, k);
    bool plain = gradient_is_plain(g, node, args, k);
    d->type[k] = d->wanted[k] && plain ? hr__grad_dtype(a, k) : g->values[node->in[k]].desc.dtype;
    for (int j = 0; j < k; j++) /* each operand stands for itself: the same value twice would add a sum twice */
      plain &= node->in[j] != node->in[k];
    if (d->wanted[k] && plain && hr__grad_partial(a, k) != HR_NONE) {
      d->gradient[k] = (int16_t)(PARTIAL + k);
      d->adds[k] = true;
    }
  }
  for (int s = 0; s < args->n_steps; s++) {
    const hr_step *step = &args->step[s];
    int value = args->n_in + s;
    d->type[value] = step->round == HR_SAME_TYPE ? result : (hr_dtype)step->round;
    d->forward[value] = step_draft(d, *step, d->forward[step->from[0]], d->forward[step->from[1]], 0);
    for (int i = 0; i < hr__formula_operands((hr_formula)step->formula); i++)
      d->wanted[value] |= d->wanted[step->from[i]];
  }
}

/* Marks what a value needs, then numbers operands in the order: sums so far (each result's own number, so that it can
 * be written there), dy, operands. */
static void needs_mark(draft *d) {
  for (int s = d->n_steps - 1; s >= 0; s--)
    for (int i = 0; d->needed[SOURCES + s] && i < 3; i++)
      if (hr__step_reads(&d->step[s], i)) d->needed[d->from[s][i]] = true;
}

typedef struct backward {
  draft *d;
  hr_pointwise_args args;
  hr_id in[HR_PROGRAM_INPUTS];
  int result_of[HR_PROGRAM_INPUTS]; /* per operand of the forward program: its result here; -1: none */
} backward;

static void input_add(backward *w, int source, hr_id value, const hr_map *map) {
  if (w->d->number[source] >= 0) return;
  w->d->number[source] = w->args.n_in;
  w->args.map[w->args.n_in] = *map;
  w->in[w->args.n_in++] = value;
}

/* Takes the needed steps over into the program. */
static void steps_take(backward *w) {
  draft *d = w->d;
  for (int s = 0; s < d->n_steps; s++) {
    if (!d->needed[SOURCES + s]) continue;
    hr_step step = d->step[s];
    for (int i = 0; i < 3; i++)
      step.from[i] = (int8_t)(hr__step_reads(&step, i) ? d->number[d->from[s][i]] : 0);
    d->number[SOURCES + s] = (int16_t)(w->args.n_in + w->args.n_steps);
    w->args.step[w->args.n_steps++] = step;
  }
}

/* Axes along which an operand is repeated. */
static unsigned axes_repeated(const hr_pointwise_args *args, int k, const hr_desc *space) {
  unsigned repeated = 0;
  for (int d = 0; d < args->rank; d++)
    if (args->map[k].axis[d] < 0 && space->dim[d] > 1) repeated |= 1u << d;
  return repeated;
}

/* A program begun with the operands that its results need, in the order: sums so far, dy, operands. */
static void operands_take(backward *w, hr_adjoint *a, const hr_pointwise_args *args, const int *order, int count,
                          hr_id dy, const hr_map *dy_map) {
  draft *d = w->d;
  hr_map plain = hr__program_plain(args->rank, 1).map[0];
  for (int o = 0; o < count; o++)
    if (w->result_of[order[o]] >= 0 && d->adds[order[o]])
      input_add(w, PARTIAL + order[o], hr__grad_partial(a, order[o]), &plain);
  if (d->needed[DY]) input_add(w, DY, dy, dy_map ? dy_map : &plain);
  for (int k = 0; k < args->n_in; k++)
    if (d->needed[k]) input_add(w, k, hr__saved_in(a, k), &args->map[k]);
}

static void draft_unmark(draft *d) {
  memset(d->needed, 0, sizeof d->needed);
  memset(d->number, -1, sizeof d->number);
}

/* What sums a program in place of its result may read of the size of that: it would be written once and read once. */
enum { READS_MOST = 2 };

/* The sum of the gradient of an operand that is repeated, made by the steps themselves: what is summed is in no memory.
 * HR_NONE: they would read too much. */
static hr_id gradient_sum(hr_adjoint *a, draft *d, const hr_pointwise_args *args, int k, hr_id dy, const hr_map *dy_map,
                          const hr_desc *space) {
  hr_builder *b = hr__adjoint_builder(a);
  backward w = {.d = d, .args = {.rank = args->rank, .n_out = 1}};
  memset(w.result_of, -1, sizeof w.result_of);
  draft_unmark(d);
  d->needed[d->gradient[k]] = true;
  needs_mark(d);
  int large = d->needed[DY] && !dy_map;
  for (int i = 0; i < args->n_in; i++) {
    if (d->needed[i]) large += 2 * hr_desc_count(&b->graph->values[hr__saved_in(a, i)].desc) > hr_desc_count(space);
  }
  if (large > READS_MOST) return HR_NONE;
  operands_take(&w, a, args, NULL, 0, dy, dy_map);
  steps_take(&w);
  memcpy(w.args.size, space->dim, sizeof w.args.size);
  w.args.result[0] = (hr_program_result){(int8_t)d->number[d->gradient[k]], HR_SAME_TYPE};
  hr_reduce_args sum = {.program = w.args,
                        .reduction = HR_REDUCE_SUM,
                        .axes = (uint8_t)axes_repeated(args, k, space),
                        .dtype = (int8_t)hr__grad_dtype(a, k)};
  return hr__emit(b, &hr_op_reduce, w.in, w.args.n_in, &sum);
}

/* The gradient of an operand that is not plain, from that of all elements it was read for, or from their sums. */
static hr_id gradient_return(hr_adjoint *a, const hr_node *node, const hr_pointwise_args *args, int k, hr_id whole) {
  hr_builder *b = hr__adjoint_builder(a);
  if (whole == HR_NONE) return HR_NONE;
  const hr_map *map = &args->map[k];
  hr_desc own = b->graph->values[node->in[k]].desc, all = b->graph->values[whole].desc;
  hr_reduce_args sum = {.program = hr__program_plain(args->rank, 1),
                        .reduction = HR_REDUCE_SUM,
                        .axes = (uint8_t)axes_repeated(args, k, &all),
                        .dtype = (int8_t)hr__grad_dtype(a, k)};
  sum.program.n_out = 1;
  if (sum.axes || all.dtype != (hr_dtype)sum.dtype) whole = hr__emit(b, &hr_op_reduce, &whole, 1, &sum);
  if (whole == HR_NONE) return HR_NONE;
  hr_pointwise_args back = hr__program_plain(own.rank, 1);
  bool same = own.rank == args->rank;
  memset(back.map[0].axis, -1, sizeof back.map[0].axis);
  for (int d = 0; d < args->rank; d++) {
    int axis = map->axis[d];
    if (axis < 0) continue;
    bool cut = map->first[axis] != 0 || own.dim[axis] != all.dim[d];
    back.map[0].axis[axis] = (int8_t)d;
    back.map[0].first[d] = -map->first[axis];
    if (cut) back.size[axis] = own.dim[axis];
    same &= axis == d && !cut;
  }
  for (int j = 0; j < own.rank; j++)
    if (back.map[0].axis[j] < 0) back.size[j] = 1;
  if (same) return whole;
  back.n_out = 1;
  back.result[0] = (hr_program_result){0, HR_SAME_TYPE};
  return hr__emit(b, &hr_op_rearrange, &whole, 1, &back);
}

/* Operands that single steps read last come first, as grad would come to them. */
static int operands_order(const hr_pointwise_args *args, int order[HR_PROGRAM_INPUTS]) {
  int count = 0;
  bool seen[HR_PROGRAM_INPUTS] = {false};
  for (int s = args->n_steps - 1; s >= 0; s--)
    for (int i = 0; i < hr__formula_operands((hr_formula)args->step[s].formula); i++) {
      int v = args->step[s].from[i];
      if (v < args->n_in && !seen[v]) order[count++] = v, seen[v] = true;
    }
  for (int k = 0; k < args->n_in; k++)
    if (!seen[k]) order[count++] = k;
  return count;
}

/* Whether the gradient of an operand is that of another one too, which is written anyway. */
static bool gradient_written(const draft *d, const hr_graph *g, const hr_node *node, const hr_pointwise_args *args,
                             int k) {
  for (int j = 0; j < args->n_in; j++)
    if (d->wanted[j] && d->gradient[j] == d->gradient[k] && d->type[j] == d->type[k] &&
        gradient_is_plain(g, node, args, j))
      return true;
  return false;
}

void hr__program_grad(hr_adjoint *a, const hr_node *node, const hr_pointwise_args *args, hr_id dy, const hr_map *dy_map,
                      const hr_desc *space) {
  hr_builder *b = hr__adjoint_builder(a);
  draft d = {.n_steps = 0};
  backward w = {.d = &d, .args = {.rank = args->rank}};
  memset(w.result_of, -1, sizeof w.result_of);
  values_begin(&d, a, node, args, b->graph->values[dy].desc.dtype);
  gradient_add(&d, args->result[0].from, DY);
  for (int s = args->n_steps - 1; s >= 0; s--)
    for (int i = 0; d.gradient[args->n_in + s] >= 0 && i < hr__formula_operands((hr_formula)args->step[s].formula); i++)
      if (d.wanted[args->step[s].from[i]]) gradient_add(&d, args->step[s].from[i], slope_draft(&d, args, s, i));

  const hr_graph *g = b->graph;
  hr_desc all = dy_map ? *space : g->values[dy].desc;
  int order[HR_PROGRAM_INPUTS], count = operands_order(args, order);
  hr_id sums[HR_PROGRAM_INPUTS];
  for (int k = 0; k < args->n_in; k++)
    sums[k] = HR_NONE;
  for (int o = 0; o < count; o++) { /* first, so that other gradients can be written over what they read */
    int k = order[o];
    bool steps = d.wanted[k] && d.gradient[k] >= SOURCES && axes_repeated(args, k, &all);
    if (steps && !gradient_written(&d, g, node, args, k)) sums[k] = gradient_sum(a, &d, args, k, dy, dy_map, &all);
  }

  /* What is only dy or a sum so far needs no result. */
  draft_unmark(&d);
  for (int adds = 1; adds >= 0; adds--) /* those that add to a sum first: result j beside operand j */
    for (int o = 0; o < count; o++) {
      int k = order[o], gradient = d.wanted[k] && d.adds[k] == adds ? d.gradient[k] : -1;
      bool typed = d.type[k] == g->values[dy].desc.dtype || !gradient_is_plain(g, node, args, k);
      bool direct = gradient == DY && !dy_map && typed;
      if (gradient < 0 || gradient == PARTIAL + k || direct || sums[k] != HR_NONE) continue;
      for (int j = 0; j < args->n_in; j++)
        if (w.result_of[j] >= 0 && d.gradient[j] == gradient && d.type[j] == d.type[k]) w.result_of[k] = w.result_of[j];
      if (w.result_of[k] < 0) w.result_of[k] = w.args.n_out++;
      d.needed[gradient] = true;
    }
  needs_mark(&d);
  operands_take(&w, a, args, order, count, dy, dy_map);
  for (int axis = 0; axis < args->rank; axis++) /* the space is that of the forward program */
    w.args.size[axis] = dy_map && dy_map->axis[axis] < 0 ? space->dim[axis] : args->size[axis];
  steps_take(&w);
  for (int k = 0; k < args->n_in; k++)
    if (w.result_of[k] >= 0)
      w.args.result[w.result_of[k]] = (hr_program_result){(int8_t)d.number[d.gradient[k]], (int8_t)d.type[k]};
  hr_id first = w.args.n_out ? hr__emit(b, &hr_op_pointwise_bwd, w.in, w.args.n_in, &w.args) : HR_NONE;
  for (int o = 0; o < count && b->status == HR_OK; o++) {
    int k = order[o];
    if (!d.wanted[k] || d.gradient[k] < 0 || d.gradient[k] == PARTIAL + k) continue;
    hr_id whole = sums[k] != HR_NONE ? sums[k] : w.result_of[k] >= 0 ? hr__node_out(b, first, w.result_of[k]) : dy;
    if (!gradient_is_plain(b->graph, node, args, k))
      hr__grad_add(a, k, gradient_return(a, node, args, k, whole));
    else if (d.adds[k])
      hr__grad_set(a, k, whole);
    else
      hr__grad_add(a, k, whole);
  }
}
