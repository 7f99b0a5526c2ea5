/* grad_squares, grad_norm: see grad_norm.h. */
#include "op/grad_norm.h"

#include <math.h>

#include "dev/cuda/limits.h"
#include "op/shapes.h"
#include "op/stream.h"

/* ---- grad_squares ---- */

hr_id hr__grad_squares(hr_builder *b, const hr_id *gradients, int count) {
  return hr__emit(b, &hr_op_grad_squares, gradients, count, NULL);
}

static hr_status grad_squares_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  if (view->n_in < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "needs at least one gradient");
  for (int i = 0; i < view->n_in; i++)
    HR_TRY(hr__shape_float(view, i, err));
  out[0] = hr__desc1(HR_F64, view->n_in);
  return HR_OK;
}

static void grad_squares_cost(const hr_op_view *view, hr_cost *cost) {
  double count = 0.0;
  for (int i = 0; i < view->n_in; i++)
    count += (double)hr_desc_count(&view->in[i]);
  hr__cost_stream(view, 2.0 * count, cost);
}

/* One sum per chunk of every gradient. */
static size_t grad_squares_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  int64_t chunks = 0, size = kind == HR_CUDA ? HR_CUDA_SUM_CHUNK : HR_CHUNK;
  (void)threads;
  for (int i = 0; i < view->n_in; i++)
    chunks += hr__chunks(hr_desc_count(&view->in[i]), size);
  return (size_t)chunks * sizeof(double);
}

HR_CLONES static void grad_squares_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *gradient = call->in;
  int64_t chunk_number = task;
  float block[HR_BLOCK];
  double sum = 0.0;
  (void)worker;

  for (int64_t own; chunk_number >= (own = hr__chunks(hr_desc_count(&gradient->desc), HR_CHUNK)); gradient++)
    chunk_number -= own;
  hr_range chunk = hr__chunk(hr_desc_count(&gradient->desc), HR_CHUNK, chunk_number);
  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *g = hr__load(gradient, at, n, block);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += (double)g[i] * (double)g[i];
  }
  ((double *)call->workspace)[task] = sum;
}

static hr_status grad_squares_run(const hr_call *call) {
  const double *partial = call->workspace;
  double *sums = call->out[0].data;
  int64_t chunks = 0;
  for (int i = 0; i < call->n_in; i++)
    chunks += hr__chunks(hr_desc_count(&call->in[i].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, chunks, grad_squares_task, (void *)(uintptr_t)call);
  for (int i = 0; i < call->n_in; i++) {
    sums[i] = 0.0;
    for (int64_t own = hr__chunks(hr_desc_count(&call->in[i].desc), HR_CHUNK); own > 0; own--)
      sums[i] += *partial++;
  }
  return HR_OK;
}

static const hr_sample grad_squares_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 2, {64, 48}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {33, 1999}}, {HR_F32, 1, {17}}, {HR_F32, 3, {2, 3, 11000}}}},
};

const hr_op hr_op_grad_squares = {
    .name = "grad_squares",
    .n_in = 1,
    .n_out = 1,
    .variadic = true,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = grad_squares_shape,
    .cost = grad_squares_cost,
    .workspace = grad_squares_workspace,
    .cpu = {.run = grad_squares_run},
    .samples = grad_squares_samples,
    .n_samples = sizeof grad_squares_samples / sizeof *grad_squares_samples,
};

/* ---- grad_norm ---- */

hr_id hr__grad_norm(hr_builder *b, const hr_id *squares, int count) {
  return hr__emit(b, &hr_op_grad_norm, squares, count, NULL);
}

static hr_status grad_norm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  if (view->n_in < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "needs at least one vector of sums");
  for (int i = 0; i < view->n_in; i++)
    if (view->in[i].rank != 1 || view->in[i].dtype != HR_F64 || view->in[i].dim[0] < 1)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d is not a vector of f64", i);
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static void grad_norm_cost(const hr_op_view *view, hr_cost *cost) {
  double count = 0.0;
  for (int i = 0; i < view->n_in; i++)
    count += (double)hr_desc_count(&view->in[i]);
  hr__cost_stream(view, count, cost);
}

/* CUDA: the sum so far, between launches. */
static size_t grad_norm_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  (void)view, (void)threads;
  return kind == HR_CUDA ? sizeof(double) : 0;
}

static hr_status grad_norm_run(const hr_call *call) {
  double total = 0.0;
  for (int i = 0; i < call->n_in; i++)
    for (int64_t k = 0; k < hr_desc_count(&call->in[i].desc); k++)
      total += ((const double *)call->in[i].data)[k];
  *(float *)call->out[0].data = (float)sqrt(total);
  return HR_OK;
}

static const hr_sample grad_norm_samples[] = {
    {.n_in = 1, .in = {{HR_F64, 1, {21}}}},
    {.n_in = 3, .in = {{HR_F64, 1, {1}}, {HR_F64, 1, {17}}, {HR_F64, 1, {64}}}},
};

const hr_op hr_op_grad_norm = {
    .name = "grad_norm",
    .n_in = 1,
    .n_out = 1,
    .variadic = true,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_F64), [HR_CUDA] = HR_DTYPE_BIT(HR_F64)},
    .shape = grad_norm_shape,
    .cost = grad_norm_cost,
    .workspace = grad_norm_workspace,
    .cpu = {.run = grad_norm_run},
    .samples = grad_norm_samples,
    .n_samples = sizeof grad_norm_samples / sizeof *grad_norm_samples,
};
