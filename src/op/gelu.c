/* gelu and its gradient, in f32 whatever the storage. */
#include "op/gelu.h"

#include "graph/adjoint.h"
#include "op/gelu_tanh.h"
#include "op/shapes.h"

hr_id hr__gelu(hr_builder *b, hr_id x, bool tanh) {
  hr_gelu_args args = {tanh};
  return hr__emit(b, &hr_op_gelu, (hr_id[]){x}, 1, &args);
}

static hr_status gelu_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  out[0] = view->in[0];
  return HR_OK;
}

static void gelu_grad(hr_adjoint *a, const hr_node *node) {
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  hr_id in[] = {dy, hr__saved_in(a, 0)};
  hr__grad_add(a, 0, hr__emit(hr__adjoint_builder(a), &hr_op_gelu_bwd, in, 2, node->args));
}

static void gelu_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 40.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void gelu_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_gelu_args *args = call->args;
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *x = hr__load(&call->in[0], at, n, block);
    float *y = hr__target(&call->out[0], at, block);
    if (args->tanh) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * hr__gelu_tanh_part(x[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * hr__normal_part(x[i], hr__expf(-0.5f * x[i] * x[i]));
    }
    hr__store(&call->out[0], at, n, y);
  }
}

static hr_status gelu_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), gelu_task);
  return HR_OK;
}

/* ---- gelu_bwd: dy, x -> dx
 *
 *   exact: dx = dy (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi))
 *   tanh, with s = (1 + tanh(u)) / 2: dx = dy (s + x s (1 - s) (2 u)') */

static hr_status gelu_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  out[0] = view->in[0];
  return HR_OK;
}

HR_CLONES static void gelu_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_gelu_args *args = call->args;
  const float density = 0.398942280f; /* 1 / sqrt(2 pi) */
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float dy_block[HR_BLOCK], x_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *dy = hr__load(&call->in[0], at, n, dy_block);
    const float *x = hr__load(&call->in[1], at, n, x_block);
    float *dx = hr__target(&call->out[0], at, dy_block);
    if (args->tanh) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * hr__gelu_tanh_slope(x[i], hr__gelu_tanh_part(x[i]));
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; i++) {
        float e = hr__expf(-0.5f * x[i] * x[i]);
        dx[i] = dy[i] * (hr__normal_part(x[i], e) + density * x[i] * e);
      }
    }
    hr__store(&call->out[0], at, n, dx);
  }
}

static hr_status gelu_bwd_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), gelu_bwd_task);
  return HR_OK;
}

static const hr_gelu_args by_erf = {false}, by_tanh = {true};
static const hr_sample gelu_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {2, 16, 96}}}, .args = &by_erf},
    {.n_in = 1, .in = {{HR_F32, 2, {5, 19}}}, .args = &by_tanh},
    {.n_in = 1, .in = {{HR_F32, 2, {67, 1031}}}, .args = &by_erf},
    {.n_in = 1, .in = {{HR_F32, 2, {67, 1031}}}, .args = &by_tanh},
};
static const hr_sample gelu_bwd_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}}, .args = &by_erf},
    {.n_in = 2, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}, .args = &by_tanh},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}, .args = &by_erf},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}, .args = &by_tanh},
};

const hr_op hr_op_gelu = {
    .name = "gelu",
    .n_in = 1,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_gelu_args),
    .saves = HR_SAVE_IN(0),
    .computes = 1u << 0,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = gelu_shape,
    .grad = gelu_grad,
    .cost = gelu_cost,
    .cpu = {.run = gelu_run},
    .samples = gelu_samples,
    .n_samples = sizeof gelu_samples / sizeof *gelu_samples,
};

const hr_op hr_op_gelu_bwd = {
    .name = "gelu_bwd",
    .n_in = 2,
    .n_out = 1,
    .args_bytes = sizeof(hr_gelu_args),
    .alias = {{1, 0, HR_ALIAS_MAY}, {0, 0, HR_ALIAS_MAY}},
    .n_alias = 2,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = gelu_bwd_shape,
    .cost = gelu_cost,
    .cpu = {.run = gelu_bwd_run},
    .samples = gelu_bwd_samples,
    .n_samples = sizeof gelu_bwd_samples / sizeof *gelu_bwd_samples,
};
