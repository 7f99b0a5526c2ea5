/* topk: one pass over a row with the best k so far in order; most elements are only compared with the last of them. */
#include "op/topk.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/gather.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__topk(hr_builder *b, hr_id x, int k) {
  hr_topk_args args = {k};
  return hr__emit(b, &hr_op_topk, &x, 1, &args);
}

static hr_status topk_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_topk_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  int64_t columns = hr_desc_columns(&view->in[0]);
  if (args->k < 1 || args->k > columns)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the %d largest of %lld", args->k, (long long)columns);
  if (columns > INT32_MAX) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "rows of more than %d elements", INT32_MAX);
  out[0] = view->in[0];
  out[0].dim[out[0].rank - 1] = args->k;
  out[1] = out[0];
  out[1].dtype = HR_I32;
  return HR_OK;
}

/* The gradient goes where the values came from. */
static void topk_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  const hr_desc *x = &b->graph->values[node->in[0]].desc;
  hr_scatter_args args = {x->rank - 1, hr_desc_columns(x), (int)hr__grad_dtype(a, 0)};
  hr_id in[] = {hr__saved_out(a, 1), dy, hr__grad_partial(a, 0)};
  hr__grad_set(a, 0, hr__emit(b, &hr_op_scatter, in, 3, &args));
}

static void topk_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 2.0 * (double)hr_desc_count(&view->in[0]), cost);
}

/* ---- CPU ---- */

static size_t worker_bytes(const hr_op_view *view) {
  return (size_t)((const hr_topk_args *)view->args)->k * sizeof(float);
}

/* On CUDA: where the first ones of each part of a row are, one i32 each. */
static size_t parts_bytes(const hr_op_view *view) {
  int64_t columns = hr_desc_columns(&view->in[0]), rows = hr_desc_count(&view->in[0]) / (columns ? columns : 1);
  int k = ((const hr_topk_args *)view->args)->k;
  int64_t parts = hr__topk_parts(rows, columns, k);
  return parts > 1 ? (size_t)(rows * parts * k) * sizeof(int32_t) : 0;
}

static size_t topk_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  return kind == HR_CPU ? (size_t)threads * worker_bytes(view) : parts_bytes(view);
}

/* best and index: the first `count` of at most k, in order. */
static int element_insert(float value, int64_t at, int k, int count, float *best, int32_t *index) {
  int place = count < k ? count : k - 1;
  while (place > 0 && hr__topk_before(value, at, best[place - 1], index[place - 1])) {
    best[place] = best[place - 1];
    index[place] = index[place - 1];
    place--;
  }
  best[place] = value;
  index[place] = (int32_t)at;
  return count < k ? count + 1 : k;
}

static void row_search(const hr_tensor *x, int64_t row, int k, float *best, int32_t *index) {
  int64_t columns = hr_desc_columns(&x->desc);
  float block[HR_BLOCK];
  int count = 0;
  for (int64_t from = 0; from < columns; from += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - from);
    const float *value = hr__load(x, row * columns + from, n, block);
    for (int64_t i = 0; i < n; i++)
      if (count < k || hr__topk_before(value[i], from + i, best[k - 1], index[k - 1]))
        count = element_insert(value[i], from + i, k, count, best, index);
  }
}

static int64_t rows_per_task(const hr_desc *x) {
  return 1 + HR_CHUNK / hr_desc_columns(x);
}

static void topk_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *x = &call->in[0];
  int k = ((const hr_topk_args *)call->args)->k;
  float *best = (float *)call->workspace + (size_t)worker * (size_t)k;
  hr_range rows = hr__chunk(hr_desc_rows(&x->desc), rows_per_task(&x->desc), task);
  for (int64_t row = rows.first; row < rows.end; row++) {
    row_search(x, row, k, best, (int32_t *)call->out[1].data + row * k);
    if (x->desc.dtype == HR_F32)
      memcpy((float *)call->out[0].data + row * k, best, (size_t)k * sizeof *best);
    else
      hr__store(&call->out[0], row * k, k, best);
  }
}

static hr_status topk_run(const hr_call *call) {
  const hr_desc *x = &call->in[0].desc;
  hr__pool_run(call->device->pool, call->threads, hr__chunks(hr_desc_rows(x), rows_per_task(x)), topk_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample topk_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 2, {37, 64}}}, .args = &(const hr_topk_args){8}},
    {.n_in = 1, .in = {{HR_F32, 3, {3, 5, 4}}}, .args = &(const hr_topk_args){2}},
    {.n_in = 1, .in = {{HR_F32, 2, {5, 2053}}}, .args = &(const hr_topk_args){40}},
    {.n_in = 1, .in = {{HR_F32, 2, {2, 4101}}}, .args = &(const hr_topk_args){3}},
    {.n_in = 1, .in = {{HR_F32, 1, {19}}}, .args = &(const hr_topk_args){19}},
    {.n_in = 1, .in = {{HR_F32, 2, {70, 3}}}, .args = &(const hr_topk_args){1}},
};

const hr_op hr_op_topk = {
    .name = "topk",
    .n_in = 1,
    .n_out = 2,
    .args_bytes = sizeof(hr_topk_args),
    .saves = HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_ROWS,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = topk_shape,
    .grad = topk_grad,
    .cost = topk_cost,
    .workspace = topk_workspace,
    .cpu = {.run = topk_run},
    .samples = topk_samples,
    .n_samples = sizeof topk_samples / sizeof *topk_samples,
};
