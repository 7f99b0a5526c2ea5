/* lora_up on the CPU: one product per group and result, on that group's columns of y or dy:
 *
 *   y  [rows, n] += (scale h) [rows, rank]  Bt
 *   dh [rows, rank] = dy [rows, n]  (scale B) [n, rank]
 *   dB [n, rank]  += dyt [n, rows]  (scale h) [rows, rank]
 *
 * The scaled operand is small; it is an f32 copy in the workspace.
 */
#include <string.h>

#include "base/mem.h"
#include "op/lora_up_parts.h"
#include "op/product.h"
#include "op/stream.h"

/* One call. */
typedef struct lora {
  hr_lora_up_args args;
  int64_t rows;
  hr_dtype dtype, db_dtype;
  bool backward;
  bool add; /* something is in y, or in dB, already */
} lora;

static lora lora_of(const hr_desc *h, const hr_lora_up_args *args, bool add) {
  return (lora){.args = *args, .rows = hr_desc_rows(h), .dtype = h->dtype, .add = add};
}

static lora lora_bwd_of(const hr_desc *h, const hr_lora_up_bwd_args *args, bool add) {
  lora l = lora_of(h, &args->up, add);
  l.db_dtype = args->dtype;
  l.backward = true;
  return l;
}

static hr_gemm_spec up_spec(const lora *l, int g) {
  return (hr_gemm_spec){.m = l->rows,
                        .n = l->args.rows[g],
                        .k = l->args.rank,
                        .lda = l->args.groups * l->args.rank,
                        .ldb = l->args.rank,
                        .ldc = l->args.columns,
                        .transpose_b = true,
                        .accumulate = l->add,
                        .a = HR_F32,
                        .b = l->dtype,
                        .c = l->dtype};
}

static hr_gemm_spec dh_spec(const lora *l, int g) {
  return (hr_gemm_spec){.m = l->rows,
                        .n = l->args.rank,
                        .k = l->args.rows[g],
                        .lda = l->args.columns,
                        .ldb = l->args.rank,
                        .ldc = l->args.groups * l->args.rank,
                        .a = l->dtype,
                        .b = HR_F32,
                        .c = l->dtype};
}

static hr_gemm_spec db_spec(const lora *l, int g) {
  return (hr_gemm_spec){.m = l->args.rows[g],
                        .n = l->args.rank,
                        .k = l->rows,
                        .lda = l->args.columns,
                        .ldb = l->args.groups * l->args.rank,
                        .ldc = l->args.rank,
                        .transpose_a = true,
                        .accumulate = l->add,
                        .a = l->dtype,
                        .b = HR_F32,
                        .c = l->db_dtype};
}

/* Workspace, in bytes: scaled h, scaled B (backward), scratch of the products. */
typedef struct lora_layout {
  size_t weight, gemm, bytes;
} lora_layout;

static size_t floats_bytes(int64_t count) {
  return ((size_t)count * sizeof(float) + 63) & ~(size_t)63;
}

static lora_layout layout_of(const lora *l, int threads) {
  const hr_lora_up_args *a = &l->args;
  size_t cap = 0;
  for (int g = 0; g < a->groups; g++) {
    if (l->backward) {
      hr__product_cap(&cap, dh_spec(l, g), threads);
      hr__product_cap(&cap, db_spec(l, g), threads);
    } else {
      hr__product_cap(&cap, up_spec(l, g), threads);
    }
  }
  lora_layout layout = {.weight = floats_bytes(l->rows * a->groups * a->rank)};
  layout.gemm = layout.weight + (l->backward ? floats_bytes(hr__lora_rows_before(a, a->groups) * a->rank) : 0);
  layout.bytes = layout.gemm + cap;
  return layout;
}

size_t hr__lora_up_bytes(const hr_desc *h, const hr_lora_up_args *args, bool add, int threads) {
  lora l = lora_of(h, args, add);
  return layout_of(&l, threads).bytes;
}

size_t hr__lora_up_bwd_bytes(const hr_desc *h, const hr_lora_up_bwd_args *args, bool add, int threads) {
  lora l = lora_bwd_of(h, args, add);
  return layout_of(&l, threads).bytes;
}

static void products_list(const lora *l, int threads, hr_gemm_set *set) {
  for (int g = 0; g < l->args.groups; g++) {
    hr_gemm_spec up = up_spec(l, g), dh = dh_spec(l, g), db = db_spec(l, g);
    if (!l->backward) hr__gemm_set_add(set, &up, threads);
    if (l->backward) hr__gemm_set_add(set, &dh, threads);
    if (l->backward) hr__gemm_set_add(set, &db, threads);
  }
}

void hr__lora_up_products(const hr_desc *h, const hr_lora_up_args *args, bool add, int threads, hr_gemm_set *set) {
  lora l = lora_of(h, args, add);
  products_list(&l, threads, set);
}

void hr__lora_up_bwd_products(const hr_desc *h, const hr_lora_up_bwd_args *args, bool add, int threads,
                              hr_gemm_set *set) {
  lora l = lora_bwd_of(h, args, add);
  products_list(&l, threads, set);
}

typedef struct lora_plan {
  lora lora;
  lora_layout layout;
  hr_gemm *up[HR_LORA_GROUPS], *dh[HR_LORA_GROUPS], *db[HR_LORA_GROUPS];
} lora_plan;

void hr__lora_release(void *prepared) {
  lora_plan *plan = prepared;
  if (!plan) return;
  for (int g = 0; g < HR_LORA_GROUPS; g++) {
    hr__gemm_destroy(plan->up[g]);
    hr__gemm_destroy(plan->dh[g]);
    hr__gemm_destroy(plan->db[g]);
  }
  hr__free(plan);
}

static hr_status plan_fill(lora_plan *plan, const hr_call *call, hr_error *err) {
  const lora *l = &plan->lora;
  for (int g = 0; g < l->args.groups; g++) {
    if (l->backward) {
      HR_TRY(hr__product_make(&plan->dh[g], dh_spec(l, g), call, err));
      HR_TRY(hr__product_make(&plan->db[g], db_spec(l, g), call, err));
    } else {
      HR_TRY(hr__product_make(&plan->up[g], up_spec(l, g), call, err));
    }
  }
  return HR_OK;
}

static hr_status lora_prepare(const hr_call *call, lora l, void **prepared, hr_error *err) {
  lora_layout layout = layout_of(&l, call->threads);
  HR_TRY(hr__workspace_check(call, layout.bytes, err));
  lora_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->lora = l;
  plan->layout = layout;
  hr_status status = plan_fill(plan, call, err);
  if (status != HR_OK) {
    hr__lora_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

hr_status hr__lora_up_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return lora_prepare(call, lora_of(&call->in[0].desc, call->args, call->in[2].data != NULL), prepared, err);
}

hr_status hr__lora_up_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return lora_prepare(call, lora_bwd_of(&call->in[1].desc, call->args, call->in[3].data != NULL), prepared, err);
}

typedef struct scale_job {
  const hr_tensor *from;
  float *to;
  float scale;
} scale_job;

HR_CLONES static void scale_task(void *arg, int64_t task, int worker) {
  const scale_job *job = arg;
  hr_range chunk = hr__chunk(hr_desc_count(&job->from->desc), HR_CHUNK, task);
  float block[HR_BLOCK];
  (void)worker;
  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *from = hr__load(job->from, at, n, block);
    float *to = job->to + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = job->scale * from[i];
  }
}

/* to = scale x from, f32. */
static void scaled(const hr_call *call, const hr_tensor *from, float scale, float *to) {
  scale_job job = {from, to, scale};
  hr__pool_run(call->device->pool, call->threads, hr__chunks(hr_desc_count(&from->desc), HR_CHUNK), scale_task, &job);
}

static hr_status lora_multiply(const hr_call *call, const hr_gemm *gemm, const void *a, const void *b, void *c) {
  const lora_plan *plan = call->prepared;
  return hr__gemm_run(gemm, call->device->pool, call->threads, a, b, c, (char *)call->workspace + plan->layout.gemm);
}

/* Element `at` of a tensor. */
static char *element(const hr_tensor *tensor, int64_t at) {
  return (char *)tensor->data + (size_t)at * hr_dtype_bytes(tensor->desc.dtype);
}

hr_status hr__lora_up_run(const hr_call *call) {
  const lora_plan *plan = call->prepared;
  const hr_lora_up_args *a = &plan->lora.args;
  const hr_tensor *y = &call->out[0];
  float *h = call->workspace;
  if (plan->lora.add)
    hr__sum_begin(call, &call->in[2], y);
  else if (hr__lora_rows_before(a, a->groups) < a->columns)
    memset(y->data, 0, hr_desc_bytes(&y->desc));
  scaled(call, &call->in[0], a->scale, h);
  for (int g = 0; g < a->groups; g++)
    HR_TRY(lora_multiply(call, plan->up[g], h + g * a->rank,
                         element(&call->in[1], hr__lora_rows_before(a, g) * a->rank), element(y, a->first[g])));
  return HR_OK;
}

hr_status hr__lora_up_bwd_run(const hr_call *call) {
  const lora_plan *plan = call->prepared;
  const hr_lora_up_args *a = &plan->lora.args;
  const hr_tensor *dy = &call->in[0], *dh = &call->out[0], *db = &call->out[1];
  float *h = call->workspace, *weight = (float *)(void *)((char *)call->workspace + plan->layout.weight);
  if (plan->lora.add) hr__sum_begin(call, &call->in[3], db);
  scaled(call, &call->in[1], a->scale, h);
  scaled(call, &call->in[2], a->scale, weight);
  for (int g = 0; g < a->groups; g++) {
    int64_t at = hr__lora_rows_before(a, g) * a->rank;
    HR_TRY(lora_multiply(call, plan->dh[g], element(dy, a->first[g]), weight + at, element(dh, g * a->rank)));
    HR_TRY(lora_multiply(call, plan->db[g], element(dy, a->first[g]), h + g * a->rank, element(db, at)));
  }
  return HR_OK;
}
