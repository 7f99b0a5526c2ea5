/* layernorm over the last axis and its gradient, in f32 whatever the storage. */
#include "op/layernorm.h"

#include <math.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

/* Operands of layernorm_bwd. */
enum { BWD_DY, BWD_X, BWD_W, BWD_STATISTICS, BWD_DX_PARTIAL, BWD_DW_PARTIAL, BWD_DB_PARTIAL, BWD_COUNT };
enum { BWD_OPTIONAL = 1u << BWD_DX_PARTIAL | 1u << BWD_DW_PARTIAL | 1u << BWD_DB_PARTIAL };

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
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  (void)node;
  if (dy == HR_NONE) return;
  hr_layernorm_bwd_args args = {
      .want_dx = hr__wants_grad(a, 0), .want_dw = hr__wants_grad(a, 1), .want_db = hr__wants_grad(a, 2)};
  hr_id in[BWD_COUNT] = {
      [BWD_DY] = dy,
      [BWD_X] = hr__saved_in(a, 0),
      [BWD_W] = hr__saved_in(a, 1),
      [BWD_STATISTICS] = hr__saved_out(a, 1),
      [BWD_DX_PARTIAL] = hr__grad_partial(a, 0),
      [BWD_DW_PARTIAL] = hr__grad_partial(a, 1),
      [BWD_DB_PARTIAL] = hr__grad_partial(a, 2),
  };
  hr_id dx = hr__emit(b, &hr_op_layernorm_bwd, in, BWD_COUNT, &args);
  if (args.want_dx) hr__grad_set(a, 0, dx);
  if (args.want_dw) hr__grad_set(a, 1, hr__node_out(b, dx, 1));
  if (args.want_db) hr__grad_set(a, 2, hr__node_out(b, dx, 2));
}

static void layernorm_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 8.0 * (double)hr_desc_count(&view->in[0]), cost);
}

static int64_t layernorm_rows_per_task(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

HR_INLINE float row_sum(const hr_tensor *x, int64_t first, int64_t columns, float *scratch) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *from = hr__load(x, first + column, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += from[i];
    total += sum;
  }
  return total;
}

/* sum of (x - mean)^2: the mean is known, so that nothing cancels */
HR_INLINE float row_squares(const hr_tensor *x, int64_t first, int64_t columns, float mean, float *scratch) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *from = hr__load(x, first + column, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += (from[i] - mean) * (from[i] - mean);
    total += sum;
  }
  return total;
}

HR_CLONES static void layernorm_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *weight = &call->in[1], *bias = &call->in[2], *y = &call->out[0];
  const hr_layernorm_args *args = call->args;
  int64_t columns = hr_desc_columns(&x->desc);
  hr_range rows = hr__chunk(hr_desc_rows(&x->desc), layernorm_rows_per_task(columns), task);
  float x_block[HR_BLOCK], w_block[HR_BLOCK], b_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    float mean = row_sum(x, row * columns, columns, x_block) / (float)columns;
    float variance = row_squares(x, row * columns, columns, mean, x_block) / (float)columns;
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
  const hr_desc *x = &call->in[0].desc;
  int64_t tasks = hr__chunks(hr_desc_rows(x), layernorm_rows_per_task(hr_desc_columns(x)));
  hr__pool_run(call->device->pool, call->threads, tasks, layernorm_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- layernorm_bwd: dy, x, w, statistics, dx_partial?, dw_partial?, db_partial? -> dx, dw, db
 *
 * With n = (x - mean) * rstd and g = dy * w, for every row:
 *   dx = rstd * (g - mean(g) - n * mean(g * n));  dw = sum over rows of dy * n;  db = sum over rows of dy
 * Rows fall into chunks; each sums its own dw and db in the workspace, and a second round adds these sums in order. */

enum { BWD_CHUNKS_MAX = 32, BWD_CHUNK_ROWS_MIN = 8 };

static hr_status layernorm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_layernorm_bwd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, BWD_COUNT, BWD_OPTIONAL, err));
  HR_TRY(hr__shape_float(view, BWD_DY, err));
  const hr_desc *dy = &view->in[BWD_DY], *w = &view->in[BWD_W];
  hr_desc weight = hr__desc1(HR_F32, hr_desc_columns(dy)), statistics = statistics_desc(dy);
  HR_TRY(hr__shape_like(view, BWD_X, dy, err));
  HR_TRY(hr__shape_like_float(view, BWD_W, &weight, err));
  HR_TRY(hr__shape_like(view, BWD_STATISTICS, &statistics, err));
  out[0] = args->want_dx ? *dy : hr__desc1(dy->dtype, 0);
  out[1] = args->want_dw ? *w : hr__desc1(w->dtype, 0);
  out[2] = args->want_db ? *w : hr__desc1(w->dtype, 0);
  HR_TRY(hr__shape_like(view, BWD_DX_PARTIAL, &out[0], err));
  HR_TRY(hr__shape_like(view, BWD_DW_PARTIAL, &out[1], err));
  return hr__shape_like(view, BWD_DB_PARTIAL, &out[2], err);
}

static void layernorm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 14.0 * (double)hr_desc_count(&view->in[BWD_X]), cost);
}

static bool wants_sums(const hr_layernorm_bwd_args *args) {
  return args->want_dw || args->want_db;
}

static int64_t bwd_chunk_rows(int64_t rows) {
  int64_t even = hr__chunks(rows, BWD_CHUNKS_MAX);
  return even > BWD_CHUNK_ROWS_MIN ? even : BWD_CHUNK_ROWS_MIN;
}

/* dw and db of every chunk, or block of rows, f32 [chunks, 2, columns]. */
static size_t layernorm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  int64_t rows = hr_desc_rows(&view->in[BWD_X]);
  int64_t rows_each = kind == HR_CUDA ? hr__layernorm_sum_rows(rows) : bwd_chunk_rows(rows);
  (void)threads;
  if (!wants_sums(view->args)) return 0;
  return (size_t)(hr__chunks(rows, rows_each) * 2 * hr_desc_columns(&view->in[BWD_X])) * sizeof(float);
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
    const float *dy = hr__load(&call->in[BWD_DY], first + column, n, dy_block);
    const float *x = hr__load(&call->in[BWD_X], first + column, n, x_block);
    const float *w = hr__load(&call->in[BWD_W], column, n, w_block);
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
  const hr_layernorm_bwd_args *args = call->args;
  const hr_tensor *dx = &call->out[0], *partial = &call->in[BWD_DX_PARTIAL];
  const hr_desc *whole = &call->in[BWD_X].desc;
  int64_t columns = hr_desc_columns(whole), row_count = hr_desc_rows(whole);
  hr_range rows = hr__chunk(row_count, bwd_chunk_rows(row_count), task);
  float *sums = wants_sums(args) ? (float *)call->workspace + task * 2 * columns : NULL;
  float dy_block[HR_BLOCK], x_block[HR_BLOCK], w_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;

  if (sums) memset(sums, 0, (size_t)(2 * columns) * sizeof *sums);
  for (int64_t row = rows.first; row < rows.end; row++) {
    const float *statistics = (const float *)call->in[BWD_STATISTICS].data + 2 * row;
    float mean = statistics[0], rstd = statistics[1];
    row_dots dots = {0.0f, 0.0f};
    if (args->want_dx) dots = row_dot(call, row * columns, columns, mean, rstd, dy_block, x_block, w_block);
    float g_mean = dots.g / (float)columns, gn_mean = dots.gn / (float)columns;
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *dy = hr__load(&call->in[BWD_DY], at, n, dy_block);
      const float *x = hr__load(&call->in[BWD_X], at, n, x_block);
      if (sums) sums_add(sums + column, sums + columns + column, dy, x, mean, rstd, n);
      if (!args->want_dx) continue;
      const float *w = hr__load(&call->in[BWD_W], column, n, w_block);
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

/* Adds up the chunks' sums of dw (which = 0) or db (1) for one block of columns. */
HR_INLINE void sums_reduce(const hr_call *call, int which, int64_t at) {
  const hr_tensor *to_tensor = &call->out[1 + which], *partial = &call->in[BWD_DW_PARTIAL + which];
  int64_t columns = hr_desc_columns(&call->in[BWD_X].desc), rows = hr_desc_rows(&call->in[BWD_X].desc);
  int64_t chunks = hr__chunks(rows, bwd_chunk_rows(rows)), n = hr__min(HR_BLOCK, columns - at);
  float total[HR_BLOCK] = {0}, block[HR_BLOCK];

  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    const float *sums = (const float *)call->workspace + (2 * chunk + which) * columns + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      total[i] += sums[i];
  }
  float *to = hr__target(to_tensor, at, block);
  const float *before = partial->data ? hr__load(partial, at, n, block) : NULL;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    to[i] = before ? before[i] + total[i] : total[i];
  hr__store(to_tensor, at, n, to);
}

HR_CLONES static void layernorm_bwd_reduce(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_layernorm_bwd_args *args = call->args;
  (void)worker;
  if (args->want_dw) sums_reduce(call, 0, task * HR_BLOCK);
  if (args->want_db) sums_reduce(call, 1, task * HR_BLOCK);
}

static hr_status layernorm_bwd_run(const hr_call *call) {
  const hr_desc *x = &call->in[BWD_X].desc;
  int64_t rows = hr_desc_rows(x);
  void *arg = (void *)(uintptr_t)call;
  hr__pool_run(call->device->pool, call->threads, hr__chunks(rows, bwd_chunk_rows(rows)), layernorm_bwd_task, arg);
  if (wants_sums(call->args))
    hr__pool_run(call->device->pool, call->threads, hr__chunks(hr_desc_columns(x), HR_BLOCK), layernorm_bwd_reduce,
                 arg);
  return HR_OK;
}

static const hr_layernorm_args sample_args = {1e-5f};
static const hr_layernorm_bwd_args all_wanted = {true, true, true}, frozen = {true, false, false},
                                   frozen_rows = {false, true, true}, only_bias = {true, false, true};

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
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 3, {2, 16, 64}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 2, {32, 2}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 1, {64}}},
     .args = &all_wanted},
    {.n_in = BWD_COUNT,
     .in = {BWD_ROWS(301, 1061), {HR_F32, 2, {301, 1061}}, {HR_F32, 1, {1061}}, {HR_F32, 1, {1061}}},
     .args = &all_wanted},
    {.n_in = BWD_COUNT, .in = {BWD_ROWS(19, 37)}, .args = &frozen},
    {.n_in = BWD_COUNT, .in = {BWD_ROWS(19, 37)}, .args = &frozen_rows},
    {.n_in = BWD_COUNT, .in = {BWD_ROWS(19, 37), {0}, {0}, {HR_F32, 1, {37}}}, .args = &only_bias},
};

const hr_op hr_op_layernorm = {
    .name = "layernorm",
    .n_in = 3,
    .n_out = 2,
    .args_bytes = sizeof(hr_layernorm_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_ROWS,
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
    .n_in = BWD_COUNT,
    .n_out = 3,
    .optional = BWD_OPTIONAL,
    .args_bytes = sizeof(hr_layernorm_bwd_args),
    .alias = {{BWD_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE},
              {BWD_DW_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {BWD_DB_PARTIAL, 2, HR_ALIAS_ACCUMULATE},
              {BWD_DY, 0, HR_ALIAS_MAY}},
    .n_alias = 4,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = layernorm_bwd_shape,
    .cost = layernorm_bwd_cost,
    .workspace = layernorm_bwd_workspace,
    .cpu = {.run = layernorm_bwd_run},
    .samples = layernorm_bwd_samples,
    .n_samples = sizeof layernorm_bwd_samples / sizeof *layernorm_bwd_samples,
};
