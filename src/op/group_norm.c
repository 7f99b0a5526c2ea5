/* group_norm and its backward op: their rules. op/group_norm_kernel.c has the CPU's kernels, op/group_norm.cu CUDA's;
 * op/group_statistics.c has what takes its statistics apart.
 */
#include "op/group_norm.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/group_norm_parts.h"
#include "op/shapes.h"

hr_id hr__group_norm(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const hr_group_norm_args *args) {
  return hr__emit(b, &hr_op_group_norm, (hr_id[]){x, weight, bias, HR_NONE}, 4, args);
}

hr_status hr__group_channels_check(const hr_desc *x, int64_t groups, hr_error *err) {
  if (x->rank < 2)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x of rank %d, expected samples, channels and places", x->rank);
  if (groups >= 1 && x->dim[1] % groups == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld channels cannot be normalised in %lld groups",
                  (long long)x->dim[1], (long long)groups);
}

hr_desc hr__group_statistics_desc(const hr_desc *x, int64_t groups) {
  return hr__desc3(HR_F32, x->dim[0], groups, 2);
}

static hr_status group_norm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_group_norm_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 4, 1u << 3, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__group_channels_check(&view->in[0], args->groups, err));
  hr_desc weight = hr__desc1(HR_F32, view->in[0].dim[1]);
  HR_TRY(hr__shape_like_float(view, 1, &weight, err));
  HR_TRY(hr__shape_like(view, 2, &view->in[1], err));
  out[0] = view->in[0];
  out[1] = hr__group_statistics_desc(&view->in[0], args->groups);
  return hr__shape_like(view, 3, &out[1], err);
}

static void group_norm_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id in[HR_GROUP_OPERANDS];
  in[HR_GROUP_DY] = hr__out_grad(a, 0);
  if (in[HR_GROUP_DY] == HR_NONE) return;
  hr_group_norm_bwd_args args;
  memset(&args, 0, sizeof args); /* plans compare arguments by their bytes */
  args.norm = *(const hr_group_norm_args *)node->args;
  args.want_dx = hr__wants_grad(a, 0);
  args.want_dw = hr__wants_grad(a, 1);
  args.want_db = hr__wants_grad(a, 2);
  args.given = node->in[3] != HR_NONE;
  bool wanted[] = {args.want_dx, args.want_dw, args.want_db};
  in[HR_GROUP_X] = hr__saved_in(a, 0);
  in[HR_GROUP_W] = hr__saved_in(a, 1);
  in[HR_GROUP_B] = hr__saved_in(a, 2);
  in[HR_GROUP_STATISTICS] = hr__saved_out(a, 1);
  for (int i = 0; i < 3; i++)
    in[HR_GROUP_DX_PARTIAL + i] = hr__grad_partial(a, i);
  hr_id dx = hr__emit(b, &hr_op_group_norm_bwd, in, HR_GROUP_OPERANDS, &args);
  for (int i = 0; i < 3; i++)
    if (wanted[i]) hr__grad_set(a, i, i == 0 ? dx : hr__node_out(b, dx, i));
  if (args.given && hr__wants_grad(a, 3)) hr__grad_add(a, 3, hr__node_out(b, dx, 3));
}

/* Rows of a sample are apart once its statistics are known. */
static bool group_norm_cut(const hr_op_view *view, int axis, hr_rows rows, hr_rows *in, hr_rows *made, void *args) {
  (void)args;
  if (axis < 2 || view->in[3].rank == 0) return false;
  in[0] = *made = rows;
  return true;
}

static hr_id group_norm_gather(hr_builder *b, const hr_node *node, hr_id x, hr_id before, int axis,
                               int64_t rows_before) {
  const hr_desc desc = b->graph->values[x].desc;
  const hr_group_norm_args *norm = node->args;
  hr_group_sizes s = hr__group_sizes(&desc, norm->groups);
  hr_group_statistics_args args;
  memset(&args, 0, sizeof args); /* plans compare arguments by their bytes (plan/peak.c) */
  args.groups = norm->groups;
  args.before = hr__group_elements(&s) / desc.dim[axis] * rows_before;
  args.eps = norm->eps;
  return hr__emit(b, &hr_op_group_statistics, (hr_id[]){x, before}, 2, &args);
}

static void group_norm_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_group_norm_args *args = view->args;
  hr__cost_stream(view, (args->gelu ? 48.0 : 8.0) * (double)hr_desc_count(&view->in[0]), cost);
  if (view->in[3].rank == 0) cost->bytes += (double)hr_desc_bytes(&view->in[0]); /* for the statistics, and again */
}

static size_t group_norm_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_group_sizes s = hr__group_sizes(&view->in[0], ((const hr_group_norm_args *)view->args)->groups);
  (void)kind, (void)threads;
  return (size_t)hr__group_floats(&s, false) * sizeof(float);
}

static hr_status group_norm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_group_norm_bwd_args *args = view->args;
  const hr_desc *dy = &view->in[HR_GROUP_DY], *w = &view->in[HR_GROUP_W];
  HR_TRY(hr__shape_operands(view, HR_GROUP_OPERANDS, 7u << HR_GROUP_DX_PARTIAL, err));
  HR_TRY(hr__shape_float(view, HR_GROUP_DY, err));
  HR_TRY(hr__group_channels_check(dy, args->norm.groups, err));
  HR_TRY(hr__shape_like(view, HR_GROUP_X, dy, err));
  hr_desc weight = hr__desc1(HR_F32, dy->dim[1]), statistics = hr__group_statistics_desc(dy, args->norm.groups);
  HR_TRY(hr__shape_like_float(view, HR_GROUP_W, &weight, err));
  HR_TRY(hr__shape_like(view, HR_GROUP_B, w, err));
  HR_TRY(hr__shape_like(view, HR_GROUP_STATISTICS, &statistics, err));
  out[0] = args->want_dx ? *dy : hr__desc1(dy->dtype, 0);
  out[1] = args->want_dw ? *w : hr__desc1(w->dtype, 0);
  out[2] = args->want_db ? *w : hr__desc1(w->dtype, 0);
  out[3] = args->given ? statistics : hr__desc1(HR_F32, 0);
  for (int i = 0; i < 3; i++)
    HR_TRY(hr__shape_like(view, HR_GROUP_DX_PARTIAL + i, &out[i], err));
  return HR_OK;
}

static void group_norm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_group_norm_bwd_args *args = view->args;
  hr__cost_stream(view, (args->norm.gelu ? 110.0 : 16.0) * (double)hr_desc_count(&view->in[HR_GROUP_X]), cost);
  cost->bytes += 2.0 * (double)hr_desc_bytes(&view->in[HR_GROUP_X]); /* x and dy are read for the sums, and again */
}

static size_t group_norm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_group_sizes s = hr__group_sizes(&view->in[HR_GROUP_X], ((const hr_group_norm_bwd_args *)view->args)->norm.groups);
  (void)kind, (void)threads;
  return (size_t)hr__group_floats(&s, true) * sizeof(float);
}

/* ---- samples: volumes, planes, one place to a channel; a channel of several pieces; one group, and one to a channel
 * ---- */

static const hr_group_norm_args plain = {2, 1e-5f, false}, with_gelu = {2, 1e-5f, true}, single = {1, 1e-5f, true},
                                each = {3, 1e-5f, false};
static const hr_group_norm_bwd_args plain_all = {{2, 1e-5f, false}, true, true, true, false},
                                    gelu_all = {{2, 1e-5f, true}, true, true, true, false},
                                    gelu_dx = {{2, 1e-5f, true}, true, false, false, false},
                                    gelu_weights = {{1, 1e-5f, true}, false, true, true, false},
                                    each_bias = {{3, 1e-5f, false}, true, false, true, false},
                                    gelu_given = {{2, 1e-5f, true}, true, true, true, true},
                                    plain_given = {{2, 1e-5f, false}, true, false, false, true};

static const hr_sample group_norm_samples[] = {
    {.n_in = 4, .in = {{HR_F32, 5, {2, 4, 3, 5, 7}}, {HR_F32, 1, {4}}, {HR_F32, 1, {4}}}, .args = &with_gelu},
    {.n_in = 4, .in = {{HR_F32, 4, {3, 6, 4, 16}}, {HR_F32, 1, {6}}, {HR_F32, 1, {6}}}, .args = &plain},
    {.n_in = 4, .in = {{HR_F32, 2, {5, 6}}, {HR_F32, 1, {6}}, {HR_F32, 1, {6}}}, .args = &single},
    {.n_in = 4, .in = {{HR_F32, 3, {1, 3, 37001}}, {HR_F32, 1, {3}}, {HR_F32, 1, {3}}}, .args = &each},
    {.n_in = 4,
     .in = {{HR_F32, 5, {2, 4, 3, 5, 7}}, {HR_F32, 1, {4}}, {HR_F32, 1, {4}}, {HR_F32, 3, {2, 2, 2}}},
     .args = &with_gelu},
    {.n_in = 4,
     .in = {{HR_F32, 4, {3, 6, 4, 16}}, {HR_F32, 1, {6}}, {HR_F32, 1, {6}}, {HR_F32, 3, {3, 2, 2}}},
     .args = &plain},
};

#define LIKE(rank, ...)                                                                                                \
  {HR_F32, rank, {__VA_ARGS__}}, {                                                                                     \
    HR_F32, rank, {                                                                                                    \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#define WEIGHTS(channels) LIKE(1, channels)
static const hr_sample group_norm_bwd_samples[] = {
    {.n_in = HR_GROUP_OPERANDS,
     .in = {LIKE(5, 2, 4, 3, 5, 7),
            WEIGHTS(4),
            {HR_F32, 3, {2, 2, 2}},
            {HR_F32, 5, {2, 4, 3, 5, 7}},
            {HR_F32, 1, {4}},
            {HR_F32, 1, {4}}},
     .args = &gelu_all},
    {.n_in = HR_GROUP_OPERANDS, .in = {LIKE(4, 3, 6, 4, 16), WEIGHTS(6), {HR_F32, 3, {3, 2, 2}}}, .args = &plain_all},
    {.n_in = HR_GROUP_OPERANDS, .in = {LIKE(3, 2, 4, 19), WEIGHTS(4), {HR_F32, 3, {2, 2, 2}}}, .args = &gelu_dx},
    {.n_in = HR_GROUP_OPERANDS, .in = {LIKE(2, 5, 6), WEIGHTS(6), {HR_F32, 3, {5, 1, 2}}}, .args = &gelu_weights},
    {.n_in = HR_GROUP_OPERANDS,
     .in = {LIKE(3, 1, 3, 37001), WEIGHTS(3), {HR_F32, 3, {1, 3, 2}}, {0}, {0}, {HR_F32, 1, {3}}},
     .args = &each_bias},
    {.n_in = HR_GROUP_OPERANDS,
     .in = {LIKE(5, 2, 4, 3, 5, 7),
            WEIGHTS(4),
            {HR_F32, 3, {2, 2, 2}},
            {HR_F32, 5, {2, 4, 3, 5, 7}},
            {HR_F32, 1, {4}},
            {HR_F32, 1, {4}}},
     .args = &gelu_given},
    {.n_in = HR_GROUP_OPERANDS, .in = {LIKE(4, 3, 6, 4, 16), WEIGHTS(6), {HR_F32, 3, {3, 2, 2}}}, .args = &plain_given},
};

const hr_op hr_op_group_norm = {
    .name = "group_norm",
    .n_in = 4,
    .n_out = 2,
    .light = true,
    .optional = 1u << 3,
    .args_bytes = sizeof(hr_group_norm_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1 | 1u << 2,
    .cut = group_norm_cut,
    .gather = group_norm_gather,
    .gathered = 3,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = group_norm_shape,
    .grad = group_norm_grad,
    .cost = group_norm_cost,
    .workspace = group_norm_workspace,
    .cpu = {.run = hr__group_norm_run},
    .samples = group_norm_samples,
    .n_samples = sizeof group_norm_samples / sizeof *group_norm_samples,
};

const hr_op hr_op_group_norm_bwd = {
    .name = "group_norm_bwd",
    .n_in = HR_GROUP_OPERANDS,
    .n_out = 4,
    .optional = 7u << HR_GROUP_DX_PARTIAL,
    .args_bytes = sizeof(hr_group_norm_bwd_args),
    .alias = {{HR_GROUP_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE},
              {HR_GROUP_DW_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {HR_GROUP_DB_PARTIAL, 2, HR_ALIAS_ACCUMULATE},
              {HR_GROUP_DY, 0, HR_ALIAS_MAY},
              {HR_GROUP_X, 0, HR_ALIAS_MAY}},
    .n_alias = 5,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = group_norm_bwd_shape,
    .cost = group_norm_bwd_cost,
    .workspace = group_norm_bwd_workspace,
    .cpu = {.run = hr__group_norm_bwd_run},
    .samples = group_norm_bwd_samples,
    .n_samples = sizeof group_norm_bwd_samples / sizeof *group_norm_bwd_samples,
};
