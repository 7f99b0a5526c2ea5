/* add: y = a + alpha b. */
#include "op/add.h"

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__add(hr_builder *b, hr_id left, hr_id right, float alpha) {
  hr_add_args args = {alpha};
  return hr__emit(b, &hr_op_add, (hr_id[]){left, right}, 2, &args);
}

static hr_status add_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  out[0] = view->in[0];
  return HR_OK;
}

/* da = dy; db = alpha dy, written as an addition so that it joins a sum in one op. */
static void add_grad(hr_adjoint *a, const hr_node *node) {
  const hr_add_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, 0)) hr__grad_add(a, 0, dy);
  if (!hr__wants_grad(a, 1)) return;
  hr_id partial = hr__grad_partial(a, 1);
  if (partial != HR_NONE) {
    hr__grad_set(a, 1, hr__add(b, partial, dy, args->alpha));
  } else {
    hr__grad_add(a, 1, args->alpha == 1.0f ? dy : hr__add(b, dy, dy, args->alpha - 1.0f));
  }
}

static void add_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 2.0 * (double)hr_desc_count(&view->in[0]), cost);
}

HR_CLONES static void add_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const float alpha = ((const hr_add_args *)call->args)->alpha;
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  float a_block[HR_BLOCK], b_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *a = hr__load(&call->in[0], at, n, a_block);
    const float *b = hr__load(&call->in[1], at, n, b_block);
    float *y = hr__target(&call->out[0], at, a_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      y[i] = a[i] + alpha * b[i];
    hr__store(&call->out[0], at, n, y);
  }
}

static hr_status add_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->in[0].desc), add_task);
  return HR_OK;
}

static const hr_sample add_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 64}}, {HR_F32, 3, {2, 16, 64}}}, .args = &(const hr_add_args){1.0f}},
    {.n_in = 2, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {5, 19}}}, .args = &(const hr_add_args){-0.75f}},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 1031}}}, .args = &(const hr_add_args){1.0f}},
};

const hr_op hr_op_add = {
    .name = "add",
    .n_in = 2,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_add_args),
    .computes = 1u << 0 | 1u << 1,
    .alias = {{0, 0, HR_ALIAS_MAY}, {1, 0, HR_ALIAS_MAY}},
    .n_alias = 2,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = add_shape,
    .grad = add_grad,
    .cost = add_cost,
    .cpu = {.run = add_run},
    .samples = add_samples,
    .n_samples = sizeof add_samples / sizeof *add_samples,
};
