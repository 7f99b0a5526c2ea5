/* mse: loss = mean (y - target)^2, and its gradient. */
#include "op/mse.h"

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__mse(hr_builder *b, hr_id y, hr_id target) {
  return hr__emit(b, &hr_op_mse, (hr_id[]){y, target}, 2, NULL);
}

static hr_status mse_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

/* The loss is symmetric: the gradient of the target is that of y with the two exchanged. */
static void mse_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dloss = hr__out_grad(a, 0);
  (void)node;
  if (dloss == HR_NONE) return;
  hr_id y = hr__saved_in(a, 0), target = hr__saved_in(a, 1);
  if (hr__wants_grad(a, 0)) hr__grad_add(a, 0, hr__emit(b, &hr_op_mse_bwd, (hr_id[]){y, target, dloss}, 3, NULL));
  if (hr__wants_grad(a, 1)) hr__grad_add(a, 1, hr__emit(b, &hr_op_mse_bwd, (hr_id[]){target, y, dloss}, 3, NULL));
}

static void mse_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 3.0 * (double)hr_desc_count(&view->in[0]), cost);
}

/* One sum per chunk. */
static size_t mse_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  (void)kind, (void)threads;
  return (size_t)hr__chunks(hr_desc_count(&view->in[0]), HR_CHUNK) * sizeof(double);
}

HR_CLONES static void mse_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float y_block[HR_BLOCK], target_block[HR_BLOCK];
  double sum = 0.0;
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *y = hr__load(&call->in[0], at, n, y_block);
    const float *target = hr__load(&call->in[1], at, n, target_block);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
      double difference = (double)(y[i] - target[i]);
      sum += difference * difference;
    }
  }
  ((double *)call->workspace)[task] = sum;
}

static hr_status mse_run(const hr_call *call) {
  int64_t count = hr_desc_count(&call->in[0].desc);
  const double *sums = call->workspace;
  double total = 0.0;
  hr__run_chunks(call, count, mse_task);
  for (int64_t i = 0; i < hr__chunks(count, HR_CHUNK); i++)
    total += sums[i];
  *(float *)call->out[0].data = (float)(total / (double)count);
  return HR_OK;
}

/* ---- mse_bwd: y, target, dloss -> dy = 2 (y - target) / count * dloss ---- */

static hr_status mse_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  hr_desc scalar = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_operands(view, 3, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  HR_TRY(hr__shape_like(view, 2, &scalar, err));
  out[0] = view->in[0];
  return HR_OK;
}

static void mse_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 2.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void mse_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  int64_t count = hr_desc_count(&call->in[0].desc);
  float factor = (float)(2.0 * (double)*(const float *)call->in[2].data / (double)count);
  hr_range chunk = hr__chunk(count, HR_CHUNK, task);
  float y_block[HR_BLOCK], target_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *y = hr__load(&call->in[0], at, n, y_block);
    const float *target = hr__load(&call->in[1], at, n, target_block);
    float *dy = hr__target(&call->out[0], at, y_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      dy[i] = factor * (y[i] - target[i]);
    hr__store(&call->out[0], at, n, dy);
  }
}

static hr_status mse_bwd_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), mse_bwd_task);
  return HR_OK;
}

static const hr_sample mse_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 2, {16, 64}}, {HR_F32, 2, {16, 64}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}},
};

static const hr_sample mse_bwd_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 2, {16, 64}}, {HR_F32, 2, {16, 64}}, {HR_F32, 1, {1}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}, {HR_F32, 1, {1}}}},
};

const hr_op hr_op_mse = {
    .name = "mse",
    .n_in = 2,
    .n_out = 1,
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = 1u << 0 | 1u << 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = mse_shape,
    .grad = mse_grad,
    .cost = mse_cost,
    .workspace = mse_workspace,
    .cpu = {.run = mse_run},
    .samples = mse_samples,
    .n_samples = sizeof mse_samples / sizeof *mse_samples,
};

const hr_op hr_op_mse_bwd = {
    .name = "mse_bwd",
    .n_in = 3,
    .n_out = 1,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_NONE, /* the mean is over all elements */
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = mse_bwd_shape,
    .cost = mse_bwd_cost,
    .cpu = {.run = mse_bwd_run},
    .samples = mse_bwd_samples,
    .n_samples = sizeof mse_bwd_samples / sizeof *mse_bwd_samples,
};
