/* swiglu: y = silu(gate) * up, and its gradient. */
#include "op/swiglu.h"

#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__swiglu(hr_builder *b, hr_id gate, hr_id up) {
  return hr__emit(b, &hr_op_swiglu, (hr_id[]){gate, up}, 2, NULL);
}

static hr_status swiglu_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  out[0] = view->in[0];
  return HR_OK;
}

static void swiglu_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  (void)node;
  if (dy == HR_NONE) return;
  hr_id in[] = {dy, hr__saved_in(a, 0), hr__saved_in(a, 1)};
  hr_id dg = hr__emit(b, &hr_op_swiglu_bwd, in, 3, NULL);
  hr__grad_add(a, 0, dg);
  hr__grad_add(a, 1, hr__node_out(b, dg, 1));
}

static void swiglu_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 20.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void swiglu_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float gate_block[HR_BLOCK], up_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *gate = hr__load(&call->in[0], at, n, gate_block);
    const float *up = hr__load(&call->in[1], at, n, up_block);
    float *y = hr__target(&call->out[0], at, gate_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      y[i] = gate[i] / (1.0f + hr__expf(-gate[i])) * up[i];
    hr__store(&call->out[0], at, n, y);
  }
}

static hr_status swiglu_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), swiglu_task);
  return HR_OK;
}

/* ---- swiglu_bwd: dy, gate, up -> dgate, dup
 *
 * With s = 1 / (1 + exp(-gate)):  dup = dy * gate * s,  dgate = dy * up * s * (1 + gate * (1 - s)). */

static hr_status swiglu_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  HR_TRY(hr__shape_like(view, 2, &view->in[0], err));
  out[0] = out[1] = view->in[0];
  return HR_OK;
}

static void swiglu_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 26.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void swiglu_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float dy_block[HR_BLOCK], gate_block[HR_BLOCK], up_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *dy = hr__load(&call->in[0], at, n, dy_block);
    const float *gate = hr__load(&call->in[1], at, n, gate_block);
    const float *up = hr__load(&call->in[2], at, n, up_block);
    float *dgate = hr__target(&call->out[0], at, gate_block), *dup = hr__target(&call->out[1], at, up_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float d = dy[i], g = gate[i], u = up[i];
      float s = 1.0f / (1.0f + hr__expf(-g));
      dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
      dup[i] = d * g * s;
    }
    hr__store(&call->out[0], at, n, dgate);
    hr__store(&call->out[1], at, n, dup);
  }
}

static hr_status swiglu_bwd_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), swiglu_bwd_task);
  return HR_OK;
}

static const hr_sample swiglu_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}},
};

static const hr_sample swiglu_bwd_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}, {HR_F32, 3, {2, 16, 96}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}},
};

const hr_op hr_op_swiglu = {
    .name = "swiglu",
    .n_in = 2,
    .n_out = 1,
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = 1u << 0 | 1u << 1,
    .alias = {{0, 0, HR_ALIAS_MAY}, {1, 0, HR_ALIAS_MAY}},
    .n_alias = 2,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS_NO_F16},
    .shape = swiglu_shape,
    .grad = swiglu_grad,
    .cost = swiglu_cost,
    .cpu = {.run = swiglu_run},
    .samples = swiglu_samples,
    .n_samples = sizeof swiglu_samples / sizeof *swiglu_samples,
};

const hr_op hr_op_swiglu_bwd = {
    .name = "swiglu_bwd",
    .n_in = 3,
    .n_out = 2,
    .alias = {{1, 0, HR_ALIAS_MAY}, {2, 1, HR_ALIAS_MAY}, {0, 0, HR_ALIAS_MAY}},
    .n_alias = 3,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS_NO_F16},
    .shape = swiglu_bwd_shape,
    .cost = swiglu_bwd_cost,
    .cpu = {.run = swiglu_bwd_run},
    .samples = swiglu_bwd_samples,
    .n_samples = sizeof swiglu_bwd_samples / sizeof *swiglu_bwd_samples,
};
