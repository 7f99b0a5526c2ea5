/* copy: y = factor x, converting between float types. */
#include "op/copy.h"

#include <math.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__copy(hr_builder *b, hr_id x, hr_dtype dtype) {
  hr_copy_args args = {.dtype = dtype, .factor = 1.0f};
  return hr__emit(b, &hr_op_copy, &x, 1, &args);
}

hr_id hr__scale(hr_builder *b, hr_id x, float factor) {
  hr_copy_args args = {.dtype = (hr_dtype)HR_COPY_SAME, .factor = factor};
  return hr__emit(b, &hr_op_copy, &x, 1, &args);
}

static hr_status copy_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_copy_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  out[0] = view->in[0];
  if (!isfinite(args->factor) || args->factor == 0.0f)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a factor of %g", (double)args->factor);
  if (args->dtype == (hr_dtype)HR_COPY_SAME) return HR_OK;
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "converts to f32, bf16 or f16, not to %s",
                    hr_dtype_name(args->dtype));
  out[0].dtype = args->dtype;
  return HR_OK;
}

static void copy_grad(hr_adjoint *a, const hr_node *node) {
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  hr_builder *b = hr__adjoint_builder(a);
  hr_copy_args args = {.dtype = b->graph->values[node->in[0]].desc.dtype,
                       .factor = ((const hr_copy_args *)node->args)->factor};
  hr__grad_add(a, 0, hr__emit(b, &hr_op_copy, &dy, 1, &args));
}

static void copy_cost(const hr_op_view *view, hr_cost *cost) {
  bool scaled = ((const hr_copy_args *)view->args)->factor != 1.0f;
  hr__cost_stream(view, scaled ? (double)hr_desc_count(&view->in[0]) : 0.0, cost);
}

/* Scaling, widening and narrowing go through a block of floats; a plain copy in one type is one of bytes. */
HR_CLONES static void copy_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0], *y = &call->out[0];
  hr_range chunk = hr__chunk(hr_desc_count(&x->desc), HR_CHUNK, task);
  float factor = ((const hr_copy_args *)call->args)->factor;
  float from_block[HR_BLOCK], block[HR_BLOCK];
  (void)worker;

  if (x->desc.dtype == y->desc.dtype && factor == 1.0f) {
    if (x->data == y->data) return;
    int64_t size = (int64_t)hr_dtype_bytes(x->desc.dtype);
    memcpy((char *)y->data + chunk.first * size, (const char *)x->data + chunk.first * size,
           (size_t)((chunk.end - chunk.first) * size));
    return;
  }
  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *from = hr__load(x, at, n, from_block);
    float *to = hr__target(y, at, block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = factor * from[i];
    hr__store(y, at, n, to);
  }
}

static hr_status copy_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), copy_task);
  return HR_OK;
}

static const hr_sample copy_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 2, {64, 48}}}, .args = &(const hr_copy_args){HR_BF16, 1.0f}},
    {.n_in = 1, .in = {{HR_F32, 3, {3, 7, 13}}}, .args = &(const hr_copy_args){HR_F32, 1.0f}},
    {.n_in = 1, .in = {{HR_F32, 3, {3, 7, 13}}}, .args = &(const hr_copy_args){(hr_dtype)HR_COPY_SAME, 0.75f}},
    {.n_in = 1, .in = {{HR_F32, 2, {5, 9001}}}, .args = &(const hr_copy_args){HR_F32, -3.0f}},
    {.n_in = 1, .in = {{HR_F32, 2, {41, 1027}}}, .args = &(const hr_copy_args){HR_BF16, 1.0f}},
};

const hr_op hr_op_copy = {
    .name = "copy",
    .n_in = 1,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_copy_args),
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .grouped = true,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = copy_shape,
    .grad = copy_grad,
    .cost = copy_cost,
    .cpu = {.run = copy_run},
    .samples = copy_samples,
    .n_samples = sizeof copy_samples / sizeof *copy_samples,
};
