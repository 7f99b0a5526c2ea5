/* head_loss on the CPU: chunk after chunk, products by one gemm each, and the softmax between them. */
#include "base/mem.h"
#include "op/head_loss_parts.h"
#include "op/product.h"

/* Products by [whole or last chunk]; the first chunk may write dW where the others add. */
typedef struct head_plan {
  hr_head head;
  hr_head_layout layout;
  hr_gemm *logits[2], *dx[2], *dw[2], *dw_first;
} head_plan;

void hr__head_release(void *prepared) {
  head_plan *plan = prepared;
  if (!plan) return;
  for (int last = 0; last < 2; last++) {
    hr__gemm_destroy(plan->logits[last]);
    hr__gemm_destroy(plan->dx[last]);
    hr__gemm_destroy(plan->dw[last]);
  }
  hr__gemm_destroy(plan->dw_first);
  hr__free(plan);
}

/* The single chunk of a short call is "last"; "whole" exists only with several chunks. */
static hr_status plan_fill(head_plan *plan, const hr_call *call, hr_error *err) {
  const hr_head *h = &plan->head;
  for (int last = h->chunks > 1 ? 0 : 1; last < 2; last++) {
    int64_t rows = last ? h->last_rows : h->chunk_rows;
    HR_TRY(hr__product_make(&plan->logits[last], hr__head_logits(h, rows), call, err));
    if (h->want_dx) HR_TRY(hr__product_make(&plan->dx[last], hr__head_dx(h, rows), call, err));
    bool add = h->add_dw || h->chunks > 1;
    if (h->want_dw) HR_TRY(hr__product_make(&plan->dw[last], hr__head_dw(h, rows, add), call, err));
  }
  if (h->want_dw && h->chunks > 1)
    HR_TRY(hr__product_make(&plan->dw_first, hr__head_dw(h, h->chunk_rows, h->add_dw), call, err));
  return HR_OK;
}

static hr_status head_prepare(const hr_call *call, hr_head h, void **prepared, hr_error *err) {
  hr_head_layout layout = hr__head_layout_of(&h, call->threads);
  HR_TRY(hr__workspace_check(call, layout.bytes, err));
  head_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->head = h;
  plan->layout = layout;
  hr_status status = plan_fill(plan, call, err);
  if (status != HR_OK) {
    hr__head_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

hr_status hr__head_loss_prepare(const hr_call *call, void **prepared, hr_error *err) {
  int64_t chunk_rows = ((const hr_head_loss_args *)call->args)->chunk_rows;
  return head_prepare(call, hr__head_of(&call->in[0].desc, &call->in[1].desc, chunk_rows), prepared, err);
}

hr_status hr__head_loss_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_head h =
      hr__head_bwd_of(&call->in[0].desc, &call->in[1].desc, call->args, call->in[HR_HEAD_BWD_DX_PARTIAL].data != NULL,
                      call->in[HR_HEAD_BWD_DW_PARTIAL].data != NULL);
  return head_prepare(call, h, prepared, err);
}

static const void *row_at(const hr_tensor *tensor, int64_t row, int64_t width) {
  return (const char *)tensor->data + (size_t)(row * width) * hr_dtype_bytes(tensor->desc.dtype);
}

/* One chunk: logits, loss and, going backward, gradients; adds its rows to *loss. */
static hr_status chunk_run(const hr_call *call, int64_t chunk, bool backward, float scale, double *loss) {
  const head_plan *plan = call->prepared;
  const hr_head *h = &plan->head;
  hr_pool *pool = call->device->pool;
  bool last = chunk == h->chunks - 1;
  int64_t first = chunk * h->chunk_rows, rows = last ? h->last_rows : h->chunk_rows;
  char *workspace = call->workspace;
  float *logits = (float *)(void *)(workspace + plan->layout.logits);
  double *losses = (double *)(void *)(workspace + plan->layout.losses);
  void *scratch = workspace + plan->layout.gemm;
  const void *x = row_at(&call->in[0], first, h->width), *w = call->in[1].data;

  HR_TRY(hr__gemm_run(plan->logits[last], pool, call->threads, x, w, logits, scratch));
  hr_head_softmax job = {.logits = logits,
                         .bias = &call->in[backward ? HR_HEAD_BWD_BIAS : HR_HEAD_BIAS],
                         .targets = (const int32_t *)call->in[2].data + first,
                         .losses = losses,
                         .rows = rows,
                         .columns = h->vocabulary,
                         .backward = backward,
                         .scale = scale};
  hr__head_softmax(call, &job);
  for (int64_t row = 0; row < rows; row++)
    *loss += losses[row];

  if (backward && h->want_dx) {
    void *dx = (char *)call->out[1].data + (size_t)(first * h->width) * hr_dtype_bytes(h->dtype);
    HR_TRY(hr__gemm_run(plan->dx[last], pool, call->threads, logits, w, dx, scratch));
  }
  if (backward && h->want_dw) {
    const hr_gemm *dw = chunk == 0 && !last ? plan->dw_first : plan->dw[last];
    HR_TRY(hr__gemm_run(dw, pool, call->threads, logits, x, call->out[2].data, scratch));
  }
  if (backward && h->want_db) {
    const hr_tensor *db = &call->out[3];
    hr_head_db sums = {logits, rows, h->vocabulary, chunk > 0 ? db : &call->in[HR_HEAD_BWD_DB_PARTIAL], db};
    hr__head_db(call, &sums);
  }
  return HR_OK;
}

static hr_status head_run(const hr_call *call, bool backward) {
  const head_plan *plan = call->prepared;
  const hr_control *control = call->in[3].data;
  float scale = backward ? *(const float *)call->in[HR_HEAD_BWD_DLOSS].data * control->loss_weight : 0.0f;
  double loss = 0.0;
  for (int64_t chunk = 0; chunk < plan->head.chunks; chunk++)
    HR_TRY(chunk_run(call, chunk, backward, scale, &loss));
  *(float *)call->out[0].data = (float)(loss * (double)control->loss_weight);
  return HR_OK;
}

hr_status hr__head_loss_run(const hr_call *call) {
  return head_run(call, false);
}

hr_status hr__head_loss_bwd_run(const hr_call *call) {
  const hr_head *h = &((const head_plan *)call->prepared)->head;
  if (h->add_dx) hr__sum_begin(call, &call->in[HR_HEAD_BWD_DX_PARTIAL], &call->out[1]);
  if (h->add_dw) hr__sum_begin(call, &call->in[HR_HEAD_BWD_DW_PARTIAL], &call->out[2]);
  return head_run(call, true);
}
