/* group_statistics and its backward op: their rules. See op/group_norm.h; op/group_norm_kernel.c has the CPU's kernels,
 * op/group_statistics.cu CUDA's.
 *
 * Of n elements before and m of x, with means p and q and variances u and v, all of them have
 *   mean = (n p + m q) / (n + m)    variance = (n u + m v) / (n + m) + (q - p)^2 n m / (n + m)^2
 */
#include "graph/adjoint.h"
#include "op/group_norm.h"
#include "op/group_norm_parts.h"
#include "op/shapes.h"

static hr_status before_check(const hr_desc *before, const hr_group_statistics_args *args, hr_error *err) {
  if (args->before >= 0 && (before->rank != 0) == (args->before > 0)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "statistics before of %lld elements", (long long)args->before);
}

static hr_status group_statistics_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_group_statistics_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 2, 1u << 1, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__group_channels_check(&view->in[0], args->groups, err));
  out[0] = out[1] = hr__group_statistics_desc(&view->in[0], args->groups);
  HR_TRY(before_check(&view->in[1], args, err));
  return hr__shape_like(view, 1, &out[0], err);
}

static void group_statistics_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  hr_id before = node->in[1] == HR_NONE ? HR_NONE : hr__saved_in(a, 1);
  hr_id in[HR_STATS_OPERANDS] = {dy,     hr__saved_in(a, 0),    hr__saved_out(a, 0), hr__saved_out(a, 1),
                                 before, hr__grad_partial(a, 0)};
  hr_id dx = hr__emit(b, &hr_op_group_statistics_bwd, in, HR_STATS_OPERANDS, node->args);
  if (hr__wants_grad(a, 0)) hr__grad_set(a, 0, dx);
  if (before != HR_NONE && hr__wants_grad(a, 1)) hr__grad_add(a, 1, hr__node_out(b, dx, 1));
}

static void group_statistics_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 4.0 * (double)hr_desc_count(&view->in[0]), cost);
}

static size_t group_statistics_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_group_sizes s = hr__group_sizes(&view->in[0], ((const hr_group_statistics_args *)view->args)->groups);
  (void)kind, (void)threads;
  return (size_t)hr__group_floats(&s, false) * sizeof(float);
}

static hr_status group_statistics_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_group_statistics_args *args = view->args;
  const hr_desc *x = &view->in[HR_STATS_X];
  HR_TRY(hr__shape_operands(view, HR_STATS_OPERANDS, 1u << HR_STATS_BEFORE | 1u << HR_STATS_DX_PARTIAL, err));
  HR_TRY(hr__shape_float(view, HR_STATS_X, err));
  HR_TRY(hr__group_channels_check(x, args->groups, err));
  HR_TRY(before_check(&view->in[HR_STATS_BEFORE], args, err));
  hr_desc statistics = hr__group_statistics_desc(x, args->groups);
  HR_TRY(hr__shape_like(view, HR_STATS_DY, &statistics, err));
  HR_TRY(hr__shape_like(view, HR_STATS_ALL, &statistics, err));
  HR_TRY(hr__shape_like(view, HR_STATS_OWN, &statistics, err));
  HR_TRY(hr__shape_like(view, HR_STATS_BEFORE, &statistics, err));
  HR_TRY(hr__shape_like(view, HR_STATS_DX_PARTIAL, x, err));
  out[0] = *x;
  out[1] = view->in[HR_STATS_BEFORE].rank ? statistics : hr__desc1(HR_F32, 0);
  return HR_OK;
}

static void group_statistics_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 3.0 * (double)hr_desc_count(&view->in[HR_STATS_X]), cost);
}

/* Two numbers for each row. */
static size_t group_statistics_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  (void)kind, (void)threads;
  return (size_t)hr_desc_bytes(&view->in[HR_STATS_DY]);
}

/* ---- samples: alone and behind others; volumes, planes, a channel of several pieces ---- */

static const hr_group_statistics_args first = {2, 0, 1e-5f}, behind = {2, 420, 1e-3f}, behind_few = {1, 5, 1e-5f},
                                      each = {3, 0, 1e-5f};

static const hr_sample group_statistics_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 5, {2, 4, 3, 5, 7}}}, .args = &first},
    {.n_in = 2, .in = {{HR_F32, 5, {2, 4, 3, 5, 7}}, {HR_F32, 3, {2, 2, 2}}}, .args = &behind},
    {.n_in = 2, .in = {{HR_F32, 4, {3, 6, 4, 16}}, {HR_F32, 3, {3, 1, 2}}}, .args = &behind_few},
    {.n_in = 2, .in = {{HR_F32, 3, {1, 3, 37001}}}, .args = &each},
};

#define STATISTICS(samples, groups)                                                                                    \
  {                                                                                                                    \
    HR_F32, 3, {                                                                                                       \
      samples, groups, 2                                                                                               \
    }                                                                                                                  \
  }
static const hr_sample group_statistics_bwd_samples[] = {
    {.n_in = HR_STATS_OPERANDS,
     .in = {STATISTICS(2, 2), {HR_F32, 5, {2, 4, 3, 5, 7}}, STATISTICS(2, 2), STATISTICS(2, 2)},
     .args = &first},
    {.n_in = HR_STATS_OPERANDS,
     .in = {STATISTICS(2, 2),
            {HR_F32, 5, {2, 4, 3, 5, 7}},
            STATISTICS(2, 2),
            STATISTICS(2, 2),
            STATISTICS(2, 2),
            {HR_F32, 5, {2, 4, 3, 5, 7}}},
     .args = &behind},
    {.n_in = HR_STATS_OPERANDS,
     .in = {STATISTICS(3, 1), {HR_F32, 4, {3, 6, 4, 16}}, STATISTICS(3, 1), STATISTICS(3, 1), STATISTICS(3, 1)},
     .args = &behind_few},
    {.n_in = HR_STATS_OPERANDS,
     .in = {STATISTICS(1, 3), {HR_F32, 3, {1, 3, 37001}}, STATISTICS(1, 3), STATISTICS(1, 3)},
     .args = &each},
};

const hr_op hr_op_group_statistics = {
    .name = "group_statistics",
    .n_in = 2,
    .n_out = 2,
    .optional = 1u << 1,
    .args_bytes = sizeof(hr_group_statistics_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_OUT(0) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = group_statistics_shape,
    .grad = group_statistics_grad,
    .cost = group_statistics_cost,
    .workspace = group_statistics_workspace,
    .cpu = {.run = hr__group_statistics_run},
    .samples = group_statistics_samples,
    .n_samples = sizeof group_statistics_samples / sizeof *group_statistics_samples,
};

const hr_op hr_op_group_statistics_bwd = {
    .name = "group_statistics_bwd",
    .n_in = HR_STATS_OPERANDS,
    .n_out = 2,
    .optional = 1u << HR_STATS_BEFORE | 1u << HR_STATS_DX_PARTIAL,
    .args_bytes = sizeof(hr_group_statistics_args),
    .alias = {{HR_STATS_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE}, {HR_STATS_X, 0, HR_ALIAS_MAY}},
    .n_alias = 2,
    .axes = HR_AXES_NONE,
    .typed_by = HR_STATS_X,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = group_statistics_bwd_shape,
    .cost = group_statistics_bwd_cost,
    .workspace = group_statistics_bwd_workspace,
    .cpu = {.run = hr__group_statistics_bwd_run},
    .samples = group_statistics_bwd_samples,
    .n_samples = sizeof group_statistics_bwd_samples / sizeof *group_statistics_bwd_samples,
};
