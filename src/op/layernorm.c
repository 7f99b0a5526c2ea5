/* layernorm over the last axis and its gradient, in f32 whatever the storage. */
#include "op/layernorm.h"

#include <math.h>

#include "graph/adjoint.h"
#include "op/norm_rows.h"
#include "op/shapes.h"

enum { WEIGHTS = 2, BWD_OPERANDS = HR_NORM_OPERANDS(WEIGHTS) };

hr_id hr__layernorm(hr_builder *b, hr_id x, hr_id weight, hr_id bias, float eps) {
  hr_layernorm_args args = {eps};
  return hr__emit(b, &hr_op_layernorm, (hr_id[]){x, weight, bias}, 3, &args);
}

static hr_desc statistics_desc(const hr_desc *x) {
  return hr__desc2(HR_F32, hr_desc_rows(x), 2);
}

static hr_status layernorm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc weight = hr__desc1(HR_F32, hr_desc_columns(&view->in[0]));
  HR_TRY(hr__shape_like_float(view, 1, &weight, err));
  HR_TRY(hr__shape_like(view, 2, &view->in[1], err));
  out[0] = view->in[0];
  out[1] = statistics_desc(&view->in[0]);
  return HR_OK;
}

static void layernorm_grad(hr_adjoint *a, const hr_node *node) {
  (void)node;
  hr__norm_grad(a, &hr_op_layernorm_bwd, WEIGHTS, false);
}

static void layernorm_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 8.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void layernorm_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *weight = &call->in[1], *bias = &call->in[2], *y = &call->out[0];
  const hr_layernorm_args *args = call->args;
  int64_t columns = hr_desc_columns(&x->desc);
  hr_range rows = hr__norm_task(call, task);
  float x_block[HR_BLOCK], w_block[HR_BLOCK], b_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    float mean = hr__row_sum(x, row * columns, columns, x_block) / (float)columns;
    float variance = hr__row_squares(x, row * columns, columns, mean, x_block) / (float)columns;
    float rstd = 1.0f / sqrtf(variance + args->eps), *statistics = (float *)call->out[1].data + 2 * row;
    statistics[0] = mean;
    statistics[1] = rstd;
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *from = hr__load(x, at, n, x_block);
      const float *w = hr__load(weight, column, n, w_block), *b = hr__load(bias, column, n, b_block);
      float *to = hr__target(y, at, x_block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] = (from[i] - mean) * rstd * w[i] + b[i];
      hr__store(y, at, n, to);
    }
  }
}

static hr_status layernorm_run(const hr_call *call) {
  return hr__norm_run(call, layernorm_task);
}

/* ---- layernorm_bwd: dy, x, w, statistics, dx_partial?, dw_partial?, db_partial? -> dx, dw, db
 *
 * With n = (x - mean) * rstd and g = dy * w, for every row:
 *   dx = rstd * (g - mean(g) - n * mean(g * n));  dw = sum over rows of dy * n;  db = sum over rows of dy
 * Each chunk of rows sums its own dw and db. */

static hr_status layernorm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__norm_bwd_begin(view, WEIGHTS, err));
  const hr_desc *dy = &view->in[HR_NORM_DY];
  hr_desc weight = hr__desc1(HR_F32, hr_desc_columns(dy)), statistics = statistics_desc(dy);
  HR_TRY(hr__shape_like_float(view, HR_NORM_W, &weight, err));
  HR_TRY(hr__shape_like(view, HR_NORM_STATISTICS, &statistics, err));
  return hr__norm_bwd_results(view, WEIGHTS, out, err);
}

static void layernorm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 14.0 * (double)hr_desc_count(&view->in[HR_NORM_X]), cost);
}

/* Sums over a row: of g, and of g * n. */
typedef struct row_dots {
  float g, gn;
} row_dots;

HR_INLINE row_dots row_dot(const hr_call *call, int64_t first, int64_t columns, float mean, float rstd, float *dy_block,
                           float *x_block, float *w_block) {
  row_dots total = {0.0f, 0.0f};
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *dy = hr__load(&call->in[HR_NORM_DY], first + column, n, dy_block);
    const float *x = hr__load(&call->in[HR_NORM_X], first + column, n, x_block);
    const float *w = hr__load(&call->in[HR_NORM_W], column, n, w_block);
    float g_sum = 0.0f, gn_sum = 0.0f;
#pragma omp simd reduction(+ : g_sum, gn_sum)
    for (int64_t i = 0; i < n; i++) {
      float g = dy[i] * w[i];
      g_sum += g;
      gn_sum += g * ((x[i] - mean) * rstd);
    }
    total.g += g_sum;
    total.gn += gn_sum;
  }
  return total;
}

/* dw += dy * n and db += dy for one block of a row. */
HR_INLINE void sums_add(float *dw, float *db, const float *dy, const float *x, float mean, float rstd, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    dw[i] += dy[i] * ((x[i] - mean) * rstd);
    db[i] += dy[i];
  }
}

HR_CLONES static void layernorm_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_norm_bwd_args *args = call->args;
  const hr_tensor *dx = &call->out[0], *partial = &call->in[HR_NORM_DX_PARTIAL];
  int64_t columns = hr_desc_columns(&call->in[HR_NORM_X].desc);
  hr_range rows = hr__norm_chunk(call, task);
  float *sums = hr__norm_sums(call, task);
  float dy_block[HR_BLOCK], x_block[HR_BLOCK], w_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    const float *statistics = (const float *)call->in[HR_NORM_STATISTICS].data + 2 * row;
    float mean = statistics[0], rstd = statistics[1];
    row_dots dots = {0.0f, 0.0f};
    if (args->want_dx) dots = row_dot(call, row * columns, columns, mean, rstd, dy_block, x_block, w_block);
    float g_mean = dots.g / (float)columns, gn_mean = dots.gn / (float)columns;
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *dy = hr__load(&call->in[HR_NORM_DY], at, n, dy_block);
      const float *x = hr__load(&call->in[HR_NORM_X], at, n, x_block);
      if (sums) sums_add(sums + column, sums + columns + column, dy, x, mean, rstd, n);
      if (!args->want_dx) continue;
      const float *w = hr__load(&call->in[HR_NORM_W], column, n, w_block);
      const float *before = partial->data ? hr__load(partial, at, n, partial_block) : NULL;
      float *to = hr__target(dx, at, dy_block);
      if (before) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = before[i] + rstd * (dy[i] * w[i] - g_mean - (x[i] - mean) * rstd * gn_mean);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
          to[i] = rstd * (dy[i] * w[i] - g_mean - (x[i] - mean) * rstd * gn_mean);
      }
      hr__store(dx, at, n, to);
    }
  }
}

static hr_status layernorm_bwd_run(const hr_call *call) {
  return hr__norm_bwd_run(call, layernorm_bwd_task);
}

static const hr_layernorm_args sample_args = {1e-5f};
static const hr_norm_bwd_args all_wanted = {.want_dx = true, .want_dw = true, .want_db = true},
                              frozen = {.want_dx = true}, frozen_rows = {.want_dw = true, .want_db = true},
                              only_bias = {.want_dx = true, .want_db = true};

static const hr_sample layernorm_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 3, {2, 16, 64}}, {HR_F32, 1, {64}}, {HR_F32, 1, {64}}}, .args = &sample_args},
    {.n_in = 3, .in = {{HR_F32, 3, {3, 5, 37}}, {HR_F32, 1, {37}}, {HR_F32, 1, {37}}}, .args = &sample_args},
    {.n_in = 3, .in = {{HR_F32, 2, {71, 1061}}, {HR_F32, 1, {1061}}, {HR_F32, 1, {1061}}}, .args = &sample_args},
};

#define BWD_ROWS(rows, columns)                                                                                        \
  {HR_F32, 2, {rows, columns}}, {HR_F32, 2, {rows, columns}}, {HR_F32, 1, {columns}}, {                                \
    HR_F32, 2, {                                                                                                       \
      rows, 2                                                                                                          \
    }                                                                                                                  \
  }
static const hr_sample layernorm_bwd_samples[] = {
    {.n_in = BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 16, 64}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 2, {32, 2}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 1, {64}}},
     .args = &all_wanted},
    {.n_in = BWD_OPERANDS,
     .in = {BWD_ROWS(301, 1061), {HR_F32, 2, {301, 1061}}, {HR_F32, 1, {1061}}, {HR_F32, 1, {1061}}},
     .args = &all_wanted},
    {.n_in = BWD_OPERANDS, .in = {BWD_ROWS(19, 37)}, .args = &frozen},
    {.n_in = BWD_OPERANDS, .in = {BWD_ROWS(19, 37)}, .args = &frozen_rows},
    {.n_in = BWD_OPERANDS, .in = {BWD_ROWS(19, 37), {0}, {0}, {HR_F32, 1, {37}}}, .args = &only_bias},
};

const hr_op hr_op_layernorm = {
    .name = "layernorm",
    .n_in = 3,
    .n_out = 2,
    .light = true,
    .args_bytes = sizeof(hr_layernorm_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1 | 1u << 2,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = layernorm_shape,
    .grad = layernorm_grad,
    .cost = layernorm_cost,
    .cpu = {.run = layernorm_run},
    .samples = layernorm_samples,
    .n_samples = sizeof layernorm_samples / sizeof *layernorm_samples,
};

const hr_op hr_op_layernorm_bwd = {
    .name = "layernorm_bwd",
    .n_in = BWD_OPERANDS,
    .n_out = 1 + WEIGHTS,
    .optional = HR_NORM_OPTIONAL(WEIGHTS),
    .args_bytes = sizeof(hr_norm_bwd_args),
    .alias = {{HR_NORM_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE},
              {HR_NORM_DW_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {HR_NORM_DB_PARTIAL, 2, HR_ALIAS_ACCUMULATE},
              {HR_NORM_DY, 0, HR_ALIAS_MAY}},
    .n_alias = 4,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = layernorm_bwd_shape,
    .cost = layernorm_bwd_cost,
    .workspace = hr__norm_bwd_workspace,
    .cpu = {.run = layernorm_bwd_run},
    .samples = layernorm_bwd_samples,
    .n_samples = sizeof layernorm_bwd_samples / sizeof *layernorm_bwd_samples,
};
