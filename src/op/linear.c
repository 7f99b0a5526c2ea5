/* linear: y = x Wt (+ bias) (+ add). Leading axes of x are rows; every op here but linear_db is one product:
 *
 *   y  [rows, out] = x  [rows, in]   Wt [in, out]
 *   dx [rows, in]  = dy [rows, out]  W  [out, in]
 *   dW [out, in]   = dyt [out, rows] x  [rows, in]
 *
 * What is added (bias, another result, partial sums) is put into the result first and the product adds to it: a 16-bit
 * result is then rounded once.
 */
#include "op/linear.h"

#include <string.h>

#include "base/mem.h"
#include "dev/cuda/limits.h"
#include "graph/adjoint.h"
#include "op/linear_cuda.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

enum {
  BIAS_ROWS = 64,  /* rows of one task that spreads the bias */
  DB_COLUMNS = 64, /* columns of one task of linear_db */
  DB_ROWS = 64     /* rows summed in f32 before they join the total in f64 */
};

hr_id hr__linear(hr_builder *b, hr_id x, hr_id weight, hr_id bias) {
  return hr__linear_add(b, x, weight, bias, HR_NONE);
}

hr_id hr__linear_add(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id add) {
  return hr__emit(b, &hr_op_linear, (hr_id[]){x, weight, bias, add}, 4, NULL);
}

/* `from` with its last axis replaced. */
static hr_desc with_columns(hr_desc from, int64_t columns) {
  from.dim[from.rank - 1] = columns;
  return from;
}

static hr_status weight_check(const hr_op_view *view, int axis, hr_error *err) {
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 1, err));
  const hr_desc *w = &view->in[1];
  if (w->rank != 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the weight has rank %d, expected 2", w->rank);
  if (w->dtype != view->in[0].dtype || w->dim[axis] != hr_desc_columns(&view->in[0]))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "rows of %s [%lld] do not go with a weight of %s [%lld, %lld]",
                    hr_dtype_name(view->in[0].dtype), (long long)hr_desc_columns(&view->in[0]), hr_dtype_name(w->dtype),
                    (long long)w->dim[0], (long long)w->dim[1]);
  return HR_OK;
}

static hr_status linear_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 4, 1u << 2 | 1u << 3, err));
  HR_TRY(weight_check(view, 1, err));
  hr_desc bias = {view->in[1].dtype, 1, {view->in[1].dim[0]}};
  HR_TRY(hr__shape_like(view, 2, &bias, err));
  out[0] = with_columns(view->in[0], view->in[1].dim[0]);
  return hr__shape_like(view, 3, &out[0], err);
}

static hr_status linear_dx_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(weight_check(view, 0, err));
  out[0] = with_columns(view->in[0], view->in[1].dim[1]);
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status gradient_dtype(const hr_op_view *view, hr_dtype *dtype, hr_error *err) {
  *dtype = ((const hr_linear_gradient_args *)view->args)->dtype;
  if (HR_DTYPE_BIT(*dtype) & HR_FLOATS) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(*dtype));
}

static hr_status linear_dw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc x = with_columns(view->in[0], view->in[1].rank ? hr_desc_columns(&view->in[1]) : 0);
  HR_TRY(hr__shape_like(view, 1, &x, err));
  HR_TRY(hr__shape_float(view, 1, err));
  out[0] = (hr_desc){x.dtype, 2, {hr_desc_columns(&view->in[0]), hr_desc_columns(&x)}};
  HR_TRY(gradient_dtype(view, &out[0].dtype, err));
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status linear_db_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 1u << 1, err));
  HR_TRY(hr__shape_float(view, 0, err));
  out[0] = (hr_desc){view->in[0].dtype, 1, {hr_desc_columns(&view->in[0])}};
  HR_TRY(gradient_dtype(view, &out[0].dtype, err));
  return hr__shape_like(view, 1, &out[0], err);
}

static void linear_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, 0)) {
    hr_id in[] = {dy, hr__saved_in(a, 1), hr__grad_partial(a, 0)};
    hr__grad_set(a, 0, hr__emit(b, &hr_op_linear_dx, in, 3, NULL));
  }
  if (hr__wants_grad(a, 1)) {
    hr_id in[] = {dy, hr__saved_in(a, 0), hr__grad_partial(a, 1)};
    hr__grad_set(a, 1, hr__emit(b, &hr_op_linear_dw, in, 3, &(hr_linear_gradient_args){hr__grad_dtype(a, 1)}));
  }
  if (node->in[2] != HR_NONE && hr__wants_grad(a, 2)) {
    hr_id in[] = {dy, hr__grad_partial(a, 2)};
    hr__grad_set(a, 2, hr__emit(b, &hr_op_linear_db, in, 2, &(hr_linear_gradient_args){hr__grad_dtype(a, 2)}));
  }
  if (node->in[3] != HR_NONE && hr__wants_grad(a, 3)) hr__grad_add(a, 3, dy);
}

/* The product of each op from its first two operands; `add`: something is in the result already. */
typedef hr_gemm_spec (*spec_rule)(const hr_desc *first, const hr_desc *second, bool add);

static hr_gemm_spec linear_spec(const hr_desc *x, const hr_desc *w, bool add) {
  int64_t rows = hr_desc_rows(x), columns = w->dim[0], inner = w->dim[1];
  return (hr_gemm_spec){.m = rows,
                        .n = columns,
                        .k = inner,
                        .lda = inner,
                        .ldb = inner,
                        .ldc = columns,
                        .transpose_b = true,
                        .accumulate = add,
                        .a = x->dtype,
                        .b = x->dtype,
                        .c = x->dtype};
}

static hr_gemm_spec linear_dx_spec(const hr_desc *dy, const hr_desc *w, bool add) {
  int64_t rows = hr_desc_rows(dy), inner = w->dim[0], columns = w->dim[1];
  return (hr_gemm_spec){.m = rows,
                        .n = columns,
                        .k = inner,
                        .lda = inner,
                        .ldb = columns,
                        .ldc = columns,
                        .accumulate = add,
                        .a = dy->dtype,
                        .b = dy->dtype,
                        .c = dy->dtype};
}

static hr_gemm_spec linear_dw_spec(const hr_desc *dy, const hr_desc *x, bool add) {
  int64_t rows = hr_desc_columns(dy), columns = hr_desc_columns(x), inner = hr_desc_rows(dy);
  return (hr_gemm_spec){.m = rows,
                        .n = columns,
                        .k = inner,
                        .lda = rows,
                        .ldb = columns,
                        .ldc = columns,
                        .transpose_a = true,
                        .accumulate = add,
                        .a = dy->dtype,
                        .b = dy->dtype,
                        .c = dy->dtype};
}

/* Operands from number 2 on are added, in all these ops. The result has a type of its own only in linear_dw. */
static hr_gemm_spec view_spec(const hr_op_view *view, spec_rule rule) {
  bool add = view->in[2].rank != 0 || (view->n_in > 3 && view->in[3].rank != 0);
  hr_gemm_spec spec = rule(&view->in[0], &view->in[1], add);
  spec.c = view->out[0].dtype;
  return spec;
}

static void product_cost(const hr_op_view *view, spec_rule rule, hr_cost *cost) {
  hr_gemm_spec spec = view_spec(view, rule);
  *cost = (hr_cost){.op_class = HR_CLASS_PRODUCT, .products = {hr__product_of(&spec)}, .n_products = 1};
  cost->flops = 2.0 * (double)spec.m * (double)spec.n * (double)spec.k;
}

static void linear_cost(const hr_op_view *view, hr_cost *cost) {
  product_cost(view, linear_spec, cost);
  if (view->in[2].rank == 0) return;
  double count = (double)hr_desc_rows(&view->in[0]) * (double)view->in[1].dim[0];
  cost->flops += count;
  cost->bytes = count * (double)hr_dtype_bytes(view->in[0].dtype);
}

static void linear_dx_cost(const hr_op_view *view, hr_cost *cost) {
  product_cost(view, linear_dx_spec, cost);
}

static void linear_dw_cost(const hr_op_view *view, hr_cost *cost) {
  product_cost(view, linear_dw_spec, cost);
}

static void linear_db_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->in[0]), cost);
}

static size_t linear_db_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  (void)threads;
  return kind == HR_CPU ? 0 : hr__linear_db_bytes(&view->in[0]);
}

static size_t product_workspace(const hr_op_view *view, spec_rule rule, hr_device_kind kind, int threads) {
  hr_gemm_spec spec = view_spec(view, rule);
  return kind == HR_CPU ? hr__gemm_workspace(&spec, threads) : hr__lt_bytes(spec.m, spec.n, spec.a, spec.c);
}

static size_t linear_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return product_workspace(view, linear_spec, kind, threads);
}

static size_t linear_dx_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return product_workspace(view, linear_dx_spec, kind, threads);
}

static size_t linear_dw_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return product_workspace(view, linear_dw_spec, kind, threads);
}

static void linear_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_gemm_spec spec = view_spec(view, linear_spec);
  hr__gemm_set_add(set, &spec, threads);
}

static void linear_dx_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_gemm_spec spec = view_spec(view, linear_dx_spec);
  hr__gemm_set_add(set, &spec, threads);
}

static void linear_dw_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_gemm_spec spec = view_spec(view, linear_dw_spec);
  hr__gemm_set_add(set, &spec, threads);
}

static hr_status product_prepare(const hr_call *call, spec_rule rule, void **prepared, hr_error *err) {
  bool add = call->in[2].data != NULL || (call->n_in > 3 && call->in[3].data != NULL);
  hr_gemm_spec spec = rule(&call->in[0].desc, &call->in[1].desc, add);
  spec.c = call->out[0].desc.dtype;
  hr_gemm *gemm = NULL;
  HR_TRY(hr__workspace_check(call, hr__gemm_workspace(&spec, call->threads), err));
  HR_TRY(hr__gemm_create(&spec, call->threads, call->device, &gemm, err));
  *prepared = gemm;
  return HR_OK;
}

static hr_status linear_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return product_prepare(call, linear_spec, prepared, err);
}

static hr_status linear_dx_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return product_prepare(call, linear_dx_spec, prepared, err);
}

static hr_status linear_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return product_prepare(call, linear_dw_spec, prepared, err);
}

static void product_release(void *prepared) {
  hr__gemm_destroy(prepared);
}

static hr_status product_multiply(const hr_call *call) {
  return hr__gemm_run(call->prepared, call->device->pool, call->threads, call->in[0].data, call->in[1].data,
                      call->out[0].data, call->workspace);
}

/* One row of y = bias (+ add). */
HR_CLONES static void bias_row(const hr_call *call, int64_t row) {
  const hr_tensor *bias = &call->in[2], *add = &call->in[3], *y = &call->out[0];
  int64_t columns = hr_desc_columns(&y->desc);
  float bias_block[HR_BLOCK], add_block[HR_BLOCK], block[HR_BLOCK];
  for (int64_t first = 0; first < columns; first += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - first), at = row * columns + first;
    const float *from = hr__load(bias, first, n, bias_block);
    const float *more = add->data ? hr__load(add, at, n, add_block) : NULL;
    float *to = hr__target(y, at, block);
    if (more) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] = more[i] + from[i];
    } else {
      memcpy(to, from, (size_t)n * sizeof *to);
    }
    hr__store(y, at, n, to);
  }
}

static void bias_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_range rows = hr__chunk(hr_desc_rows(&call->out[0].desc), BIAS_ROWS, task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    bias_row(call, row);
}

static hr_status linear_run(const hr_call *call) {
  if (call->in[2].data) {
    int64_t tasks = hr__chunks(hr_desc_rows(&call->out[0].desc), BIAS_ROWS);
    hr__pool_run(call->device->pool, call->threads, tasks, bias_task, (void *)(uintptr_t)call);
  } else if (call->in[3].data) {
    hr__sum_begin(call, &call->in[3], &call->out[0]);
  }
  return product_multiply(call);
}

/* linear_dx and linear_dw */
static hr_status gradient_run(const hr_call *call) {
  if (call->in[2].data) hr__sum_begin(call, &call->in[2], &call->out[0]);
  return product_multiply(call);
}

HR_CLONES static void linear_db_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *dy = &call->in[0], *partial = &call->in[1], *db = &call->out[0];
  int64_t rows = hr_desc_rows(&dy->desc), columns = hr_desc_columns(&dy->desc);
  hr_range range = hr__chunk(columns, DB_COLUMNS, task);
  int64_t n = range.end - range.first;
  double total[DB_COLUMNS];
  float sum[DB_COLUMNS], block[DB_COLUMNS];
  (void)worker;

  const float *start = partial->data ? hr__load(partial, range.first, n, block) : NULL;
  for (int64_t i = 0; i < n; i++)
    total[i] = start ? (double)start[i] : 0.0;
  for (int64_t first = 0; first < rows; first += DB_ROWS) {
    int64_t end = hr__min(rows, first + DB_ROWS);
    for (int64_t i = 0; i < n; i++)
      sum[i] = 0.0f;
    for (int64_t row = first; row < end; row++) {
      const float *from = hr__load(dy, row * columns + range.first, n, block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        sum[i] += from[i];
    }
    for (int64_t i = 0; i < n; i++)
      total[i] += (double)sum[i];
  }
  float *to = hr__target(db, range.first, block);
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)total[i];
  hr__store(db, range.first, n, to);
}

static hr_status linear_db_run(const hr_call *call) {
  int64_t tasks = hr__chunks(hr_desc_columns(&call->in[0].desc), DB_COLUMNS);
  hr__pool_run(call->device->pool, call->threads, tasks, linear_db_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample linear_samples[] = {
    {.n_in = 4, .in = {{HR_F32, 3, {2, 16, 32}}, {HR_F32, 2, {48, 32}}}},
    {.n_in = 4, .in = {{HR_F32, 2, {7, 19}}, {HR_F32, 2, {5, 19}}, {HR_F32, 1, {5}}}},
    {.n_in = 4, .in = {{HR_F32, 2, {33, 130}}, {HR_F32, 2, {70, 130}}, {HR_F32, 1, {70}}}},
    {.n_in = 4, .in = {{HR_F32, 3, {3, 5, 8}}, {HR_F32, 2, {70, 8}}, {0}, {HR_F32, 3, {3, 5, 70}}}},
    {.n_in = 4, .in = {{HR_F32, 2, {9, 19}}, {HR_F32, 2, {5, 19}}, {HR_F32, 1, {5}}, {HR_F32, 2, {9, 5}}}},
    {.n_in = 4, .in = {{HR_F32, 3, {1, 1, 2312}}, {HR_F32, 2, {37, 2312}}}}, /* as one token is generated */
    {.n_in = 4, .in = {{HR_F32, 2, {3, 264}}, {HR_F32, 2, {21, 264}}, {HR_F32, 1, {21}}, {HR_F32, 2, {3, 21}}}},
};
static const hr_sample linear_dx_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 3, {2, 16, 48}}, {HR_F32, 2, {48, 32}}}},
    {.n_in = 3, .in = {{HR_F32, 2, {7, 5}}, {HR_F32, 2, {5, 19}}, {HR_F32, 2, {7, 19}}}},
};
static const hr_sample linear_dw_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 16, 48}}, {HR_F32, 3, {2, 16, 32}}},
     .args = &(const hr_linear_gradient_args){HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 2, {7, 5}}, {HR_F32, 2, {7, 19}}, {HR_F32, 2, {5, 19}}},
     .args = &(const hr_linear_gradient_args){HR_F32}},
    {.n_in = 3,
     .in = {{HR_BF16, 2, {33, 70}}, {HR_BF16, 2, {33, 130}}, {HR_BF16, 2, {70, 130}}},
     .args = &(const hr_linear_gradient_args){HR_BF16}},
};
static const hr_sample linear_db_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 48}}}, .args = &(const hr_linear_gradient_args){HR_BF16}},
    {.n_in = 2, .in = {{HR_F32, 2, {130, 67}}, {HR_F32, 1, {67}}}, .args = &(const hr_linear_gradient_args){HR_F32}},
};

const hr_op hr_op_linear = {
    .name = "linear",
    .n_in = 4,
    .n_out = 1,
    .optional = 1u << 2 | 1u << 3,
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = ~0u,
    .alias = {{3, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .not_in_place = {[HR_CUDA] = HR_FLOATS_16}, /* dev/cuda/cublaslt.h */
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1 | 1u << 2,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = linear_shape,
    .grad = linear_grad,
    .cost = linear_cost,
    .workspace = linear_workspace,
    .products = linear_products,
    .cpu = {.prepare = linear_prepare, .release = product_release, .run = linear_run},
    .samples = linear_samples,
    .n_samples = sizeof linear_samples / sizeof *linear_samples,
};

const hr_op hr_op_linear_dx = {
    .name = "linear_dx",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .not_in_place = {[HR_CUDA] = HR_FLOATS_16}, /* dev/cuda/cublaslt.h */
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = linear_dx_shape,
    .cost = linear_dx_cost,
    .workspace = linear_dx_workspace,
    .products = linear_dx_products,
    .cpu = {.prepare = linear_dx_prepare, .release = product_release, .run = gradient_run},
    .samples = linear_dx_samples,
    .n_samples = sizeof linear_dx_samples / sizeof *linear_dx_samples,
};

const hr_op hr_op_linear_dw = {
    .name = "linear_dw",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_linear_gradient_args),
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = linear_dw_shape,
    .cost = linear_dw_cost,
    .workspace = linear_dw_workspace,
    .products = linear_dw_products,
    .cpu = {.prepare = linear_dw_prepare, .release = product_release, .run = gradient_run},
    .samples = linear_dw_samples,
    .n_samples = sizeof linear_dw_samples / sizeof *linear_dw_samples,
};

const hr_op hr_op_linear_db = {
    .name = "linear_db",
    .n_in = 2,
    .n_out = 1,
    .optional = 1u << 1,
    .args_bytes = sizeof(hr_linear_gradient_args),
    .alias = {{1, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = linear_db_shape,
    .cost = linear_db_cost,
    .workspace = linear_db_workspace,
    .cpu = {.run = linear_db_run},
    .samples = linear_db_samples,
    .n_samples = sizeof linear_db_samples / sizeof *linear_db_samples,
};
