/* rmsnorm over rows as long as the weight and its gradient, in f32 whatever the storage. */
#include "op/rmsnorm.h"

#include <math.h>

#include "graph/adjoint.h"
#include "op/norm_rows.h"
#include "op/shapes.h"

enum { WEIGHTS = 1, BWD_OPERANDS = HR_NORM_OPERANDS(WEIGHTS) };

hr_id hr__rmsnorm(hr_builder *b, hr_id x, hr_id weight, float eps) {
  hr_rmsnorm_args args = {.eps = eps};
  return hr__emit(b, &hr_op_rmsnorm, (hr_id[]){x, weight}, 2, &args);
}

hr_id hr__rmsnorm_raised(hr_builder *b, hr_id x, hr_id weight, float eps) {
  hr_rmsnorm_args args = {.eps = eps, .raised = true};
  return hr__emit(b, &hr_op_rmsnorm, (hr_id[]){x, weight}, 2, &args);
}

/* Operand `in` is a weight that divides the last axis of x. */
static hr_status weight_shape(const hr_op_view *view, int in, const hr_desc *x, hr_error *err) {
  const hr_desc *weight = &view->in[in];
  int64_t columns = hr_desc_columns(x);
  bool divides = weight->rank == 1 && weight->dim[0] > 0 && columns % weight->dim[0] == 0;
  hr_desc expected = hr__desc1(HR_F32, divides ? weight->dim[0] : columns);
  return hr__shape_like_float(view, in, &expected, err);
}

static hr_status rmsnorm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(weight_shape(view, 1, &view->in[0], err));
  out[0] = view->in[0];
  out[1] = hr__desc1(HR_F32, hr__norm_rows(&view->in[0], &view->in[1]));
  return HR_OK;
}

static void rmsnorm_grad(hr_adjoint *a, const hr_node *node) {
  hr__norm_grad(a, &hr_op_rmsnorm_bwd, WEIGHTS, ((const hr_rmsnorm_args *)node->args)->raised);
}

static void rmsnorm_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 4.0 * (double)hr_desc_count(&view->in[0]), cost);
}

/* Elements [column, column + n) of what rows are multiplied by. */
HR_INLINE const float *factors_load(const hr_tensor *weight, bool raised, int64_t column, int64_t n, float *block) {
  const float *w = hr__load(weight, column, n, block);
  if (!raised) return w;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    block[i] = 1.0f + w[i];
  return block;
}

HR_CLONES static void rmsnorm_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *weight = &call->in[1], *y = &call->out[0];
  const hr_rmsnorm_args *args = call->args;
  int64_t columns = weight->desc.dim[0];
  hr_range rows = hr__norm_task(call, task);
  float x_block[HR_BLOCK], w_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    float mean = hr__row_squares(x, row * columns, columns, 0.0f, x_block) / (float)columns;
    float rstd = 1.0f / sqrtf(mean + args->eps);
    ((float *)call->out[1].data)[row] = rstd;
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *from = hr__load(x, at, n, x_block);
      const float *w = factors_load(weight, args->raised, column, n, w_block);
      float *to = hr__target(y, at, x_block);
      if (args->raised || y->desc.dtype == HR_F32) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = w[i] * (from[i] * rstd);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = from[i] * rstd;
        hr__round(y->desc.dtype, n, to);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] *= w[i];
      }
      hr__store(y, at, n, to);
    }
  }
}

static hr_status rmsnorm_run(const hr_call *call) {
  return hr__norm_run(call, rmsnorm_task);
}

/* ---- rmsnorm_bwd: dy, x, w, rstd, dx_partial?, dw_partial? -> dx, dw
 *
 * With n = x * rstd and g = dy * w (raised: dy * (1 + w)), for every row:  dx = rstd * (g - n * mean(g * n)),  dw = sum
 * over rows of dy * n. Each chunk of rows sums its own dw. */

static hr_status rmsnorm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__norm_bwd_begin(view, WEIGHTS, err));
  const hr_desc *dy = &view->in[HR_NORM_DY];
  HR_TRY(weight_shape(view, HR_NORM_W, dy, err));
  hr_desc rstd = hr__desc1(HR_F32, hr__norm_rows(dy, &view->in[HR_NORM_W]));
  HR_TRY(hr__shape_like(view, HR_NORM_STATISTICS, &rstd, err));
  return hr__norm_bwd_results(view, WEIGHTS, out, err);
}

static void rmsnorm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 10.0 * (double)hr_desc_count(&view->in[HR_NORM_X]), cost);
}

/* sum over a row of g * x */
HR_INLINE float row_dot(const hr_call *call, int64_t first, int64_t columns, float *dy_block, float *x_block,
                        float *w_block) {
  const hr_norm_bwd_args *args = call->args;
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *dy = hr__load(&call->in[HR_NORM_DY], first + column, n, dy_block);
    const float *x = hr__load(&call->in[HR_NORM_X], first + column, n, x_block);
    const float *w = factors_load(&call->in[HR_NORM_W], args->raised, column, n, w_block);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += dy[i] * w[i] * x[i];
    total += sum;
  }
  return total;
}

/* dw += dy * n for one block of a row. */
HR_INLINE void dw_add(float *dw, const float *dy, const float *x, float rstd, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    dw[i] += dy[i] * (x[i] * rstd);
}

HR_CLONES static void rmsnorm_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_norm_bwd_args *args = call->args;
  const hr_tensor *dx = &call->out[0], *partial = &call->in[HR_NORM_DX_PARTIAL];
  int64_t columns = call->in[HR_NORM_W].desc.dim[0];
  hr_range rows = hr__norm_chunk(call, task);
  float *dw_sums = hr__norm_sums(call, task);
  float dy_block[HR_BLOCK], x_block[HR_BLOCK], w_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    float rstd = ((const float *)call->in[HR_NORM_STATISTICS].data)[row];
    float dot = args->want_dx ? row_dot(call, row * columns, columns, dy_block, x_block, w_block) : 0.0f;
    float pull = dot * rstd * rstd * rstd / (float)columns; /* rstd * rstd * mean(g * n), what x is multiplied by */
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *dy = hr__load(&call->in[HR_NORM_DY], at, n, dy_block);
      const float *x = hr__load(&call->in[HR_NORM_X], at, n, x_block);
      if (dw_sums) dw_add(dw_sums + column, dy, x, rstd, n);
      if (!args->want_dx) continue;
      const float *w = factors_load(&call->in[HR_NORM_W], args->raised, column, n, w_block);
      const float *sum = partial->data ? hr__load(partial, at, n, partial_block) : NULL;
      float *to = hr__target(dx, at, dy_block);
      if (sum) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = sum[i] + (rstd * dy[i] * w[i] - pull * x[i]);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = rstd * dy[i] * w[i] - pull * x[i];
      }
      hr__store(dx, at, n, to);
    }
  }
}

static hr_status rmsnorm_bwd_run(const hr_call *call) {
  return hr__norm_bwd_run(call, rmsnorm_bwd_task);
}

static const hr_rmsnorm_args sample_args = {.eps = 1e-5f}, raised_args = {.eps = 1e-5f, .raised = true};
static const hr_norm_bwd_args both_wanted = {.want_dx = true, .want_dw = true}, frozen_weight = {.want_dx = true},
                              frozen_rows = {.want_dw = true},
                              raised_wanted = {.want_dx = true, .want_dw = true, .raised = true};

static const hr_sample rmsnorm_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 64}}, {HR_F32, 1, {64}}}, .args = &sample_args},
    {.n_in = 2, .in = {{HR_F32, 3, {3, 5, 37}}, {HR_F32, 1, {37}}}, .args = &sample_args},
    {.n_in = 2, .in = {{HR_F32, 3, {2, 7, 48}}, {HR_F32, 1, {16}}}, .args = &sample_args}, /* three to a row */
    {.n_in = 2, .in = {{HR_F32, 2, {71, 1061}}, {HR_F32, 1, {1061}}}, .args = &sample_args},
    {.n_in = 2, .in = {{HR_F32, 3, {2, 7, 48}}, {HR_F32, 1, {16}}}, .args = &raised_args},
    {.n_in = 2, .in = {{HR_F32, 2, {23, 1061}}, {HR_F32, 1, {1061}}}, .args = &raised_args},
};

static const hr_sample rmsnorm_bwd_samples[] = {
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 16, 64}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 1, {32}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}}},
     .args = &both_wanted},
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 2, {301, 1061}},
            {HR_F32, 2, {301, 1061}},
            {HR_F32, 1, {1061}},
            {HR_F32, 1, {301}},
            {HR_F32, 2, {301, 1061}},
            {HR_F32, 1, {1061}}},
     .args = &both_wanted},
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 7, 48}},
            {HR_F32, 3, {2, 7, 48}},
            {HR_F32, 1, {16}},
            {HR_F32, 1, {42}},
            {HR_F32, 3, {2, 7, 48}},
            {HR_F32, 1, {16}}},
     .args = &both_wanted},
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 2, {19, 37}}, {HR_F32, 2, {19, 37}}, {HR_F32, 1, {37}}, {HR_F32, 1, {19}}},
     .args = &frozen_weight},
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 2, {19, 37}}, {HR_F32, 2, {19, 37}}, {HR_F32, 1, {37}}, {HR_F32, 1, {19}}},
     .args = &frozen_rows},
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 2, {31, 1061}}, {HR_F32, 2, {31, 1061}}, {HR_F32, 1, {1061}}, {HR_F32, 1, {31}}},
     .args = &raised_wanted},
};

const hr_op hr_op_rmsnorm = {
    .name = "rmsnorm",
    .n_in = 2,
    .n_out = 2,
    .light = true,
    .args_bytes = sizeof(hr_rmsnorm_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = rmsnorm_shape,
    .grad = rmsnorm_grad,
    .cost = rmsnorm_cost,
    .cpu = {.run = rmsnorm_run},
    .samples = rmsnorm_samples,
    .n_samples = sizeof rmsnorm_samples / sizeof *rmsnorm_samples,
};

const hr_op hr_op_rmsnorm_bwd = {
    .name = "rmsnorm_bwd",
    .n_in = BWD_OPERANDS,
    .n_out = 1 + WEIGHTS,
    .optional = HR_NORM_OPTIONAL(WEIGHTS),
    .args_bytes = sizeof(hr_norm_bwd_args),
    .alias = {{HR_NORM_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE},
              {HR_NORM_DW_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {HR_NORM_DY, 0, HR_ALIAS_MAY}},
    .n_alias = 3,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = rmsnorm_bwd_shape,
    .cost = rmsnorm_bwd_cost,
    .workspace = hr__norm_bwd_workspace,
    .cpu = {.run = rmsnorm_bwd_run},
    .samples = rmsnorm_bwd_samples,
    .n_samples = sizeof rmsnorm_bwd_samples / sizeof *rmsnorm_bwd_samples,
};
