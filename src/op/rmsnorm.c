/* rmsnorm over rows as long as the weight and its gradient, in f32 whatever the storage. */
#include "op/rmsnorm.h"

#include <math.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

/* Operands of rmsnorm_bwd. */
enum { BWD_DY, BWD_X, BWD_W, BWD_RSTD, BWD_DX_PARTIAL, BWD_DW_PARTIAL, BWD_COUNT };

hr_id hr__rmsnorm(hr_builder *b, hr_id x, hr_id weight, float eps) {
  hr_rmsnorm_args args = {eps};
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
  out[1] = hr__desc1(HR_F32, hr__rmsnorm_rows(&view->in[0], &view->in[1]));
  return HR_OK;
}

static void rmsnorm_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  (void)node;
  if (dy == HR_NONE) return;
  hr_rmsnorm_bwd_args args = {.want_dx = hr__wants_grad(a, 0), .want_dw = hr__wants_grad(a, 1)};
  hr_id in[BWD_COUNT] = {
      [BWD_DY] = dy,
      [BWD_X] = hr__saved_in(a, 0),
      [BWD_W] = hr__saved_in(a, 1),
      [BWD_RSTD] = hr__saved_out(a, 1),
      [BWD_DX_PARTIAL] = hr__grad_partial(a, 0),
      [BWD_DW_PARTIAL] = hr__grad_partial(a, 1),
  };
  hr_id dx = hr__emit(b, &hr_op_rmsnorm_bwd, in, BWD_COUNT, &args);
  if (args.want_dx) hr__grad_set(a, 0, dx);
  if (args.want_dw) hr__grad_set(a, 1, hr__node_out(b, dx, 1));
}

static void rmsnorm_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 4.0 * (double)hr_desc_count(&view->in[0]), cost);
}

static int64_t rmsnorm_rows_per_task(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

HR_INLINE float row_square_sum(const hr_tensor *x, int64_t first, int64_t columns, float *scratch) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *from = hr__load(x, first + column, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += from[i] * from[i];
    total += sum;
  }
  return total;
}

/* As in the public models: normalised in f32, rounded to the type of x, then multiplied by the weight. */
HR_CLONES static void rmsnorm_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *weight = &call->in[1], *y = &call->out[0];
  const hr_rmsnorm_args *args = call->args;
  int64_t columns = weight->desc.dim[0];
  hr_range rows = hr__chunk(hr__rmsnorm_rows(&x->desc, &weight->desc), rmsnorm_rows_per_task(columns), task);
  float x_block[HR_BLOCK], w_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    float mean = row_square_sum(x, row * columns, columns, x_block) / (float)columns;
    float rstd = 1.0f / sqrtf(mean + args->eps);
    ((float *)call->out[1].data)[row] = rstd;
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *from = hr__load(x, at, n, x_block);
      const float *w = hr__load(weight, column, n, w_block);
      float *to = hr__target(y, at, x_block);
      if (y->desc.dtype == HR_F32) {
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
  const hr_desc *x = &call->in[0].desc, *weight = &call->in[1].desc;
  int64_t tasks = hr__chunks(hr__rmsnorm_rows(x, weight), rmsnorm_rows_per_task(weight->dim[0]));
  hr__pool_run(call->device->pool, call->threads, tasks, rmsnorm_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- rmsnorm_bwd: dy, x, w, rstd, dx_partial?, dw_partial? -> dx, dw
 *
 * With n = x * rstd and g = dy * w, for every row:  dx = rstd * (g - n * mean(g * n)),  dw = sum over rows of dy * n.
 * Rows fall into chunks; each sums its own dw in the workspace, and a second round adds these sums in order. */

enum { BWD_CHUNKS_MAX = 32, BWD_CHUNK_ROWS_MIN = 8 };

static hr_status rmsnorm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_rmsnorm_bwd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, BWD_COUNT, 1u << BWD_DX_PARTIAL | 1u << BWD_DW_PARTIAL, err));
  HR_TRY(hr__shape_float(view, BWD_DY, err));
  const hr_desc *dy = &view->in[BWD_DY];
  HR_TRY(hr__shape_like(view, BWD_X, dy, err));
  HR_TRY(weight_shape(view, BWD_W, dy, err));
  hr_desc rstd = hr__desc1(HR_F32, hr__rmsnorm_rows(dy, &view->in[BWD_W]));
  HR_TRY(hr__shape_like(view, BWD_RSTD, &rstd, err));
  out[0] = args->want_dx ? *dy : hr__desc1(dy->dtype, 0);
  out[1] = args->want_dw ? view->in[BWD_W] : hr__desc1(view->in[BWD_W].dtype, 0);
  HR_TRY(hr__shape_like(view, BWD_DX_PARTIAL, &out[0], err));
  return hr__shape_like(view, BWD_DW_PARTIAL, &out[1], err);
}

static void rmsnorm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 10.0 * (double)hr_desc_count(&view->in[BWD_X]), cost);
}

static int64_t bwd_chunk_rows(int64_t rows) {
  int64_t even = hr__chunks(rows, BWD_CHUNKS_MAX);
  return even > BWD_CHUNK_ROWS_MIN ? even : BWD_CHUNK_ROWS_MIN;
}

/* dw of every chunk, or block of rows, f32 [chunks, columns]. */
static size_t rmsnorm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  int64_t rows = hr__rmsnorm_rows(&view->in[BWD_X], &view->in[BWD_W]);
  int64_t rows_each = kind == HR_CUDA ? hr__rmsnorm_sum_rows(rows) : bwd_chunk_rows(rows);
  (void)threads;
  if (!((const hr_rmsnorm_bwd_args *)view->args)->want_dw) return 0;
  return (size_t)(hr__chunks(rows, rows_each) * view->in[BWD_W].dim[0]) * sizeof(float);
}

/* sum over a row of dy * w * x */
HR_INLINE float row_dot(const hr_call *call, int64_t first, int64_t columns, float *dy_block, float *x_block,
                        float *w_block) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *dy = hr__load(&call->in[BWD_DY], first + column, n, dy_block);
    const float *x = hr__load(&call->in[BWD_X], first + column, n, x_block);
    const float *w = hr__load(&call->in[BWD_W], column, n, w_block);
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
  const hr_rmsnorm_bwd_args *args = call->args;
  const hr_tensor *dx = &call->out[0], *partial = &call->in[BWD_DX_PARTIAL];
  const hr_desc *weight = &call->in[BWD_W].desc;
  int64_t columns = weight->dim[0], row_count = hr__rmsnorm_rows(&call->in[BWD_X].desc, weight);
  hr_range rows = hr__chunk(row_count, bwd_chunk_rows(row_count), task);
  float *dw_sums = args->want_dw ? (float *)call->workspace + task * columns : NULL;
  float dy_block[HR_BLOCK], x_block[HR_BLOCK], w_block[HR_BLOCK], partial_block[HR_BLOCK];
  (void)worker;

  if (dw_sums) memset(dw_sums, 0, (size_t)columns * sizeof *dw_sums);
  for (int64_t row = rows.first; row < rows.end; row++) {
    float rstd = ((const float *)call->in[BWD_RSTD].data)[row];
    float dot = args->want_dx ? row_dot(call, row * columns, columns, dy_block, x_block, w_block) : 0.0f;
    float pull = dot * rstd * rstd * rstd / (float)columns; /* rstd * rstd * mean(g * n), what x is multiplied by */
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *dy = hr__load(&call->in[BWD_DY], at, n, dy_block);
      const float *x = hr__load(&call->in[BWD_X], at, n, x_block);
      if (dw_sums) dw_add(dw_sums + column, dy, x, rstd, n);
      if (!args->want_dx) continue;
      const float *w = hr__load(&call->in[BWD_W], column, n, w_block);
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

/* Adds up the chunks' sums for one block of columns. */
HR_CLONES static void rmsnorm_bwd_reduce(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *dw = &call->out[1], *partial = &call->in[BWD_DW_PARTIAL];
  int64_t columns = hr_desc_columns(&dw->desc), rows = hr__rmsnorm_rows(&call->in[BWD_X].desc, &dw->desc);
  int64_t chunks = hr__chunks(rows, bwd_chunk_rows(rows));
  int64_t at = task * HR_BLOCK, n = hr__min(HR_BLOCK, columns - at);
  float total[HR_BLOCK] = {0}, block[HR_BLOCK];
  (void)worker;

  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    const float *sums = (const float *)call->workspace + chunk * columns + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      total[i] += sums[i];
  }
  float *to = hr__target(dw, at, block);
  const float *before = partial->data ? hr__load(partial, at, n, block) : NULL;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    to[i] = before ? before[i] + total[i] : total[i];
  hr__store(dw, at, n, to);
}

static hr_status rmsnorm_bwd_run(const hr_call *call) {
  const hr_desc *weight = &call->in[BWD_W].desc;
  const hr_rmsnorm_bwd_args *args = call->args;
  int64_t rows = hr__rmsnorm_rows(&call->in[BWD_X].desc, weight);
  void *arg = (void *)(uintptr_t)call;
  hr__pool_run(call->device->pool, call->threads, hr__chunks(rows, bwd_chunk_rows(rows)), rmsnorm_bwd_task, arg);
  if (args->want_dw)
    hr__pool_run(call->device->pool, call->threads, hr__chunks(weight->dim[0], HR_BLOCK), rmsnorm_bwd_reduce, arg);
  return HR_OK;
}

static const hr_rmsnorm_args sample_args = {1e-5f};
static const hr_rmsnorm_bwd_args both_wanted = {true, true}, frozen_weight = {true, false}, frozen_rows = {false, true};

static const hr_sample rmsnorm_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 64}}, {HR_F32, 1, {64}}}, .args = &sample_args},
    {.n_in = 2, .in = {{HR_F32, 3, {3, 5, 37}}, {HR_F32, 1, {37}}}, .args = &sample_args},
    {.n_in = 2, .in = {{HR_F32, 3, {2, 7, 48}}, {HR_F32, 1, {16}}}, .args = &sample_args}, /* three to a row */
    {.n_in = 2, .in = {{HR_F32, 2, {71, 1061}}, {HR_F32, 1, {1061}}}, .args = &sample_args},
};

static const hr_sample rmsnorm_bwd_samples[] = {
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 3, {2, 16, 64}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}},
            {HR_F32, 1, {32}},
            {HR_F32, 3, {2, 16, 64}},
            {HR_F32, 1, {64}}},
     .args = &both_wanted},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {301, 1061}},
            {HR_F32, 2, {301, 1061}},
            {HR_F32, 1, {1061}},
            {HR_F32, 1, {301}},
            {HR_F32, 2, {301, 1061}},
            {HR_F32, 1, {1061}}},
     .args = &both_wanted},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 3, {2, 7, 48}},
            {HR_F32, 3, {2, 7, 48}},
            {HR_F32, 1, {16}},
            {HR_F32, 1, {42}},
            {HR_F32, 3, {2, 7, 48}},
            {HR_F32, 1, {16}}},
     .args = &both_wanted},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {19, 37}}, {HR_F32, 2, {19, 37}}, {HR_F32, 1, {37}}, {HR_F32, 1, {19}}},
     .args = &frozen_weight},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {19, 37}}, {HR_F32, 2, {19, 37}}, {HR_F32, 1, {37}}, {HR_F32, 1, {19}}},
     .args = &frozen_rows},
};

const hr_op hr_op_rmsnorm = {
    .name = "rmsnorm",
    .n_in = 2,
    .n_out = 2,
    .args_bytes = sizeof(hr_rmsnorm_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_ROWS,
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
    .n_in = BWD_COUNT,
    .n_out = 2,
    .optional = 1u << BWD_DX_PARTIAL | 1u << BWD_DW_PARTIAL,
    .args_bytes = sizeof(hr_rmsnorm_bwd_args),
    .alias = {{BWD_DX_PARTIAL, 0, HR_ALIAS_ACCUMULATE},
              {BWD_DW_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {BWD_DY, 0, HR_ALIAS_MAY}},
    .n_alias = 3,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = rmsnorm_bwd_shape,
    .cost = rmsnorm_bwd_cost,
    .workspace = rmsnorm_bwd_workspace,
    .cpu = {.run = rmsnorm_bwd_run},
    .samples = rmsnorm_bwd_samples,
    .n_samples = sizeof rmsnorm_bwd_samples / sizeof *rmsnorm_bwd_samples,
};
