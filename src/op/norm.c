/* Rules and rounds that layernorm and rmsnorm have in common. */
#include "op/norm.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/norm_rows.h"
#include "op/shapes.h"

void hr__norm_grad(hr_adjoint *a, const hr_op *backward, int weights, bool raised) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0), in[HR_NORM_OPERANDS(HR_NORM_WEIGHTS)];
  if (dy == HR_NONE) return;
  hr_norm_bwd_args args = {.want_dx = hr__wants_grad(a, 0),
                           .want_dw = hr__wants_grad(a, 1),
                           .want_db = weights == 2 && hr__wants_grad(a, 2),
                           .raised = raised};
  bool wanted[1 + HR_NORM_WEIGHTS] = {args.want_dx, args.want_dw, args.want_db};
  in[HR_NORM_DY] = dy;
  in[HR_NORM_X] = hr__saved_in(a, 0);
  in[HR_NORM_W] = hr__saved_in(a, 1);
  in[HR_NORM_STATISTICS] = hr__saved_out(a, 1);
  for (int i = 0; i <= weights; i++)
    in[HR_NORM_DX_PARTIAL + i] = hr__grad_partial(a, i);
  hr_id dx = hr__emit(b, backward, in, HR_NORM_OPERANDS(weights), &args);
  for (int i = 0; i <= weights; i++)
    if (wanted[i]) hr__grad_set(a, i, i == 0 ? dx : hr__node_out(b, dx, i));
}

hr_status hr__norm_bwd_begin(const hr_op_view *view, int weights, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_NORM_OPERANDS(weights), HR_NORM_OPTIONAL(weights), err));
  HR_TRY(hr__shape_float(view, HR_NORM_DY, err));
  return hr__shape_like(view, HR_NORM_X, &view->in[HR_NORM_DY], err);
}

hr_status hr__norm_bwd_results(const hr_op_view *view, int weights, hr_desc *out, hr_error *err) {
  const hr_norm_bwd_args *args = view->args;
  const hr_desc *dy = &view->in[HR_NORM_DY], *w = &view->in[HR_NORM_W];
  if (args->want_db && weights < 2)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the gradient of a bias is wanted, and there is none");
  out[0] = args->want_dx ? *dy : hr__desc1(dy->dtype, 0);
  out[1] = args->want_dw ? *w : hr__desc1(w->dtype, 0);
  if (weights == 2) out[2] = args->want_db ? *w : hr__desc1(w->dtype, 0);
  for (int i = 0; i <= weights; i++)
    HR_TRY(hr__shape_like(view, HR_NORM_DX_PARTIAL + i, &out[i], err));
  return HR_OK;
}

static bool wants_sums(const hr_norm_bwd_args *args) {
  return args->want_dw || args->want_db;
}

static int64_t chunk_rows(int64_t rows) {
  enum { CHUNKS_MAX = 32, ROWS_MIN = 8 };
  int64_t even = hr__chunks(rows, CHUNKS_MAX);
  return even > ROWS_MIN ? even : ROWS_MIN;
}

size_t hr__norm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  const hr_desc *weight = &view->in[HR_NORM_W];
  int64_t rows = hr__norm_rows(&view->in[HR_NORM_X], weight), weights = view->n_out - 1;
  int64_t rows_each = kind == HR_CUDA ? hr__norm_sum_rows(rows, weight->dim[0]) : chunk_rows(rows);
  (void)threads;
  if (!wants_sums(view->args)) return 0;
  return (size_t)(hr__chunks(rows, rows_each) * weights * weight->dim[0]) * sizeof(float);
}

/* ---- forward ---- */

static int64_t task_rows(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

hr_range hr__norm_task(const hr_call *call, int64_t task) {
  const hr_desc *weight = &call->in[1].desc;
  return hr__chunk(hr__norm_rows(&call->in[0].desc, weight), task_rows(weight->dim[0]), task);
}

hr_status hr__norm_run(const hr_call *call, hr_task task) {
  const hr_desc *weight = &call->in[1].desc;
  int64_t tasks = hr__chunks(hr__norm_rows(&call->in[0].desc, weight), task_rows(weight->dim[0]));
  hr__pool_run(call->device->pool, call->threads, tasks, task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- backward ---- */

static int64_t rows_of(const hr_call *call) {
  return hr__norm_rows(&call->in[HR_NORM_X].desc, &call->in[HR_NORM_W].desc);
}

hr_range hr__norm_chunk(const hr_call *call, int64_t chunk) {
  int64_t rows = rows_of(call);
  return hr__chunk(rows, chunk_rows(rows), chunk);
}

float *hr__norm_sums(const hr_call *call, int64_t chunk) {
  int64_t count = (call->n_out - 1) * call->in[HR_NORM_W].desc.dim[0];
  if (!wants_sums(call->args)) return NULL;
  return memset((float *)call->workspace + chunk * count, 0, (size_t)count * sizeof(float));
}

/* Adds up the chunks' sums of one weight for one block of columns. */
HR_INLINE void sums_reduce(const hr_call *call, int weight, int64_t at) {
  const hr_tensor *to_tensor = &call->out[1 + weight], *partial = &call->in[HR_NORM_DW_PARTIAL + weight];
  int64_t columns = call->in[HR_NORM_W].desc.dim[0], rows = rows_of(call), weights = call->n_out - 1;
  int64_t chunks = hr__chunks(rows, chunk_rows(rows)), n = hr__min(HR_BLOCK, columns - at);
  float total[HR_BLOCK] = {0}, block[HR_BLOCK];

  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    const float *sums = (const float *)call->workspace + (weights * chunk + weight) * columns + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      total[i] += sums[i];
  }
  float *to = hr__target(to_tensor, at, block);
  const float *before = partial->data ? hr__load(partial, at, n, block) : NULL;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    to[i] = before ? before[i] + total[i] : total[i];
  hr__store(to_tensor, at, n, to);
}

HR_CLONES static void reduce_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_norm_bwd_args *args = call->args;
  (void)worker;
  if (args->want_dw) sums_reduce(call, 0, task * HR_BLOCK);
  if (args->want_db) sums_reduce(call, 1, task * HR_BLOCK);
}

hr_status hr__norm_bwd_run(const hr_call *call, hr_task chunk) {
  int64_t rows = rows_of(call), blocks = hr__chunks(call->in[HR_NORM_W].desc.dim[0], HR_BLOCK);
  void *arg = (void *)(uintptr_t)call;
  hr__pool_run(call->device->pool, call->threads, hr__chunks(rows, chunk_rows(rows)), chunk, arg);
  if (wants_sums(call->args)) hr__pool_run(call->device->pool, call->threads, blocks, reduce_task, arg);
  return HR_OK;
}
