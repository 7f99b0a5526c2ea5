/* lora_up on the CPU: one product per group and result, on that group's columns of y or dy:
 *
 *   y  [rows, n] += (scale h) [rows, rank]  Bt
 *   dh [rows, rank] = dy [rows, n]  (scale B) [n, rank]
 *   dB [n, rank]  += dyt [n, rows]  (scale h) [rows, rank]
 *
 * The scaled operand is small; it is an f32 copy in the workspace.
 */
#include "op/lora_up.h"

#include <string.h>

#include "base/mem.h"
#include "graph/adjoint.h"
#include "op/lora_up_cuda.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__lora_up(hr_builder *b, hr_id h, hr_id B, hr_id add, const hr_lora_up_args *args) {
  return hr__emit(b, &hr_op_lora_up, (hr_id[]){h, B, add}, 3, args);
}

/* Rows of B before group g; g = groups: all. */
static int64_t rows_before(const hr_lora_up_args *a, int g) {
  int64_t rows = 0;
  for (int i = 0; i < g; i++)
    rows += a->rows[i];
  return rows;
}

static hr_status args_check(const hr_lora_up_args *a, hr_error *err) {
  if (a->groups < 1 || a->groups > HR_LORA_GROUPS || a->rank < 1)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%d groups of rank %lld", (int)a->groups, (long long)a->rank);
  int64_t end = 0;
  for (int g = 0; g < HR_LORA_GROUPS; g++) {
    bool sound = g < a->groups ? a->rows[g] >= 1 && a->first[g] >= end && a->rows[g] <= a->columns - a->first[g]
                               : a->rows[g] == 0 && a->first[g] == 0;
    if (!sound)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "group %d: columns %lld to %lld of %lld", g,
                      (long long)a->first[g], (long long)(a->first[g] + a->rows[g]), (long long)a->columns);
    end = a->first[g] + a->rows[g];
  }
  return HR_OK;
}

/* `like` with another last axis. */
static hr_desc with_columns(hr_desc like, int64_t columns) {
  if (like.rank > 0) like.dim[like.rank - 1] = columns;
  return like;
}

static hr_desc weight_desc(const hr_lora_up_args *a, hr_dtype dtype) {
  return (hr_desc){dtype, 2, {rows_before(a, a->groups), a->rank}};
}

static hr_status lora_up_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_lora_up_args *a = view->args;
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(args_check(a, err));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc h = with_columns(view->in[0], a->groups * a->rank), weight = weight_desc(a, h.dtype);
  HR_TRY(hr__shape_like(view, 0, &h, err));
  HR_TRY(hr__shape_like(view, 1, &weight, err));
  out[0] = with_columns(h, a->columns);
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status lora_up_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_lora_up_bwd_args *args = view->args;
  const hr_lora_up_args *a = &args->up;
  HR_TRY(hr__shape_operands(view, 4, 1u << 3, err));
  HR_TRY(args_check(a, err));
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(args->dtype));
  HR_TRY(hr__shape_float(view, 0, err));
  hr_desc dy = with_columns(view->in[0], a->columns), weight = weight_desc(a, dy.dtype);
  HR_TRY(hr__shape_like(view, 0, &dy, err));
  out[0] = with_columns(dy, a->groups * a->rank);
  HR_TRY(hr__shape_like(view, 1, &out[0], err));
  HR_TRY(hr__shape_like(view, 2, &weight, err));
  out[1] = weight_desc(a, args->dtype);
  return hr__shape_like(view, 3, &out[1], err);
}

static void lora_up_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, 0) || hr__wants_grad(a, 1)) {
    hr_lora_up_bwd_args args = {.up = *(const hr_lora_up_args *)node->args, .dtype = hr__grad_dtype(a, 1)};
    hr_id in[] = {dy, hr__saved_in(a, 0), hr__saved_in(a, 1), hr__grad_partial(a, 1)};
    hr_id dh = hr__emit(b, &hr_op_lora_up_bwd, in, 4, &args);
    hr__grad_add(a, 0, dh);
    hr__grad_set(a, 1, hr__node_out(b, dh, 1));
  }
  if (hr__wants_grad(a, 2)) hr__grad_add(a, 2, dy);
}

/* One pass over y or dy, with little else: a stream, though with arithmetic. */
static void lora_up_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_lora_up_args *a = view->args;
  double elements = (double)hr_desc_rows(&view->in[0]) * (double)rows_before(a, a->groups);
  hr__cost_stream(view, 2.0 * (double)a->rank * elements, cost);
}

static void lora_up_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_lora_up_args *a = &((const hr_lora_up_bwd_args *)view->args)->up;
  double elements = (double)hr_desc_rows(&view->in[0]) * (double)rows_before(a, a->groups);
  hr__cost_stream(view, 4.0 * (double)a->rank * elements, cost);
}

/* One call as the CPU's kernels see it. */
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

static void cap_raise(size_t *cap, hr_gemm_spec spec, int threads) {
  size_t bytes = hr__gemm_workspace(&spec, threads);
  if (bytes > *cap) *cap = bytes;
}

static lora_layout layout_of(const lora *l, int threads) {
  const hr_lora_up_args *a = &l->args;
  size_t cap = 0;
  for (int g = 0; g < a->groups; g++) {
    if (l->backward) {
      cap_raise(&cap, dh_spec(l, g), threads);
      cap_raise(&cap, db_spec(l, g), threads);
    } else {
      cap_raise(&cap, up_spec(l, g), threads);
    }
  }
  lora_layout layout = {.weight = floats_bytes(l->rows * a->groups * a->rank)};
  layout.gemm = layout.weight + (l->backward ? floats_bytes(rows_before(a, a->groups) * a->rank) : 0);
  layout.bytes = layout.gemm + cap;
  return layout;
}

static size_t lora_up_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  lora l = lora_of(&view->in[0], view->args, view->in[2].rank != 0);
  return kind == HR_CPU ? layout_of(&l, threads).bytes : 0;
}

static size_t lora_up_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  lora l = lora_bwd_of(&view->in[1], view->args, view->in[3].rank != 0);
  return kind == HR_CPU ? layout_of(&l, threads).bytes : hr__lora_cuda_of(l.rows, l.dtype, &l.args).bytes;
}

typedef struct lora_plan {
  lora lora;
  lora_layout layout;
  hr_gemm *up[HR_LORA_GROUPS], *dh[HR_LORA_GROUPS], *db[HR_LORA_GROUPS];
} lora_plan;

static void lora_release(void *prepared) {
  lora_plan *plan = prepared;
  if (!plan) return;
  for (int g = 0; g < HR_LORA_GROUPS; g++) {
    hr__gemm_destroy(plan->up[g]);
    hr__gemm_destroy(plan->dh[g]);
    hr__gemm_destroy(plan->db[g]);
  }
  hr__free(plan);
}

static hr_status gemm_make(hr_gemm **gemm, hr_gemm_spec spec, const hr_call *call, hr_error *err) {
  return hr__gemm_create(&spec, call->threads, call->device, gemm, err);
}

static hr_status plan_fill(lora_plan *plan, const hr_call *call, hr_error *err) {
  const lora *l = &plan->lora;
  for (int g = 0; g < l->args.groups; g++) {
    if (l->backward) {
      HR_TRY(gemm_make(&plan->dh[g], dh_spec(l, g), call, err));
      HR_TRY(gemm_make(&plan->db[g], db_spec(l, g), call, err));
    } else {
      HR_TRY(gemm_make(&plan->up[g], up_spec(l, g), call, err));
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
    lora_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

static hr_status lora_up_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return lora_prepare(call, lora_of(&call->in[0].desc, call->args, call->in[2].data != NULL), prepared, err);
}

static hr_status lora_up_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
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

static hr_status lora_up_run(const hr_call *call) {
  const lora_plan *plan = call->prepared;
  const hr_lora_up_args *a = &plan->lora.args;
  const hr_tensor *y = &call->out[0];
  float *h = call->workspace;
  if (plan->lora.add)
    hr__sum_begin(call, &call->in[2], y);
  else if (rows_before(a, a->groups) < a->columns)
    memset(y->data, 0, hr_desc_bytes(&y->desc));
  scaled(call, &call->in[0], a->scale, h);
  for (int g = 0; g < a->groups; g++)
    HR_TRY(lora_multiply(call, plan->up[g], h + g * a->rank, element(&call->in[1], rows_before(a, g) * a->rank),
                         element(y, a->first[g])));
  return HR_OK;
}

static hr_status lora_up_bwd_run(const hr_call *call) {
  const lora_plan *plan = call->prepared;
  const hr_lora_up_args *a = &plan->lora.args;
  const hr_tensor *dy = &call->in[0], *dh = &call->out[0], *db = &call->out[1];
  float *h = call->workspace, *weight = (float *)(void *)((char *)call->workspace + plan->layout.weight);
  if (plan->lora.add) hr__sum_begin(call, &call->in[3], db);
  scaled(call, &call->in[1], a->scale, h);
  scaled(call, &call->in[2], a->scale, weight);
  for (int g = 0; g < a->groups; g++) {
    int64_t at = rows_before(a, g) * a->rank;
    HR_TRY(lora_multiply(call, plan->dh[g], element(dy, a->first[g]), weight + at, element(dh, g * a->rank)));
    HR_TRY(lora_multiply(call, plan->db[g], element(dy, a->first[g]), h + g * a->rank, element(db, at)));
  }
  return HR_OK;
}

/* One group over all columns; two with a gap between; three, unlike, with gaps at both ends; more columns than a block
 * of CUDA takes, also in slabs. */
#define ARGS_WHOLE                                                                                                     \
  { .scale = 2.0f, .rank = 8, .groups = 1, .rows = {48}, .columns = 48 }
#define ARGS_GAP                                                                                                       \
  { .scale = 0.5f, .rank = 8, .groups = 2, .first = {0, 96}, .rows = {64, 32}, .columns = 128 }
#define ARGS_ODD                                                                                                       \
  { .scale = 1.7f, .rank = 5, .groups = 3, .first = {3, 10, 70}, .rows = {7, 33, 20}, .columns = 91 }
#define ARGS_WIDE                                                                                                      \
  { .scale = 2.0f, .rank = 16, .groups = 2, .first = {0, 264}, .rows = {264, 72}, .columns = 336 }

#define ARGS_LONG                                                                                                      \
  { .scale = 2.0f, .rank = 8, .groups = 2, .first = {8, 1048}, .rows = {1032, 24}, .columns = 1080 }

#define ARGS_SLABS                                                                                                     \
  { .scale = 0.7f, .rank = 16, .groups = 2, .first = {32, 608}, .rows = {544, 64}, .columns = 704 }

static const hr_sample lora_up_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 9, 8}}, {HR_F32, 2, {48, 8}}, {HR_F32, 3, {2, 9, 48}}},
     .args = &(const hr_lora_up_args)ARGS_WHOLE},
    {.n_in = 3, .in = {{HR_F32, 2, {70, 16}}, {HR_F32, 2, {96, 8}}}, .args = &(const hr_lora_up_args)ARGS_GAP},
    {.n_in = 3,
     .in = {{HR_F32, 2, {19, 15}}, {HR_F32, 2, {60, 5}}, {HR_F32, 2, {19, 91}}},
     .args = &(const hr_lora_up_args)ARGS_ODD},
    {.n_in = 3,
     .in = {{HR_F32, 3, {3, 67, 32}}, {HR_F32, 2, {336, 16}}, {HR_F32, 3, {3, 67, 336}}},
     .args = &(const hr_lora_up_args)ARGS_WIDE},
    {.n_in = 3,
     .in = {{HR_F32, 2, {21, 16}}, {HR_F32, 2, {1056, 8}}, {HR_F32, 2, {21, 1080}}},
     .args = &(const hr_lora_up_args)ARGS_LONG},
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 41, 32}}, {HR_F32, 2, {608, 16}}, {HR_F32, 3, {2, 41, 704}}},
     .args = &(const hr_lora_up_args)ARGS_SLABS},
};

static const hr_sample lora_up_bwd_samples[] = {
    {.n_in = 4,
     .in = {{HR_F32, 3, {2, 9, 48}}, {HR_F32, 3, {2, 9, 8}}, {HR_F32, 2, {48, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_WHOLE, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {70, 128}}, {HR_F32, 2, {70, 16}}, {HR_F32, 2, {96, 8}}, {HR_F32, 2, {96, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_GAP, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {19, 91}}, {HR_F32, 2, {19, 15}}, {HR_F32, 2, {60, 5}}, {HR_BF16, 2, {60, 5}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_ODD, HR_BF16}},
    {.n_in = 4,
     .in = {{HR_F32, 3, {3, 67, 336}}, {HR_F32, 3, {3, 67, 32}}, {HR_F32, 2, {336, 16}}, {HR_F32, 2, {336, 16}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_WIDE, HR_F32}},
    {.n_in = 4,
     .in = {{HR_F32, 2, {21, 1080}}, {HR_F32, 2, {21, 16}}, {HR_F32, 2, {1056, 8}}},
     .args = &(const hr_lora_up_bwd_args){ARGS_LONG, HR_F32}},
};

const hr_op hr_op_lora_up = {
    .name = "lora_up",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_lora_up_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = ~0u,
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_ROWS,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lora_up_shape,
    .grad = lora_up_grad,
    .cost = lora_up_cost,
    .workspace = lora_up_workspace,
    .cpu = {.prepare = lora_up_prepare, .release = lora_release, .run = lora_up_run},
    .samples = lora_up_samples,
    .n_samples = sizeof lora_up_samples / sizeof *lora_up_samples,
};

const hr_op hr_op_lora_up_bwd = {
    .name = "lora_up_bwd",
    .n_in = 4,
    .n_out = 2,
    .optional = 1u << 3,
    .args_bytes = sizeof(hr_lora_up_bwd_args),
    .alias = {{3, 1, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = lora_up_bwd_shape,
    .cost = lora_up_bwd_cost,
    .workspace = lora_up_bwd_workspace,
    .cpu = {.prepare = lora_up_bwd_prepare, .release = lora_release, .run = lora_up_bwd_run},
    .samples = lora_up_bwd_samples,
    .n_samples = sizeof lora_up_bwd_samples / sizeof *lora_up_bwd_samples,
};
