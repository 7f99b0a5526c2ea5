/* pointwise and rearrange: emitters, rules and samples. Backward is in pointwise_grad.c, the CPU's kernel in
 * pointwise_kernel.c. */
#include "op/pointwise.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/pointwise_parts.h"
#include "op/pointwise_samples.h"
#include "op/shapes.h"

/* ---- formulas ---- */

typedef struct formula_facts {
  const char *name;
  int operands, flops;
} formula_facts;

static const formula_facts formulas[] = {
#define FACTS_1(name, flops, reads, value, slope)            {#name, 1, flops},
#define FACTS_2(name, flops, reads, value, slope_a, slope_b) {#name, 2, flops},
    HR_FORMULAS_1(FACTS_1) HR_FORMULAS_2(FACTS_2)};

const char *hr__formula_name(hr_formula formula) {
  return formulas[formula].name;
}

int hr__formula_operands(hr_formula formula) {
  return formulas[formula].operands;
}

double hr__program_flops(const hr_pointwise_args *args) {
  double flops = 0;
  for (int s = 0; s < args->n_steps; s++)
    flops += formulas[args->step[s].formula].flops + (args->step[s].part != HR_PART_VALUE);
  return flops;
}

/* ---- emitters ---- */

hr_pointwise_args hr__program_plain(int rank, int n_in) {
  hr_pointwise_args args = {.rank = (int8_t)rank, .n_in = (int8_t)n_in};
  for (int i = 0; i < n_in; i++)
    for (int d = 0; d < HR_RANK; d++)
      args.map[i].axis[d] = (int8_t)(d < rank ? d : -1);
  return args;
}

bool hr__map_is_plain(const hr_pointwise_args *args, int in) {
  for (int d = 0; d < args->rank; d++)
    if (args->map[in].axis[d] != d || args->map[in].first[d] != 0 || args->size[d] != 0) return false;
  return true;
}

static void step_add(hr_pointwise_args *args, hr_formula formula, float p, float q) {
  args->step[args->n_steps++] = (hr_step){
      .formula = (uint8_t)formula, .round = HR_SAME_TYPE, .from = {0, (int8_t)(args->n_in > 1), 0}, .p = p, .q = q};
  args->result[args->n_out++] = (hr_program_result){(int8_t)(args->n_in + args->n_steps - 1), HR_SAME_TYPE};
}

hr_id hr__unary(hr_builder *b, hr_formula formula, hr_id x, float p, float q) {
  if (b->status != HR_OK) return HR_NONE;
  hr_pointwise_args args = hr__program_plain(b->graph->values[x].desc.rank, 1);
  step_add(&args, formula, p, q);
  return hr__emit(b, &hr_op_pointwise, &x, 1, &args);
}

/* Axes of an operand matched with those of a result from the last one on; one of size 1 is repeated. */
static hr_map map_broadcast(const hr_desc *operand, int rank, const int64_t *size) {
  hr_map map = {0};
  for (int d = 0; d < HR_RANK; d++) {
    int own = d - (rank - operand->rank);
    bool has = d < rank && own >= 0 && !(operand->dim[own] == 1 && size[d] != 1);
    map.axis[d] = (int8_t)(has ? own : -1);
  }
  return map;
}

hr_id hr__binary(hr_builder *b, hr_formula formula, hr_id left, hr_id right) {
  if (b->status != HR_OK) return HR_NONE;
  const hr_desc *x = &b->graph->values[left].desc, *y = &b->graph->values[right].desc;
  int rank = x->rank > y->rank ? x->rank : y->rank;
  int64_t size[HR_RANK] = {0};
  for (int d = 0; d < rank; d++) {
    int dx = d - (rank - x->rank), dy = d - (rank - y->rank);
    int64_t nx = dx >= 0 ? x->dim[dx] : 1, ny = dy >= 0 ? y->dim[dy] : 1;
    size[d] = nx == 1 ? ny : nx;
  }
  int operands = left == right ? 1 : 2; /* one that is read twice has one gradient */
  hr_pointwise_args args = hr__program_plain(rank, operands);
  args.map[0] = map_broadcast(x, rank, size);
  if (operands == 2) args.map[1] = map_broadcast(y, rank, size);
  step_add(&args, formula, 0.0f, 0.0f);
  return hr__emit(b, &hr_op_pointwise, (hr_id[]){left, right}, operands, &args);
}

hr_id hr__select(hr_builder *b, hr_id mask, hr_id x, hr_id y) {
  hr_id kept = hr__binary(b, HR_FORMULA_keep, x, mask), other = hr__binary(b, HR_FORMULA_drop, y, mask);
  return hr__binary(b, HR_FORMULA_add, kept, other);
}

static hr_id rearrange_emit(hr_builder *b, hr_id x, hr_pointwise_args *args) {
  args->n_out = 1;
  args->result[0] = (hr_program_result){0, HR_SAME_TYPE};
  return hr__emit(b, &hr_op_rearrange, &x, 1, args);
}

hr_id hr__permute(hr_builder *b, hr_id x, const int *order) {
  if (b->status != HR_OK) return HR_NONE;
  hr_pointwise_args args = hr__program_plain(b->graph->values[x].desc.rank, 1);
  for (int d = 0; d < args.rank; d++)
    args.map[0].axis[d] = (int8_t)order[d];
  return rearrange_emit(b, x, &args);
}

hr_id hr__window(hr_builder *b, hr_id x, int axis, int64_t first, int64_t count) {
  if (b->status != HR_OK) return HR_NONE;
  hr_pointwise_args args = hr__program_plain(b->graph->values[x].desc.rank, 1);
  args.map[0].first[axis] = first;
  args.size[axis] = count;
  return rearrange_emit(b, x, &args);
}

hr_id hr__expand(hr_builder *b, hr_id x, int rank, const int64_t *size) {
  if (b->status != HR_OK) return HR_NONE;
  hr_pointwise_args args = hr__program_plain(rank, 1);
  args.map[0] = map_broadcast(&b->graph->values[x].desc, rank, size);
  for (int d = 0; d < rank; d++)
    if (args.map[0].axis[d] < 0) args.size[d] = size[d];
  return rearrange_emit(b, x, &args);
}

hr_id hr__squeeze(hr_builder *b, hr_id x, unsigned axes) {
  if (b->status != HR_OK) return HR_NONE;
  int rank = b->graph->values[x].desc.rank, kept = 0;
  hr_pointwise_args args = hr__program_plain(rank - __builtin_popcount(axes), 1);
  memset(args.map[0].axis, -1, sizeof args.map[0].axis);
  for (int d = 0; d < rank; d++)
    if (!(axes >> d & 1)) args.map[0].axis[kept++] = (int8_t)d;
  return rearrange_emit(b, x, &args);
}

/* ---- shape ---- */

/* Every axis of an operand is that of one axis of the result, or of size 1. */
static hr_status map_check(const hr_pointwise_args *args, const hr_op_view *view, int in, hr_error *err) {
  const hr_map *map = &args->map[in];
  const hr_desc *x = &view->in[in];
  unsigned used = 0;
  for (int d = 0; d < args->rank; d++) {
    int own = map->axis[d];
    if (own < 0) continue;
    if (own >= x->rank || used >> own & 1)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d has no axis %d left for axis %d of the result", in,
                      own, d);
    used |= 1u << own;
    if (args->size[d] == 0 && map->first[own] != 0)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a part of operand %d without a size", in);
  }
  for (int own = 0; own < x->rank; own++)
    if (!(used >> own & 1) && x->dim[own] != 1)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "axis %d of operand %d has size %lld, which goes with no axis",
                      own, in, (long long)x->dim[own]);
  return HR_OK;
}

static hr_status steps_check(const hr_pointwise_args *args, hr_error *err) {
  for (int s = 0; s < args->n_steps; s++) {
    const hr_step *step = &args->step[s];
    bool sound = step->formula < HR_FORMULA_COUNT && step->part < HR_PARTS;
    for (int i = 0; sound && i < 3; i++)
      sound = !hr__step_reads(step, i) || (step->from[i] >= 0 && step->from[i] < args->n_in + s);
    if (!sound) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "step %d of its program is none", s);
  }
  for (int j = 0; j < args->n_out; j++)
    if (args->result[j].from < 0 || args->result[j].from >= args->n_in + args->n_steps)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "result %d of its program is none of its values", j);
  return HR_OK;
}

hr_status hr__program_shape(const hr_op_view *view, const hr_pointwise_args *args, hr_desc *result, hr_error *err) {
  HR_TRY(hr__shape_operands(view, args->n_in, 0, err));
  if (args->n_in < 1 || args->n_in > HR_PROGRAM_INPUTS || args->n_steps > HR_PROGRAM_STEPS || args->n_out < 1 ||
      args->n_out > HR_PROGRAM_RESULTS || args->rank < 1 || args->rank > HR_RANK)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a program of %d operands, %d steps and %d results", args->n_in,
                    args->n_steps, args->n_out);
  HR_TRY(steps_check(args, err));
  *result = (hr_desc){HR_F32, args->rank, {0}};
  for (int i = args->n_in - 1; i >= 0; i--) {
    bool whole = view->in[i].dtype == HR_U8 || view->in[i].dtype == HR_I32;
    HR_TRY(whole ? hr__shape_like(view, i, &view->in[i], err) : hr__shape_float(view, i, err));
    HR_TRY(map_check(args, view, i, err));
    if (!whole) result->dtype = view->in[i].dtype;
  }
  for (int d = 0; d < args->rank; d++) {
    result->dim[d] = args->size[d];
    for (int i = 0; args->size[d] == 0 && i < args->n_in; i++) {
      int own = args->map[i].axis[d];
      if (own < 0) continue;
      int64_t has = view->in[i].dim[own];
      if (result->dim[d] != 0 && result->dim[d] != has)
        return hr__fail(err, HR_BAD_INPUT, NULL, "sizes must be equal, or 1",
                        "axis %d is %lld long in one operand and %lld in another", d, (long long)result->dim[d],
                        (long long)has);
      result->dim[d] = has;
    }
    if (result->dim[d] < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "nothing says how long axis %d is", d);
  }
  return HR_OK;
}

static hr_status pointwise_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_pointwise_args *args = view->args;
  hr_desc result;
  HR_TRY(hr__program_shape(view, args, &result, err));
  for (int j = 0; j < args->n_out; j++) {
    out[j] = result;
    if (args->result[j].dtype != HR_SAME_TYPE) out[j].dtype = (hr_dtype)args->result[j].dtype;
  }
  return HR_OK;
}

/* Forward programs have one result and no slopes, so that they have a gradient. */
static hr_status pointwise_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_pointwise_args *args = view->args;
  for (int s = 0; s < args->n_steps; s++)
    if (args->step[s].part != HR_PART_VALUE)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "step %d is a slope, which has no gradient", s);
  if (args->n_out != 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "has one result, not %d", args->n_out);
  return pointwise_bwd_shape(view, out, err);
}

/* ---- other rules ---- */

static int pointwise_results(const void *args) {
  return ((const hr_pointwise_args *)args)->n_out;
}

static bool pointwise_takes(const void *args, int in, int out) {
  const hr_pointwise_args *a = args;
  return in < a->n_in && out < a->n_out && hr__map_is_plain(a, in);
}

/* The axis of the result along which all of an operand's batch is read; -1: there is none. */
static int batch_goes_to(const hr_pointwise_args *args, int in, const hr_desc *desc, int axis) {
  const hr_map *map = &args->map[in];
  int d = 0;
  while (d < args->rank && map->axis[d] != axis)
    d++;
  if (d == args->rank) return -1;
  bool cut = args->size[d] != 0 && (map->first[axis] != 0 || args->size[d] != desc->dim[axis]);
  return cut ? -1 : d;
}

bool hr__program_batch(const hr_op_view *view, const hr_pointwise_args *args, const hr_batch *in, hr_batch *out) {
  hr_batch batch = {-1, 0};
  bool whole = true;
  for (int i = 0; i < args->n_in; i++) {
    if (in[i].axis < 0) continue;
    int d = batch_goes_to(args, i, &view->in[i], in[i].axis);
    if (batch.axis < 0 && d >= 0) batch = (hr_batch){d, in[i].rows};
    whole &= d >= 0 && d == batch.axis && in[i].rows == batch.rows;
  }
  for (int i = 0; i < args->n_in && batch.axis >= 0;
       i++) { /* what lies along it and is no batch cannot be cut with it */
    int own = args->map[i].axis[batch.axis];
    whole &= own < 0 || own == in[i].axis;
  }
  for (int j = 0; j < view->n_out; j++)
    out[j] = batch;
  return whole && batch.axis >= 0;
}

void hr__program_resize(hr_pointwise_args *args, int axis, int64_t size) {
  if (args->size[axis] != 0) args->size[axis] = size;
}

static bool pointwise_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  return hr__program_batch(view, view->args, in, out);
}

static void pointwise_resize(void *args, int axis, int64_t size) {
  hr__program_resize(args, axis, size);
}

static void pointwise_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, hr__program_flops(view->args) * (double)hr_desc_count(&view->out[0]), cost);
}

static size_t pointwise_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return kind == HR_CPU ? (size_t)threads * hr__program_scratch_bytes(view->args) : 0;
}

static void pointwise_grad(hr_adjoint *a, const hr_node *node) {
  hr_id dy = hr__out_grad(a, 0);
  if (dy != HR_NONE) hr__program_grad(a, node, node->args, dy, NULL, NULL);
}

/* In place: each result on the operand of its number (backward puts sums so far there), the first on the next two. */
#define POINTWISE(op_name, op_samples, shape_rule, grad_rule, saved)                                                   \
  {                                                                                                                    \
    .name = op_name, .n_in = 1, .n_out = 1, .light = true, .variadic = true, .results = pointwise_results,             \
    .args_bytes = sizeof(hr_pointwise_args), .saves = saved, .computes = 1u << 0,                                      \
    .alias = {{0, 0, HR_ALIAS_MAY}, {1, 0, HR_ALIAS_MAY}, {2, 0, HR_ALIAS_MAY}, {1, 1, HR_ALIAS_MAY},                  \
              {2, 2, HR_ALIAS_MAY}, {3, 3, HR_ALIAS_MAY}, {4, 4, HR_ALIAS_MAY}, {5, 5, HR_ALIAS_MAY},                  \
              {6, 6, HR_ALIAS_MAY}, {7, 7, HR_ALIAS_MAY}},                                                             \
    .n_alias = 10, .takes = pointwise_takes, .batch = pointwise_batch, .resize = pointwise_resize,                     \
    .dtypes = {[HR_CPU] = HR_PROGRAM_DTYPES, [HR_CUDA] = HR_PROGRAM_DTYPES}, .shape = shape_rule, .grad = grad_rule,   \
    .cost = pointwise_cost, .workspace = pointwise_workspace,                                                          \
    .cpu = {hr__pointwise_prepare, hr__pointwise_release, hr__pointwise_run}, .samples = op_samples,                   \
    .n_samples = sizeof op_samples / sizeof *op_samples,                                                               \
  }
const hr_op hr_op_pointwise =
    POINTWISE("pointwise", pointwise_samples, pointwise_shape, pointwise_grad, HR_SAVE_ALL_IN);
const hr_op hr_op_rearrange = POINTWISE("rearrange", rearrange_samples, pointwise_shape, pointwise_grad, 0);
const hr_op hr_op_pointwise_bwd = POINTWISE("pointwise_bwd", pointwise_bwd_samples, pointwise_bwd_shape, NULL, 0);
