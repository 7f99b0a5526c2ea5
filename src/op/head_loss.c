/* head_loss: projection to the vocabulary and cross-entropy, chunk by chunk of rows; see op/head_loss.h.
 *
 * The backward op computes the loss as well (its rule puts it in place of the forward op's). Per chunk of C rows:
 *
 *   logits  [C, V] = x Wt (+ bias)                f32, in the workspace
 *   dlogits [C, V] = (softmax - onehot) * scale   in place; scale = dloss * loss_weight; 0 for ignored rows
 *   dx      [C, H] = dlogits W
 *   dW      [V, H] += dlogitst x                  in its own type: 16-bit is rounded once per chunk
 *   db      [V]    += sum of dlogits over rows    the same
 *
 * Every chunk passes over the whole of W and dW, so chunks must be large enough for arithmetic to outweigh that
 * traffic: see chunk_rows_of.
 */
#include "op/head_loss.h"

#include <math.h>

#include "base/mem.h"
#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/head_loss_cuda.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

enum {
  CHUNK_BYTES = 8 << 20, /* logits of a chunk, unless the vocabulary is large */
  CHUNK_GRAIN = 16,      /* chunks are multiples of this many rows */
  WEIGHT_SHARE = 8,      /* ... or this part of the weight's f32 size, where that is more */
  ROW_TASK = 16384,      /* logits in one task of the softmax */
  LANES = 32,            /* maxima side by side */
  DB_COLUMNS = 256       /* columns of one task that sums db */
};

/* Operands from the fifth on; those before are x, W, targets and control in both ops. */
enum { FWD_BIAS = 4, FWD_COUNT };
enum { BWD_DLOSS = 4, BWD_DX_PARTIAL, BWD_DW_PARTIAL, BWD_BIAS, BWD_DB_PARTIAL, BWD_COUNT };
enum { BWD_OPTIONAL = 1u << BWD_DX_PARTIAL | 1u << BWD_DW_PARTIAL | 1u << BWD_BIAS | 1u << BWD_DB_PARTIAL };

hr_id hr__head_loss(hr_builder *b, hr_id x, hr_id weight, hr_id targets) {
  return hr__head_loss_biased(b, x, weight, HR_NONE, targets);
}

hr_id hr__head_loss_biased(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id targets) {
  hr_head_loss_args args = {0};
  hr_id in[FWD_COUNT] = {x, weight, targets, hr__control(b), bias};
  return hr__emit(b, &hr_op_head_loss, in, FWD_COUNT, &args);
}

/* What both ops check alike. */
static hr_status head_check(const hr_op_view *view, int bias_in, int64_t chunk_rows, hr_error *err) {
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 1, err));
  const hr_desc *x = &view->in[0], *w = &view->in[1], *control = &view->in[3];
  if (x->rank < 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x has rank %d, expected at least 2", x->rank);
  if (w->rank != 2 || w->dtype != x->dtype || w->dim[1] != hr_desc_columns(x))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the weight does not go with rows of %s [%lld]",
                    hr_dtype_name(x->dtype), (long long)hr_desc_columns(x));
  if (w->dim[0] > INT32_MAX)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a vocabulary of %lld does not fit i32", (long long)w->dim[0]);
  hr_desc targets = *x;
  targets.dtype = HR_I32;
  targets.rank--;
  HR_TRY(hr__shape_like(view, 2, &targets, err));
  if (control->dtype != HR_U8 || hr_desc_bytes(control) != sizeof(hr_control))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand 3 is not a control block");
  if (chunk_rows < 0) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "chunk_rows is negative");
  hr_desc bias = hr__desc1(HR_F32, w->dim[0]);
  return hr__shape_like_float(view, bias_in, &bias, err);
}

static hr_status head_loss_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_head_loss_args *args = view->args;
  HR_TRY(hr__shape_operands(view, FWD_COUNT, 1u << FWD_BIAS, err));
  HR_TRY(head_check(view, FWD_BIAS, args->chunk_rows, err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static hr_status head_loss_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_head_loss_bwd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, BWD_COUNT, BWD_OPTIONAL, err));
  HR_TRY(head_check(view, BWD_BIAS, args->chunk_rows, err));
  hr_desc scalar = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_like(view, BWD_DLOSS, &scalar, err));
  out[0] = scalar;
  out[1] = args->want_dx ? view->in[0] : hr__desc1(view->in[0].dtype, 0);
  if (!(HR_DTYPE_BIT(args->dw_dtype) & HR_FLOATS) || !(HR_DTYPE_BIT(args->db_dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "gradients of types %s and %s", hr_dtype_name(args->dw_dtype),
                    hr_dtype_name(args->db_dtype));
  out[2] = args->want_dw ? view->in[1] : hr__desc1(HR_F32, 0);
  out[2].dtype = args->dw_dtype;
  out[3] = hr__desc1(args->db_dtype, args->want_db ? view->in[1].dim[0] : 0);
  HR_TRY(hr__shape_like(view, BWD_DX_PARTIAL, &out[1], err));
  HR_TRY(hr__shape_like(view, BWD_DW_PARTIAL, &out[2], err));
  return hr__shape_like(view, BWD_DB_PARTIAL, &out[3], err);
}

static void head_loss_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dloss = hr__out_grad(a, 0);
  hr_head_loss_bwd_args args = {.chunk_rows = ((const hr_head_loss_args *)node->args)->chunk_rows,
                                .want_dx = hr__wants_grad(a, 0),
                                .want_dw = hr__wants_grad(a, 1),
                                .dw_dtype = hr__grad_dtype(a, 1),
                                .want_db = hr__wants_grad(a, FWD_BIAS),
                                .db_dtype = HR_F32};
  if (dloss == HR_NONE || !(args.want_dx || args.want_dw || args.want_db)) return;
  if (args.want_db) args.db_dtype = hr__grad_dtype(a, FWD_BIAS);
  hr_id in[BWD_COUNT] = {
      hr__saved_in(a, 0),     hr__saved_in(a, 1),     hr__saved_in(a, 2),        hr__saved_in(a, 3),           dloss,
      hr__grad_partial(a, 0), hr__grad_partial(a, 1), hr__saved_in(a, FWD_BIAS), hr__grad_partial(a, FWD_BIAS)};
  hr_id loss = hr__emit(b, &hr_op_head_loss_bwd, in, BWD_COUNT, &args);
  if (args.want_dx) hr__grad_set(a, 0, hr__node_out(b, loss, 1));
  if (args.want_dw) hr__grad_set(a, 1, hr__node_out(b, loss, 2));
  if (args.want_db) hr__grad_set(a, FWD_BIAS, hr__node_out(b, loss, 3));
  hr__replace_out(a, 0, loss);
}

/* A chunk's traffic is two passes over W and two over dW, its arithmetic 6 C V H: with C = H / WEIGHT_SHARE rows the
 * arithmetic takes longer for the usual H, and the logits take a small part of what W, dW and the moments take. */
static int64_t chunk_rows_of(int64_t rows, int64_t vocabulary, int64_t width, int64_t wanted) {
  if (wanted > 0) return hr__min(wanted, rows);
  int64_t most = CHUNK_BYTES / 4 / vocabulary;
  if (most < width / WEIGHT_SHARE) most = width / WEIGHT_SHARE;
  if (most < CHUNK_GRAIN) most = CHUNK_GRAIN;
  int64_t chunks = hr__chunks(rows, most);
  int64_t even = hr__chunks(hr__chunks(rows, chunks), CHUNK_GRAIN) * CHUNK_GRAIN;
  return hr__min(even, rows);
}

/* One call as the kernels see it. */
typedef struct head {
  int64_t rows, width, vocabulary;
  int64_t chunk_rows, chunks, last_rows;
  hr_dtype dtype, dw_dtype;
  bool want_dx, want_dw, want_db;
  bool add_dx, add_dw; /* something is in the result already */
} head;

static head head_of(const hr_desc *x, const hr_desc *w, int64_t chunk_rows) {
  head h = {.rows = hr_desc_rows(x), .width = w->dim[1], .vocabulary = w->dim[0], .dtype = x->dtype};
  h.chunk_rows = chunk_rows_of(h.rows, h.vocabulary, h.width, chunk_rows);
  h.chunks = hr__chunks(h.rows, h.chunk_rows);
  h.last_rows = h.rows - (h.chunks - 1) * h.chunk_rows;
  return h;
}

static head head_bwd_of(const hr_desc *x, const hr_desc *w, const hr_head_loss_bwd_args *args, bool add_dx,
                        bool add_dw) {
  head h = head_of(x, w, args->chunk_rows);
  h.want_dx = args->want_dx;
  h.want_dw = args->want_dw;
  h.want_db = args->want_db;
  h.dw_dtype = args->dw_dtype;
  h.add_dx = add_dx;
  h.add_dw = add_dw;
  return h;
}

static head view_head(const hr_op_view *view) {
  return head_of(&view->in[0], &view->in[1], ((const hr_head_loss_args *)view->args)->chunk_rows);
}

static head view_head_bwd(const hr_op_view *view) {
  return head_bwd_of(&view->in[0], &view->in[1], view->args, view->in[BWD_DX_PARTIAL].rank != 0,
                     view->in[BWD_DW_PARTIAL].rank != 0);
}

static hr_gemm_spec logits_spec(const head *h, int64_t rows) {
  return (hr_gemm_spec){.m = rows,
                        .n = h->vocabulary,
                        .k = h->width,
                        .lda = h->width,
                        .ldb = h->width,
                        .ldc = h->vocabulary,
                        .transpose_b = true,
                        .a = h->dtype,
                        .b = h->dtype,
                        .c = HR_F32};
}

static hr_gemm_spec dx_spec(const head *h, int64_t rows) {
  return (hr_gemm_spec){.m = rows,
                        .n = h->width,
                        .k = h->vocabulary,
                        .lda = h->vocabulary,
                        .ldb = h->width,
                        .ldc = h->width,
                        .accumulate = h->add_dx,
                        .a = HR_F32,
                        .b = h->dtype,
                        .c = h->dtype};
}

static hr_gemm_spec dw_spec(const head *h, int64_t rows, bool add) {
  return (hr_gemm_spec){.m = h->vocabulary,
                        .n = h->width,
                        .k = rows,
                        .lda = h->vocabulary,
                        .ldb = h->width,
                        .ldc = h->width,
                        .transpose_a = true,
                        .accumulate = add,
                        .a = HR_F32,
                        .b = h->dtype,
                        .c = h->dw_dtype};
}

static void cost_add(hr_cost *cost, const head *h, hr_gemm_spec spec) {
  hr_product product = hr__product_of(&spec);
  product.times = h->chunks;
  cost->products[cost->n_products++] = product;
  cost->flops += 2.0 * (double)h->rows * (double)h->width * (double)h->vocabulary;
}

static void head_cost(const head *h, hr_cost *cost) {
  double logits = (double)h->rows * (double)h->vocabulary;
  *cost = (hr_cost){.op_class = HR_CLASS_PRODUCT, .flops = 12.0 * logits, .bytes = 8.0 * logits};
  cost_add(cost, h, logits_spec(h, h->chunk_rows));
  if (h->want_dx) cost_add(cost, h, dx_spec(h, h->chunk_rows));
  if (h->want_dw) cost_add(cost, h, dw_spec(h, h->chunk_rows, h->add_dw || h->chunks > 1));
}

/* CUDA cuts rows in its own way: see op/head_loss_cuda.h. */
static void head_cost_on(head *h, int64_t wanted, hr_device_kind kind, hr_cost *cost) {
  if (kind == HR_CUDA) {
    h->chunk_rows =
        hr__head_cuda_chunk(h->rows, hr__head_cuda_up(h->vocabulary, HR_HEAD_CUDA_LINE), h->want_dw, wanted);
    h->chunks = hr__chunks(h->rows, h->chunk_rows);
  }
  head_cost(h, cost);
}

static void head_loss_cost(const hr_op_view *view, hr_cost *cost) {
  head h = view_head(view);
  head_cost_on(&h, ((const hr_head_loss_args *)view->args)->chunk_rows, view->kind, cost);
}

static void head_loss_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  head h = view_head_bwd(view);
  head_cost_on(&h, ((const hr_head_loss_bwd_args *)view->args)->chunk_rows, view->kind, cost);
}

/* Where the workspace keeps things, in bytes from its start. */
typedef struct head_layout {
  size_t logits; /* f32 [chunk_rows, V] */
  size_t losses; /* f64 [chunk_rows] */
  size_t gemm;
  size_t bytes;
} head_layout;

static void cap_raise(size_t *cap, hr_gemm_spec spec, int threads) {
  size_t bytes = hr__gemm_workspace(&spec, threads);
  if (bytes > *cap) *cap = bytes;
}

static head_layout layout_of(const head *h, int threads) {
  const size_t line = 64;
  size_t cap = 0;
  for (int last = 0; last < 2; last++) {
    int64_t rows = last ? h->last_rows : h->chunk_rows;
    cap_raise(&cap, logits_spec(h, rows), threads);
    if (h->want_dx) cap_raise(&cap, dx_spec(h, rows), threads);
    if (h->want_dw) cap_raise(&cap, dw_spec(h, rows, true), threads);
  }
  head_layout l = {.losses = ((size_t)h->chunk_rows * (size_t)h->vocabulary * sizeof(float) + line - 1) / line * line};
  l.gemm = l.losses + ((size_t)h->chunk_rows * sizeof(double) + line - 1) / line * line;
  l.bytes = l.gemm + cap;
  return l;
}

static size_t cuda_bytes(const head *h, int64_t wanted) {
  return hr__head_cuda_of(h->rows, h->width, h->vocabulary, wanted, h->dtype, h->want_dx, h->want_dw, h->dw_dtype)
      .bytes;
}

static size_t head_loss_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  head h = view_head(view);
  return kind == HR_CPU ? layout_of(&h, threads).bytes
                        : cuda_bytes(&h, ((const hr_head_loss_args *)view->args)->chunk_rows);
}

static size_t head_loss_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  head h = view_head_bwd(view);
  return kind == HR_CPU ? layout_of(&h, threads).bytes
                        : cuda_bytes(&h, ((const hr_head_loss_bwd_args *)view->args)->chunk_rows);
}

/* Products by [whole or last chunk]; the first chunk may write dW where the others add. */
typedef struct head_plan {
  head head;
  head_layout layout;
  hr_gemm *logits[2], *dx[2], *dw[2], *dw_first;
} head_plan;

static void head_release(void *prepared) {
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

static hr_status gemm_make(hr_gemm **gemm, hr_gemm_spec spec, const hr_call *call, hr_error *err) {
  return hr__gemm_create(&spec, call->threads, call->device, gemm, err);
}

/* The single chunk of a short call is "last"; "whole" exists only with several chunks. */
static hr_status plan_fill(head_plan *plan, const hr_call *call, hr_error *err) {
  const head *h = &plan->head;
  for (int last = h->chunks > 1 ? 0 : 1; last < 2; last++) {
    int64_t rows = last ? h->last_rows : h->chunk_rows;
    HR_TRY(gemm_make(&plan->logits[last], logits_spec(h, rows), call, err));
    if (h->want_dx) HR_TRY(gemm_make(&plan->dx[last], dx_spec(h, rows), call, err));
    bool add = h->add_dw || h->chunks > 1;
    if (h->want_dw) HR_TRY(gemm_make(&plan->dw[last], dw_spec(h, rows, add), call, err));
  }
  if (h->want_dw && h->chunks > 1) HR_TRY(gemm_make(&plan->dw_first, dw_spec(h, h->chunk_rows, h->add_dw), call, err));
  return HR_OK;
}

static hr_status head_prepare(const hr_call *call, head h, void **prepared, hr_error *err) {
  head_layout layout = layout_of(&h, call->threads);
  HR_TRY(hr__workspace_check(call, layout.bytes, err));
  head_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->head = h;
  plan->layout = layout;
  hr_status status = plan_fill(plan, call, err);
  if (status != HR_OK) {
    head_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

static hr_status head_loss_prepare(const hr_call *call, void **prepared, hr_error *err) {
  int64_t chunk_rows = ((const hr_head_loss_args *)call->args)->chunk_rows;
  return head_prepare(call, head_of(&call->in[0].desc, &call->in[1].desc, chunk_rows), prepared, err);
}

static hr_status head_loss_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  head h = head_bwd_of(&call->in[0].desc, &call->in[1].desc, call->args, call->in[BWD_DX_PARTIAL].data != NULL,
                       call->in[BWD_DW_PARTIAL].data != NULL);
  return head_prepare(call, h, prepared, err);
}

/* The softmax of one chunk. */
typedef struct softmax_job {
  float *logits;
  const hr_tensor *bias; /* added to every row; data is NULL where there is none */
  const int32_t *targets;
  double *losses;
  int64_t rows, columns, task_rows;
  bool backward;
  float scale; /* factor on dlogits */
} softmax_job;

HR_INLINE float row_max(const float *x, int64_t n) {
  float lane[LANES];
  int64_t i = 0;
  for (int j = 0; j < LANES; j++)
    lane[j] = -INFINITY;
  for (; i + LANES <= n; i += LANES)
#pragma omp simd
    for (int j = 0; j < LANES; j++)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < n; i++)
    lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
  return lane[0];
}

HR_INLINE void row_add(float *x, const hr_tensor *bias, int64_t n) {
  float block[HR_BLOCK];
  for (int64_t first = 0; first < n; first += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, n - first);
    const float *add = hr__load(bias, first, count, block);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
      x[first + i] += add[i];
  }
}

/* x becomes exp(x - most); returns the sum. */
HR_INLINE double row_exp(float *x, int64_t n, float most) {
  double total = 0.0;
  for (int64_t first = 0; first < n; first += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, n - first);
    float *block = x + first, sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
      block[i] = hr__expf(block[i] - most);
      sum += block[i];
    }
    total += (double)sum;
  }
  return total;
}

HR_CLONES static void softmax_task(void *arg, int64_t task, int worker) {
  const softmax_job *job = arg;
  hr_range range = hr__chunk(job->rows, job->task_rows, task);
  int64_t n = job->columns;
  (void)worker;
  for (int64_t row = range.first; row < range.end; row++) {
    float *x = job->logits + row * n;
    int32_t target = job->targets[row];
    job->losses[row] = 0.0;
    if (target < 0 || target >= n) {
      if (job->backward) memset(x, 0, (size_t)n * sizeof *x);
      continue;
    }
    if (job->bias->data) row_add(x, job->bias, n);
    float most = row_max(x, n), chosen = x[target];
    double sum = row_exp(x, n, most);
    job->losses[row] = log(sum) + (double)most - (double)chosen;
    if (!job->backward) continue;
    float factor = (float)((double)job->scale / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      x[i] *= factor;
    x[target] -= job->scale;
  }
}

/* db (+)= the sum over rows of a chunk's dlogits, for one block of columns. */
typedef struct db_job {
  const float *dlogits; /* [rows, columns] */
  int64_t rows, columns;
  const hr_tensor *before; /* data is NULL: nothing to add to */
  const hr_tensor *db;
} db_job;

HR_CLONES static void db_task(void *arg, int64_t task, int worker) {
  const db_job *job = arg;
  hr_range range = hr__chunk(job->columns, DB_COLUMNS, task);
  int64_t n = range.end - range.first;
  double total[DB_COLUMNS];
  float block[DB_COLUMNS];
  (void)worker;
  const float *before = job->before->data ? hr__load(job->before, range.first, n, block) : NULL;
  for (int64_t i = 0; i < n; i++)
    total[i] = before ? (double)before[i] : 0.0;
  for (int64_t row = 0; row < job->rows; row++) {
    const float *from = job->dlogits + row * job->columns + range.first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      total[i] += (double)from[i];
  }
  float *to = hr__target(job->db, range.first, block);
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)total[i];
  hr__store(job->db, range.first, n, to);
}

static const void *row_at(const hr_tensor *tensor, int64_t row, int64_t width) {
  return (const char *)tensor->data + (size_t)(row * width) * hr_dtype_bytes(tensor->desc.dtype);
}

/* One chunk: logits, loss and, going backward, gradients; adds its rows to *loss. */
static hr_status chunk_run(const hr_call *call, int64_t chunk, bool backward, float scale, double *loss) {
  const head_plan *plan = call->prepared;
  const head *h = &plan->head;
  hr_pool *pool = call->device->pool;
  bool last = chunk == h->chunks - 1;
  int64_t first = chunk * h->chunk_rows, rows = last ? h->last_rows : h->chunk_rows;
  char *workspace = call->workspace;
  float *logits = (float *)(void *)(workspace + plan->layout.logits);
  double *losses = (double *)(void *)(workspace + plan->layout.losses);
  void *scratch = workspace + plan->layout.gemm;
  const void *x = row_at(&call->in[0], first, h->width), *w = call->in[1].data;

  HR_TRY(hr__gemm_run(plan->logits[last], pool, call->threads, x, w, logits, scratch));
  softmax_job job = {.logits = logits,
                     .bias = &call->in[backward ? BWD_BIAS : FWD_BIAS],
                     .targets = (const int32_t *)call->in[2].data + first,
                     .losses = losses,
                     .rows = rows,
                     .columns = h->vocabulary,
                     .task_rows = 1 + ROW_TASK / h->vocabulary,
                     .backward = backward,
                     .scale = scale};
  hr__pool_run(pool, call->threads, hr__chunks(rows, job.task_rows), softmax_task, &job);
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
    db_job sums = {logits, rows, h->vocabulary, chunk > 0 ? db : &call->in[BWD_DB_PARTIAL], db};
    hr__pool_run(pool, call->threads, hr__chunks(h->vocabulary, DB_COLUMNS), db_task, &sums);
  }
  return HR_OK;
}

static hr_status head_run(const hr_call *call, bool backward) {
  const head_plan *plan = call->prepared;
  const hr_control *control = call->in[3].data;
  float scale = backward ? *(const float *)call->in[BWD_DLOSS].data * control->loss_weight : 0.0f;
  double loss = 0.0;
  for (int64_t chunk = 0; chunk < plan->head.chunks; chunk++)
    HR_TRY(chunk_run(call, chunk, backward, scale, &loss));
  *(float *)call->out[0].data = (float)(loss * (double)control->loss_weight);
  return HR_OK;
}

static hr_status head_loss_run(const hr_call *call) {
  return head_run(call, false);
}

static hr_status head_loss_bwd_run(const hr_call *call) {
  const head *h = &((const head_plan *)call->prepared)->head;
  if (h->add_dx) hr__sum_begin(call, &call->in[BWD_DX_PARTIAL], &call->out[1]);
  if (h->add_dw) hr__sum_begin(call, &call->in[BWD_DW_PARTIAL], &call->out[2]);
  return head_run(call, true);
}

static const hr_sample head_loss_samples[] = {
    {.n_in = FWD_COUNT,
     .in = {{HR_F32, 3, {2, 9, 16}}, {HR_F32, 2, {37, 16}}, {HR_I32, 2, {2, 9}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_head_loss_args){0},
     .index_below = 37},
    {.n_in = FWD_COUNT,
     .in = {{HR_F32, 2, {21, 24}}, {HR_F32, 2, {70, 24}}, {HR_I32, 1, {21}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_head_loss_args){8},
     .index_below = 70},
    {.n_in = FWD_COUNT,
     .in = {{HR_F32, 2, {21, 24}},
            {HR_F32, 2, {70, 24}},
            {HR_I32, 1, {21}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {70}}},
     .args = &(const hr_head_loss_args){8},
     .index_below = 70},
};
static const hr_sample head_loss_bwd_samples[] = {
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 3, {2, 9, 16}},
            {HR_F32, 2, {37, 16}},
            {HR_I32, 2, {2, 9}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &(const hr_head_loss_bwd_args){0, true, true, HR_F32, false, HR_F32},
     .index_below = 37},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {21, 24}},
            {HR_F32, 2, {70, 24}},
            {HR_I32, 1, {21}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}},
            {HR_F32, 2, {21, 24}},
            {HR_BF16, 2, {70, 24}}},
     .args = &(const hr_head_loss_bwd_args){8, true, true, HR_BF16, false, HR_F32},
     .index_below = 70},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {21, 24}},
            {HR_F32, 2, {70, 24}},
            {HR_I32, 1, {21}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &(const hr_head_loss_bwd_args){8, true, false, HR_F32, false, HR_F32},
     .index_below = 70},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {5, 8}},
            {HR_F32, 2, {5003, 8}},
            {HR_I32, 1, {5}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &(const hr_head_loss_bwd_args){3, true, true, HR_F32, false, HR_F32},
     .index_below = 5003},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {21, 24}},
            {HR_F32, 2, {70, 24}},
            {HR_I32, 1, {21}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}},
            {0},
            {0},
            {HR_F32, 1, {70}},
            {HR_BF16, 1, {70}}},
     .args = &(const hr_head_loss_bwd_args){8, true, true, HR_F32, true, HR_BF16},
     .index_below = 70},
    {.n_in = BWD_COUNT,
     .in = {{HR_F32, 2, {5, 8}},
            {HR_F32, 2, {1301, 8}},
            {HR_I32, 1, {5}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}},
            {0},
            {0},
            {HR_F32, 1, {1301}}},
     .args = &(const hr_head_loss_bwd_args){3, true, false, HR_F32, true, HR_F32},
     .index_below = 1301},
};

const hr_op hr_op_head_loss = {
    .name = "head_loss",
    .n_in = FWD_COUNT,
    .n_out = 1,
    .optional = 1u << FWD_BIAS,
    .args_bytes = sizeof(hr_head_loss_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_IN(3) | HR_SAVE_IN(FWD_BIAS),
    .computes = 1u << 0 | 1u << 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = head_loss_shape,
    .grad = head_loss_grad,
    .cost = head_loss_cost,
    .workspace = head_loss_workspace,
    .cpu = {.prepare = head_loss_prepare, .release = head_release, .run = head_loss_run},
    .samples = head_loss_samples,
    .n_samples = sizeof head_loss_samples / sizeof *head_loss_samples,
};

const hr_op hr_op_head_loss_bwd = {
    .name = "head_loss_bwd",
    .n_in = BWD_COUNT,
    .n_out = 4,
    .optional = BWD_OPTIONAL,
    .args_bytes = sizeof(hr_head_loss_bwd_args),
    .alias = {{BWD_DX_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {BWD_DW_PARTIAL, 2, HR_ALIAS_ACCUMULATE},
              {BWD_DB_PARTIAL, 3, HR_ALIAS_ACCUMULATE}},
    .n_alias = 3,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = head_loss_bwd_shape,
    .cost = head_loss_bwd_cost,
    .workspace = head_loss_bwd_workspace,
    .cpu = {.prepare = head_loss_bwd_prepare, .release = head_release, .run = head_loss_bwd_run},
    .samples = head_loss_bwd_samples,
    .n_samples = sizeof head_loss_bwd_samples / sizeof *head_loss_bwd_samples,
};
