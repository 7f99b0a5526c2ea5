/* add_rows: the same rows added to every sample, and the gradient of these rows; see add_rows.h. */
#include "op/add_rows.h"

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { DW_PARTIAL = 1, DW_ROWS = 64 /* summed in f32 before they join the total in f64 */ };

hr_id hr__add_rows(hr_builder *b, hr_id x, hr_id weight, int64_t period) {
  hr_add_rows_args args = {period};
  return hr__emit(b, &hr_op_add_rows, (hr_id[]){x, weight}, 2, &args);
}

/* What both ops check alike: samples of x or dy are whole periods, so that the batch may be cut. */
static hr_status period_check(const hr_desc *x, int64_t period, int64_t rows, hr_error *err) {
  if (x->rank < 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x has rank %d, expected at least 2", x->rank);
  int64_t each = hr_desc_rows(x) / x->dim[0];
  if (period >= 1 && period <= rows && each % period == 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                  "samples of %lld rows do not go with a period of %lld out of %lld rows", (long long)each,
                  (long long)period, (long long)rows);
}

static hr_status add_rows_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 1, err));
  const hr_desc *x = &view->in[0], *w = &view->in[1];
  if (w->rank != 2 || w->dim[1] != hr_desc_columns(x))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the rows to add are not [rows, %lld]",
                    (long long)hr_desc_columns(x));
  HR_TRY(period_check(x, ((const hr_add_rows_args *)view->args)->period, w->dim[0], err));
  out[0] = *x;
  return HR_OK;
}

static void add_rows_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, 0)) hr__grad_add(a, 0, dy);
  if (!hr__wants_grad(a, 1)) return;
  hr_add_rows_dw_args args = {((const hr_add_rows_args *)node->args)->period, b->graph->values[node->in[1]].desc.dim[0],
                              hr__grad_dtype(a, 1)};
  hr_id in[] = {dy, hr__grad_partial(a, 1)};
  hr__grad_set(a, 1, hr__emit(b, &hr_op_add_rows_dw, in, 2, &args));
}

/* Of W only the period is read, and from a cache. */
static void add_rows_cost(const hr_op_view *view, hr_cost *cost) {
  hr_op_view rows = *view;
  rows.n_in = 1;
  hr__cost_stream(&rows, (double)hr_desc_count(&view->in[0]), cost);
}

static int64_t add_rows_per_task(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

HR_CLONES static void add_rows_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *weight = &call->in[1], *y = &call->out[0];
  int64_t columns = hr_desc_columns(&x->desc), period = ((const hr_add_rows_args *)call->args)->period;
  hr_range rows = hr__chunk(hr_desc_rows(&x->desc), add_rows_per_task(columns), task);
  float x_block[HR_BLOCK], w_block[HR_BLOCK];
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    for (int64_t column = 0; column < columns; column += HR_BLOCK) {
      int64_t n = hr__min(HR_BLOCK, columns - column), at = row * columns + column;
      const float *from = hr__load(x, at, n, x_block);
      const float *w = hr__load(weight, row % period * columns + column, n, w_block);
      float *to = hr__target(y, at, x_block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] = from[i] + w[i];
      hr__store(y, at, n, to);
    }
  }
}

static hr_status add_rows_run(const hr_call *call) {
  const hr_desc *x = &call->in[0].desc;
  int64_t tasks = hr__chunks(hr_desc_rows(x), add_rows_per_task(hr_desc_columns(x)));
  hr__pool_run(call->device->pool, call->threads, tasks, add_rows_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- add_rows_dw: dy, partial? -> dW[t] = (partial[t] +) sum of dy where row mod period = t ---- */

static hr_status add_rows_dw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_add_rows_dw_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 2, 1u << DW_PARTIAL, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(period_check(&view->in[0], args->period, args->rows, err));
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(args->dtype));
  out[0] = hr__desc2(args->dtype, args->rows, hr_desc_columns(&view->in[0]));
  return hr__shape_like(view, DW_PARTIAL, &out[0], err);
}

static void add_rows_dw_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->in[0]), cost);
}

/* One block of columns of one row of dW; tasks go over blocks, then rows. */
HR_CLONES static void add_rows_dw_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_add_rows_dw_args *args = call->args;
  const hr_tensor *dy = &call->in[0], *partial = &call->in[DW_PARTIAL], *dw = &call->out[0];
  int64_t columns = hr_desc_columns(&dy->desc), rows = hr_desc_rows(&dy->desc), blocks = hr__chunks(columns, HR_BLOCK);
  int64_t row = task / blocks, column = task % blocks * HR_BLOCK, n = hr__min(HR_BLOCK, columns - column);
  double total[HR_BLOCK];
  float sum[HR_BLOCK], block[HR_BLOCK];
  (void)worker;

  const float *before = partial->data ? hr__load(partial, row * columns + column, n, block) : NULL;
  for (int64_t i = 0; i < n; i++)
    total[i] = before ? (double)before[i] : 0.0;
  int64_t step = row < args->period ? args->period : rows; /* rows of W behind the period have no users */
  for (int64_t first = row < args->period ? row : rows; first < rows; first += DW_ROWS * step) {
    int64_t end = hr__min(rows, first + DW_ROWS * step);
    for (int64_t i = 0; i < n; i++)
      sum[i] = 0.0f;
    for (int64_t from_row = first; from_row < end; from_row += step) {
      const float *from = hr__load(dy, from_row * columns + column, n, block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        sum[i] += from[i];
    }
    for (int64_t i = 0; i < n; i++)
      total[i] += (double)sum[i];
  }
  float *to = hr__target(dw, row * columns + column, block);
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)total[i];
  hr__store(dw, row * columns + column, n, to);
}

static hr_status add_rows_dw_run(const hr_call *call) {
  const hr_desc *dw = &call->out[0].desc;
  int64_t tasks = dw->dim[0] * hr__chunks(dw->dim[1], HR_BLOCK);
  hr__pool_run(call->device->pool, call->threads, tasks, add_rows_dw_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample add_rows_samples[] = {
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 16, 64}}, {HR_F32, 2, {20, 64}}},
     .args = &(const hr_add_rows_args){.period = 16}},
    {.n_in = 2, .in = {{HR_F32, 3, {2, 6, 37}}, {HR_F32, 2, {2, 37}}}, .args = &(const hr_add_rows_args){.period = 1}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {5, 7, 1061}}, {HR_F32, 2, {7, 1061}}},
     .args = &(const hr_add_rows_args){.period = 7}},
};
static const hr_sample add_rows_dw_samples[] = {
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 16, 64}}, {HR_F32, 2, {20, 64}}},
     .args = &(const hr_add_rows_dw_args){.period = 16, .rows = 20, .dtype = HR_F32}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {20, 11, 37}}},
     .args = &(const hr_add_rows_dw_args){.period = 1, .rows = 2, .dtype = HR_F32}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {5, 7, 1061}}, {HR_BF16, 2, {7, 1061}}},
     .args = &(const hr_add_rows_dw_args){.period = 7, .rows = 7, .dtype = HR_BF16}},
};

const hr_op hr_op_add_rows = {
    .name = "add_rows",
    .n_in = 2,
    .n_out = 1,
    .args_bytes = sizeof(hr_add_rows_args),
    .computes = 1u << 0,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = add_rows_shape,
    .grad = add_rows_grad,
    .cost = add_rows_cost,
    .cpu = {.run = add_rows_run},
    .samples = add_rows_samples,
    .n_samples = sizeof add_rows_samples / sizeof *add_rows_samples,
};

const hr_op hr_op_add_rows_dw = {
    .name = "add_rows_dw",
    .n_in = 2,
    .n_out = 1,
    .optional = 1u << DW_PARTIAL,
    .args_bytes = sizeof(hr_add_rows_dw_args),
    .alias = {{DW_PARTIAL, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = add_rows_dw_shape,
    .cost = add_rows_dw_cost,
    .cpu = {.run = add_rows_dw_run},
    .samples = add_rows_dw_samples,
    .n_samples = sizeof add_rows_dw_samples / sizeof *add_rows_dw_samples,
};
