/* lora_down: its rules and its backward ops'; op/lora_down_kernel.c has the CPU's kernels. */
#include "op/lora_down.h"

#include <stddef.h>

#include "graph/adjoint.h"
#include "op/lora_down_cuda.h"
#include "op/lora_down_parts.h"
#include "op/shapes.h"

hr_id hr__lora_down(hr_builder *b, hr_id x, hr_id A, float p) {
  hr_dropout_args args = {.p = p, .use = hr__dropout_uses(b)};
  return hr__emit(b, &hr_op_lora_down, (hr_id[]){x, A, hr__control(b)}, 3, &args);
}

/* `like` with another last axis. */
static hr_desc with_columns(hr_desc like, int64_t columns) {
  if (like.rank > 0) like.dim[like.rank - 1] = columns;
  return like;
}

/* What the three ops have in common: operand 0 of floats, the control at 2, the partial sum at 3 where there is one. */
static hr_status operands_check(const hr_op_view *view, const hr_dropout_args *args, hr_error *err) {
  hr_desc control = {HR_U8, 1, {(int64_t)sizeof(hr_control)}};
  HR_TRY(hr__shape_operands(view, view->n_in, 1u << 3, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 2, &control, err));
  if (view->in[0].rank < 2)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand 0 has rank %d, expected 2 or more", view->in[0].rank);
  if (!(args->p >= 0.0f && args->p < 1.0f) || args->first < 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "drops a part of %g from row %lld on", (double)args->p,
                    (long long)args->first);
  return HR_OK;
}

/* A, operand 1, whose axis `axis` goes with the rows of operand 0. */
static hr_status weight_check(const hr_op_view *view, int axis, hr_error *err) {
  const hr_desc *w = &view->in[1];
  if (w->rank != 2 || w->dtype != view->in[0].dtype || w->dim[axis] != hr_desc_columns(&view->in[0]))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "rows of %s [%lld] do not go with a weight of %s and rank %d",
                    hr_dtype_name(view->in[0].dtype), (long long)hr_desc_columns(&view->in[0]), hr_dtype_name(w->dtype),
                    w->rank);
  return HR_OK;
}

static hr_status down_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(operands_check(view, view->args, err));
  HR_TRY(weight_check(view, 1, err));
  out[0] = with_columns(view->in[0], view->in[1].dim[0]);
  return HR_OK;
}

static hr_status dx_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(operands_check(view, view->args, err));
  HR_TRY(weight_check(view, 0, err));
  out[0] = with_columns(view->in[0], view->in[1].dim[1]);
  return hr__shape_like(view, 3, &out[0], err);
}

static hr_status dw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_lora_down_dw_args *args = view->args;
  HR_TRY(operands_check(view, &args->drop, err));
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(args->dtype));
  hr_desc x = with_columns(view->in[0], view->in[1].rank ? hr_desc_columns(&view->in[1]) : 0);
  HR_TRY(hr__shape_like(view, 1, &x, err));
  out[0] = (hr_desc){args->dtype, 2, {hr_desc_columns(&view->in[0]), hr_desc_columns(&x)}};
  return hr__shape_like(view, 3, &out[0], err);
}

static void down_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dh = hr__out_grad(a, 0);
  if (dh == HR_NONE) return;
  if (hr__wants_grad(a, 0)) {
    hr_id in[] = {dh, hr__saved_in(a, 1), hr__saved_in(a, 2), hr__grad_partial(a, 0)};
    hr__grad_set(a, 0, hr__emit(b, &hr_op_lora_down_dx, in, 4, node->args));
  }
  if (hr__wants_grad(a, 1)) {
    hr_lora_down_dw_args args = {*(const hr_dropout_args *)node->args, hr__grad_dtype(a, 1)};
    hr_id in[] = {dh, hr__saved_in(a, 0), hr__saved_in(a, 2), hr__grad_partial(a, 1)};
    hr__grad_set(a, 1, hr__emit(b, &hr_op_lora_down_dw, in, 4, &args));
  }
}

/* One pass over x or dx, with the mask drawn beside it: a stream, though with arithmetic. */
static void stream_cost(const hr_op_view *view, const hr_lora_down *l, hr_cost *cost) {
  hr__cost_stream(view, (2.0 * (double)l->width + 16.0) * (double)l->rows * (double)l->in, cost);
}

static size_t kind_workspace(const hr_lora_down *l, hr_device_kind kind, int threads) {
  return kind == HR_CPU ? hr__lora_down_bytes(l, threads) : hr__lora_down_cuda_of(l).bytes;
}

#define RULES(name, KIND)                                                                                              \
  static void name##_cost(const hr_op_view *view, hr_cost *cost) {                                                     \
    hr_lora_down l = hr__lora_down_of(KIND, &view->in[0], &view->in[1], &view->out[0]);                                \
    stream_cost(view, &l, cost);                                                                                       \
  }                                                                                                                    \
  static size_t name##_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {                           \
    hr_lora_down l = hr__lora_down_of(KIND, &view->in[0], &view->in[1], &view->out[0]);                                \
    return kind_workspace(&l, kind, threads);                                                                          \
  }                                                                                                                    \
  static void name##_products(const hr_op_view *view, int threads, struct hr_gemm_set *set) {                          \
    hr_lora_down l = hr__lora_down_of(KIND, &view->in[0], &view->in[1], &view->out[0]);                                \
    hr__lora_down_products(&l, threads, set);                                                                          \
  }
RULES(down, HR_LORA_DOWN)
RULES(dx, HR_LORA_DOWN_DX)
RULES(dw, HR_LORA_DOWN_DW)

#define CONTROL                                                                                                        \
  {                                                                                                                    \
    HR_U8, 1, {                                                                                                        \
      sizeof(hr_control)                                                                                               \
    }                                                                                                                  \
  }

static const hr_sample down_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 9, 64}}, {HR_F32, 2, {8, 64}}, CONTROL},
     .args = &(const hr_dropout_args){.p = 0.25f}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {3, 7, 19}}, {HR_F32, 2, {5, 19}}, CONTROL},
     .args = &(const hr_dropout_args){.p = 0.5f, .first = 2, .use = 1}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {5, 131, 160}}, {HR_F32, 2, {24, 160}}, CONTROL},
     .args = &(const hr_dropout_args){.p = 0.1f}},
};
static const hr_sample dx_samples[] = {
    {.n_in = 4,
     .in = {{HR_F32, 3, {2, 9, 8}}, {HR_F32, 2, {8, 64}}, CONTROL},
     .args = &(const hr_dropout_args){.p = 0.25f}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {3, 7, 5}}, {HR_F32, 2, {5, 19}}, CONTROL, {HR_F32, 3, {3, 7, 19}}},
     .args = &(const hr_dropout_args){.p = 0.5f, .first = 2, .use = 1}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {5, 131, 24}}, {HR_F32, 2, {24, 160}}, CONTROL, {HR_F32, 3, {5, 131, 160}}},
     .args = &(const hr_dropout_args){.p = 0.1f}},
};
static const hr_sample dw_samples[] = {
    {.n_in = 4,
     .in = {{HR_F32, 3, {2, 9, 8}}, {HR_F32, 3, {2, 9, 64}}, CONTROL},
     .args = &(const hr_lora_down_dw_args){{.p = 0.25f}, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {3, 7, 5}}, {HR_F32, 3, {3, 7, 19}}, CONTROL, {HR_F32, 2, {5, 19}}},
     .args = &(const hr_lora_down_dw_args){{.p = 0.5f, .first = 2, .use = 1}, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {5, 131, 24}}, {HR_F32, 3, {5, 131, 160}}, CONTROL, {HR_BF16, 2, {24, 160}}},
     .args = &(const hr_lora_down_dw_args){{.p = 0.1f}, HR_BF16}},
};

const hr_op hr_op_lora_down = {
    .name = "lora_down",
    .n_in = 3,
    .n_out = 1,
    .random = true,
    .sample_at = offsetof(hr_dropout_args, first),
    .args_bytes = sizeof(hr_dropout_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2),
    .computes = 1u << 0 | 1u << 1,
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1 | 1u << 2,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = down_shape,
    .grad = down_grad,
    .cost = down_cost,
    .workspace = down_workspace,
    .products = down_products,
    .cpu = {.prepare = hr__lora_down_prepare, .release = hr__lora_down_release, .run = hr__lora_down_run},
    .samples = down_samples,
    .n_samples = sizeof down_samples / sizeof *down_samples,
};

const hr_op hr_op_lora_down_dx = {
    .name = "lora_down_dx",
    .n_in = 4,
    .n_out = 1,
    .optional = 1u << 3,
    .random = true,
    .sample_at = offsetof(hr_dropout_args, first),
    .args_bytes = sizeof(hr_dropout_args),
    .alias = {{3, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1 | 1u << 2,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = dx_shape,
    .cost = dx_cost,
    .workspace = dx_workspace,
    .products = dx_products,
    .cpu = {.prepare = hr__lora_down_dx_prepare, .release = hr__lora_down_release, .run = hr__lora_down_dx_run},
    .samples = dx_samples,
    .n_samples = sizeof dx_samples / sizeof *dx_samples,
};

const hr_op hr_op_lora_down_dw = {
    .name = "lora_down_dw",
    .n_in = 4,
    .n_out = 1,
    .optional = 1u << 3,
    .random = true,
    .args_bytes = sizeof(hr_lora_down_dw_args),
    .alias = {{3, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = dw_shape,
    .cost = dw_cost,
    .workspace = dw_workspace,
    .products = dw_products,
    .cpu = {.prepare = hr__lora_down_dw_prepare, .release = hr__lora_down_release, .run = hr__lora_down_dw_run},
    .samples = dw_samples,
    .n_samples = sizeof dw_samples / sizeof *dw_samples,
};
