/* grad_norm: the L2 norm over all gradients: sums of squares in double over fixed chunks, added in a fixed order. */
#include "op/grad_norm.h"

#include <math.h>

#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__grad_norm(hr_builder *b, const hr_id *gradients, int count) {
  return hr__emit(b, &hr_op_grad_norm, gradients, count, NULL);
}

static hr_status grad_norm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  if (view->n_in < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "needs at least one gradient");
  for (int i = 0; i < view->n_in; i++)
    HR_TRY(hr__shape_float(view, i, err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static void grad_norm_cost(const hr_op_view *view, hr_cost *cost) {
  double count = 0.0;
  for (int i = 0; i < view->n_in; i++)
    count += (double)hr_desc_count(&view->in[i]);
  hr__cost_stream(view, 2.0 * count, cost);
}

/* One sum per chunk of every gradient. */
static size_t grad_norm_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  int64_t chunks = 0;
  (void)kind, (void)threads;
  for (int i = 0; i < view->n_in; i++)
    chunks += hr__chunks(hr_desc_count(&view->in[i]), HR_CHUNK);
  return (size_t)chunks * sizeof(double);
}

HR_CLONES static void grad_norm_task(void *arg, int64_t task, int worker) {
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

static hr_status grad_norm_run(const hr_call *call) {
  const double *sums = call->workspace;
  int64_t chunks = 0;
  double total = 0.0;
  for (int i = 0; i < call->n_in; i++)
    chunks += hr__chunks(hr_desc_count(&call->in[i].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, chunks, grad_norm_task, (void *)(uintptr_t)call);
  for (int64_t i = 0; i < chunks; i++)
    total += sums[i];
  *(float *)call->out[0].data = (float)sqrt(total);
  return HR_OK;
}

static const hr_sample grad_norm_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 2, {64, 48}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {33, 1999}}, {HR_F32, 1, {17}}, {HR_F32, 3, {2, 3, 11000}}}},
};

const hr_op hr_op_grad_norm = {
    .name = "grad_norm",
    .n_in = 1,
    .n_out = 1,
    .variadic = true,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS_NO_F16},
    .shape = grad_norm_shape,
    .cost = grad_norm_cost,
    .workspace = grad_norm_workspace,
    .cpu = {.run = grad_norm_run},
    .samples = grad_norm_samples,
    .n_samples = sizeof grad_norm_samples / sizeof *grad_norm_samples,
};
