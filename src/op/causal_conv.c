/* causal_conv: see causal_conv.h. On the CPU a task is a strip of positions of one sequence; columns go in blocks,
 * whose last k rows stay at hand. */
#include "op/causal_conv.h"

#include <string.h>

#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/copy.h"
#include "op/formulas.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { MOST = HR_CAUSAL_CONV_MOST, COLUMNS = 128 }; /* of a block */

hr_id hr__causal_conv(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id starts, int64_t first) {
  hr_causal_conv_args args = {first};
  return hr__emit(b, &hr_op_causal_conv, (hr_id[]){x, weight, bias, starts}, HR_CAUSAL_OPERANDS, &args);
}

/* ---- shape and gradient ---- */

/* Operands `x`, w, bias and starts. */
static hr_status operands_check(const hr_op_view *view, int x, hr_error *err) {
  const hr_causal_conv_args *args = view->args;
  const hr_desc *rows = &view->in[x], *w = &view->in[x + HR_CAUSAL_W];
  HR_TRY(hr__shape_float(view, x, err));
  HR_TRY(hr__shape_float(view, x + HR_CAUSAL_W, err));
  if (rows->rank < 3 || w->rank != 3 || w->dim[1] != 1 || w->dim[2] > MOST)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x must be [..., L, columns] and w [C, 1, k], k at most %d", MOST);
  if (args->first < 0 || args->first + w->dim[0] > rows->dim[rows->rank - 1])
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "columns from %lld on of %lld for %lld kernels",
                    (long long)args->first, (long long)rows->dim[rows->rank - 1], (long long)w->dim[0]);
  hr_desc bias = hr__desc1(HR_F32, w->dim[0]), starts = hr__shape_starts(rows);
  HR_TRY(hr__shape_like(view, x + HR_CAUSAL_STARTS, &starts, err));
  return view->in[x + HR_CAUSAL_BIAS].rank > 0 ? hr__shape_like_float(view, x + HR_CAUSAL_BIAS, &bias, err) : HR_OK;
}

static hr_desc y_desc(const hr_desc *x, const hr_desc *w) {
  hr_desc y = *x;
  y.dim[y.rank - 1] = w->dim[0];
  return y;
}

static hr_status causal_conv_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_CAUSAL_OPERANDS, hr_op_causal_conv.optional, err));
  HR_TRY(operands_check(view, HR_CAUSAL_X, err));
  out[0] = y_desc(&view->in[HR_CAUSAL_X], &view->in[HR_CAUSAL_W]);
  return HR_OK;
}

static hr_status causal_conv_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_CAUSAL_BWD_OPERANDS, hr_op_causal_conv_bwd.optional, err));
  HR_TRY(operands_check(view, HR_CAUSAL_BWD_X, err));
  const hr_desc *w = &view->in[HR_CAUSAL_BWD_W];
  hr_desc y = y_desc(&view->in[HR_CAUSAL_BWD_X], w);
  HR_TRY(hr__shape_like(view, HR_CAUSAL_DY, &y, err));
  out[0] = view->in[HR_CAUSAL_BWD_X];
  out[1] = hr__desc3(HR_F32, w->dim[0], 1, w->dim[2]);
  out[2] = hr__desc1(HR_F32, w->dim[0]);
  return hr__shape_like(view, HR_CAUSAL_BWD_PARTIAL, &out[0], err);
}

static void causal_conv_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  bool wants_x = hr__wants_grad(a, HR_CAUSAL_X);
  hr_id in[HR_CAUSAL_BWD_OPERANDS] = {dy,
                                      hr__saved_in(a, HR_CAUSAL_X),
                                      hr__saved_in(a, HR_CAUSAL_W),
                                      hr__saved_in(a, HR_CAUSAL_BIAS),
                                      hr__saved_in(a, HR_CAUSAL_STARTS),
                                      wants_x ? hr__grad_partial(a, HR_CAUSAL_X) : HR_NONE};
  hr_id dx = hr__emit(b, &hr_op_causal_conv_bwd, in, HR_CAUSAL_BWD_OPERANDS, node->args);
  if (dx == HR_NONE) return;
  if (wants_x) hr__grad_set(a, HR_CAUSAL_X, dx);
  for (int i = HR_CAUSAL_W; i <= HR_CAUSAL_BIAS; i++) {
    if (node->in[i] == HR_NONE || !hr__wants_grad(a, i)) continue;
    hr_id one = hr__node_out(b, dx, i);
    if (hr__grad_dtype(a, i) != HR_F32) one = hr__copy(b, one, hr__grad_dtype(a, i));
    hr__grad_add(a, i, one);
  }
}

/* Bytes of the columns that are read and written, not of whole rows. */
static void work_of(const hr_op_view *view, int x, int rows_moved, double flops, hr_cost *cost) {
  hr_causal_sizes s = hr__causal_sizes(&view->in[x], &view->in[x + HR_CAUSAL_W], view->args);
  double elements = (double)s.sequences * (double)s.length * (double)s.channels;
  hr__cost_stream(view, flops * elements * (double)s.kernel, cost);
  cost->bytes = rows_moved * elements * (double)hr_dtype_bytes(view->in[x].dtype);
}
static void causal_conv_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, HR_CAUSAL_X, 2, 8, cost);
}
static void causal_conv_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, HR_CAUSAL_BWD_X, 4, 16, cost);
}

/* Sums of each strip: k + 1 for every channel, on both devices. */
static size_t causal_conv_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_causal_sizes s = hr__causal_sizes(&view->in[HR_CAUSAL_BWD_X], &view->in[HR_CAUSAL_BWD_W], view->args);
  (void)kind, (void)threads;
  return (size_t)(s.sequences * hr__causal_strips(&s) * s.channels * (s.kernel + 1)) * sizeof(float);
}

/* ---- CPU ---- */

/* Columns [column, column + count) of the kernels, turned: weight[j][c], and the bias. */
typedef struct kernels {
  float weight[MOST][COLUMNS], bias[COLUMNS];
} kernels;

static void kernels_load(const hr_tensor *w, const hr_tensor *bias, int64_t k, int64_t column, int64_t count,
                         kernels *to) {
  float scratch;
  for (int64_t c = 0; c < count; c++) {
    to->bias[c] = bias->data ? *hr__load(bias, column + c, 1, &scratch) : 0.0f;
    for (int64_t j = 0; j < k; j++)
      to->weight[j][c] = *hr__load(w, (column + c) * k + j, 1, &scratch);
  }
}

static const int32_t *starts_of(const hr_tensor *starts, const hr_causal_sizes *s, int64_t sequence) {
  return starts->data ? (const int32_t *)starts->data + sequence * s->length : NULL;
}

/* Row t of x, or zeros outside of the sequence. */
HR_INLINE void row_load(const hr_tensor *x, const hr_causal_sizes *s, int64_t sequence, int64_t t, int64_t column,
                        int64_t count, float *to) {
  if (t < 0 || t >= s->length) {
    memset(to, 0, (size_t)count * sizeof *to);
    return;
  }
  const float *row = hr__load(x, (sequence * s->length + t) * s->columns + s->first + column, count, to);
  if (row != to) memcpy(to, row, (size_t)count * sizeof *to);
}

/* Whether position t sees `row`, which is not behind it; `starts` are those of the sequence, or NULL. */
HR_INLINE bool sees(const int32_t *starts, int64_t t, int64_t row) {
  return !starts || row >= starts[t];
}

/* What SiLU is given at position t; rows of x lie in a ring, row t at t mod MOST. */
HR_INLINE void before_silu(const kernels *w, const int32_t *starts, float (*ring)[COLUMNS], int64_t t, int64_t k,
                           int64_t count, float *to) {
  memcpy(to, w->bias, (size_t)count * sizeof *to);
  for (int64_t j = 0; j < k; j++) {
    if (!sees(starts, t, t - (k - 1) + j)) continue;
    const float *row = ring[(t - (k - 1) + j) & (MOST - 1)], *by = w->weight[j];
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
      to[c] += by[c] * row[c];
  }
}

HR_CLONES static void strip_forward(const hr_call *call, const hr_causal_sizes *s, int64_t sequence, hr_range strip,
                                    int64_t column, int64_t count) {
  const hr_tensor *x = &call->in[HR_CAUSAL_X], *y = &call->out[0];
  const int32_t *starts = starts_of(&call->in[HR_CAUSAL_STARTS], s, sequence);
  float ring[MOST][COLUMNS], block[COLUMNS];
  kernels w;
  kernels_load(&call->in[HR_CAUSAL_W], &call->in[HR_CAUSAL_BIAS], s->kernel, column, count, &w);
  for (int64_t t = strip.first - (s->kernel - 1); t < strip.end; t++) {
    row_load(x, s, sequence, t, column, count, ring[t & (MOST - 1)]);
    if (t < strip.first) continue;
    int64_t at = (sequence * s->length + t) * s->channels + column;
    float *to = hr__target(y, at, block);
    before_silu(&w, starts, ring, t, s->kernel, count, block);
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
      to[c] = block[c] / (1.0f + hr__expf(-block[c]));
    hr__store(y, at, count, to);
  }
}

/* sums: [channels, k + 1] of the strip. du of a row is needed by the k - 1 rows before it, so that the strip looks as
 * far behind its end. */
HR_CLONES static void strip_backward(const hr_call *call, const hr_causal_sizes *s, int64_t sequence, hr_range strip,
                                     int64_t column, int64_t count, float *sums) {
  const hr_tensor *dy = &call->in[HR_CAUSAL_DY], *x = &call->in[HR_CAUSAL_BWD_X], *dx = &call->out[0];
  const hr_tensor *partial = &call->in[HR_CAUSAL_BWD_PARTIAL];
  const int32_t *starts = starts_of(&call->in[HR_CAUSAL_BWD_STARTS], s, sequence);
  int64_t k = s->kernel;
  float ring[MOST][COLUMNS], du[MOST][COLUMNS], total[MOST + 1][COLUMNS], block[COLUMNS], scratch[COLUMNS];
  kernels w;
  kernels_load(&call->in[HR_CAUSAL_BWD_W], &call->in[HR_CAUSAL_BWD_BIAS], k, column, count, &w);
  memset(total, 0, sizeof total);
  for (int64_t t = strip.first - (k - 1); t < strip.end + k - 1; t++) {
    row_load(x, s, sequence, t, column, count, ring[t & (MOST - 1)]);
    if (t < strip.first) continue;
    float *slope = du[t & (MOST - 1)];
    memset(slope, 0, (size_t)count * sizeof *slope);
    if (t < s->length) {
      const float *from = hr__load(dy, (sequence * s->length + t) * s->channels + column, count, scratch);
      before_silu(&w, starts, ring, t, k, count, block);
#pragma omp simd
      for (int64_t c = 0; c < count; c++)
        slope[c] = from[c] * hr__silu_slope(block[c]);
    }
    if (t < strip.end) {
      for (int64_t j = 0; j < k; j++) {
        if (t < s->length && !sees(starts, t, t - (k - 1) + j)) continue;
        const float *row = ring[(t - (k - 1) + j) & (MOST - 1)];
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
          total[j][c] += slope[c] * row[c];
      }
#pragma omp simd
      for (int64_t c = 0; c < count; c++)
        total[k][c] += slope[c];
    }
    int64_t done = t - (k - 1); /* rows before it have all that they need */
    if (done < strip.first || done >= strip.end) continue;
    memset(block, 0, sizeof block);
    for (int64_t j = 0; j < k; j++) {
      int64_t later = done + k - 1 - j; /* its du is 0 behind the sequence */
      if (later < s->length && !sees(starts, later, done)) continue;
      const float *row = du[later & (MOST - 1)], *by = w.weight[j];
#pragma omp simd
      for (int64_t c = 0; c < count; c++)
        block[c] += by[c] * row[c];
    }
    int64_t at = (sequence * s->length + done) * s->columns + s->first + column;
    if (partial->data) {
      const float *before = hr__load(partial, at, count, scratch);
#pragma omp simd
      for (int64_t c = 0; c < count; c++)
        block[c] += before[c];
    }
    float *to = hr__target(dx, at, block);
    if (to != block) memcpy(to, block, (size_t)count * sizeof *to);
    hr__store(dx, at, count, to);
  }
  for (int64_t c = 0; c < count; c++)
    for (int64_t j = 0; j <= k; j++)
      sums[(column + c) * (k + 1) + j] = total[j][c];
}

static void forward_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_causal_sizes s = hr__causal_sizes(&call->in[HR_CAUSAL_X].desc, &call->in[HR_CAUSAL_W].desc, call->args);
  int64_t strips = hr__causal_strips(&s);
  hr_range strip = hr__chunk(s.length, HR_CAUSAL_STRIP, task % strips);
  (void)worker;
  for (int64_t c = 0; c < s.channels; c += COLUMNS)
    strip_forward(call, &s, task / strips, strip, c, hr__min(COLUMNS, s.channels - c));
}

static void backward_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_causal_sizes s = hr__causal_sizes(&call->in[HR_CAUSAL_BWD_X].desc, &call->in[HR_CAUSAL_BWD_W].desc, call->args);
  int64_t strips = hr__causal_strips(&s);
  hr_range strip = hr__chunk(s.length, HR_CAUSAL_STRIP, task % strips);
  float *sums = (float *)call->workspace + task * s.channels * (s.kernel + 1);
  (void)worker;
  for (int64_t c = 0; c < s.channels; c += COLUMNS)
    strip_backward(call, &s, task / strips, strip, c, hr__min(COLUMNS, s.channels - c), sums);
}

static hr_status causal_conv_run(const hr_call *call) {
  hr_causal_sizes s = hr__causal_sizes(&call->in[HR_CAUSAL_X].desc, &call->in[HR_CAUSAL_W].desc, call->args);
  hr__pool_run(call->device->pool, call->threads, s.sequences * hr__causal_strips(&s), forward_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

static hr_status causal_conv_bwd_run(const hr_call *call) {
  hr_causal_sizes s = hr__causal_sizes(&call->in[HR_CAUSAL_BWD_X].desc, &call->in[HR_CAUSAL_BWD_W].desc, call->args);
  const hr_tensor *partial = &call->in[HR_CAUSAL_BWD_PARTIAL], *dx = &call->out[0];
  int64_t tasks = s.sequences * hr__causal_strips(&s), k = s.kernel;
  if (!partial->data) /* the columns of others */
    memset(dx->data, 0, hr_desc_bytes(&dx->desc));
  else if (partial->data != dx->data)
    memcpy(dx->data, partial->data, hr_desc_bytes(&dx->desc));
  hr__pool_run(call->device->pool, call->threads, tasks, backward_task, (void *)(uintptr_t)call);
  const float *sums = call->workspace;
  for (int64_t c = 0; c < s.channels; c++)
    for (int64_t j = 0; j <= k; j++) {
      float total = 0.0f;
      for (int64_t i = 0; i < tasks; i++)
        total += sums[(i * s.channels + c) * (k + 1) + j];
      *(j < k ? (float *)call->out[1].data + c * k + j : (float *)call->out[2].data + c) = total;
    }
  return HR_OK;
}

/* ---- samples ---- */

/* Columns amid others; several strips; no bias; a kernel of one position; documents that are shorter than the kernel,
 * and such with borders anywhere in several strips. */
static const hr_causal_conv_args amid = {5}, whole = {0};
static const hr_sample causal_conv_samples[] = {
    {.n_in = HR_CAUSAL_OPERANDS,
     .in = {{HR_F32, 3, {2, 19, 32}}, {HR_F32, 3, {16, 1, 4}}, {HR_F32, 1, {16}}},
     .args = &amid},
    {.n_in = HR_CAUSAL_OPERANDS, .in = {{HR_F32, 4, {1, 2, 300, 131}}, {HR_F32, 3, {131, 1, 3}}}, .args = &whole},
    {.n_in = HR_CAUSAL_OPERANDS,
     .in = {{HR_F32, 3, {3, 2, 9}}, {HR_F32, 3, {4, 1, 1}}, {HR_F32, 1, {4}}},
     .args = &amid},
    {.n_in = HR_CAUSAL_OPERANDS,
     .in = {{HR_F32, 3, {2, 19, 32}}, {HR_F32, 3, {16, 1, 4}}, {HR_F32, 1, {16}}, {HR_I32, 2, {2, 19}}},
     .args = &amid,
     .index_below = 9,
     .index_ascends = true},
    {.n_in = HR_CAUSAL_OPERANDS,
     .in = {{HR_F32, 4, {1, 2, 300, 131}}, {HR_F32, 3, {131, 1, 3}}, {0}, {HR_I32, 3, {1, 2, 300}}},
     .args = &whole,
     .index_below = 100,
     .index_ascends = true},
};
static const hr_sample causal_conv_bwd_samples[] = {
    {.n_in = HR_CAUSAL_BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 19, 16}},
            {HR_F32, 3, {2, 19, 32}},
            {HR_F32, 3, {16, 1, 4}},
            {HR_F32, 1, {16}},
            {0},
            {HR_F32, 3, {2, 19, 32}}},
     .args = &amid},
    {.n_in = HR_CAUSAL_BWD_OPERANDS,
     .in = {{HR_F32, 4, {1, 2, 300, 131}}, {HR_F32, 4, {1, 2, 300, 131}}, {HR_F32, 3, {131, 1, 3}}},
     .args = &whole},
    {.n_in = HR_CAUSAL_BWD_OPERANDS,
     .in = {{HR_F32, 3, {3, 2, 4}}, {HR_F32, 3, {3, 2, 9}}, {HR_F32, 3, {4, 1, 1}}, {HR_F32, 1, {4}}},
     .args = &amid},
    {.n_in = HR_CAUSAL_BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 19, 16}},
            {HR_F32, 3, {2, 19, 32}},
            {HR_F32, 3, {16, 1, 4}},
            {HR_F32, 1, {16}},
            {HR_I32, 2, {2, 19}},
            {HR_F32, 3, {2, 19, 32}}},
     .args = &amid,
     .index_below = 9,
     .index_ascends = true},
    {.n_in = HR_CAUSAL_BWD_OPERANDS,
     .in = {{HR_F32, 4, {1, 2, 300, 131}},
            {HR_F32, 4, {1, 2, 300, 131}},
            {HR_F32, 3, {131, 1, 3}},
            {0},
            {HR_I32, 3, {1, 2, 300}}},
     .args = &whole,
     .index_below = 100,
     .index_ascends = true},
};

const hr_op hr_op_causal_conv = {
    .name = "causal_conv",
    .n_in = HR_CAUSAL_OPERANDS,
    .n_out = 1,
    .light = true,
    .optional = 1u << HR_CAUSAL_BIAS | 1u << HR_CAUSAL_STARTS,
    .args_bytes = sizeof(hr_causal_conv_args),
    .saves =
        HR_SAVE_IN(HR_CAUSAL_X) | HR_SAVE_IN(HR_CAUSAL_W) | HR_SAVE_IN(HR_CAUSAL_BIAS) | HR_SAVE_IN(HR_CAUSAL_STARTS),
    .computes = 1u << HR_CAUSAL_X,
    .axes = HR_AXES_BATCH,
    .shares = 1u << HR_CAUSAL_W | 1u << HR_CAUSAL_BIAS,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = causal_conv_shape,
    .grad = causal_conv_grad,
    .cost = causal_conv_cost,
    .cpu = {.run = causal_conv_run},
    .samples = causal_conv_samples,
    .n_samples = sizeof causal_conv_samples / sizeof *causal_conv_samples,
};

const hr_op hr_op_causal_conv_bwd = {
    .name = "causal_conv_bwd",
    .n_in = HR_CAUSAL_BWD_OPERANDS,
    .n_out = 3,
    .optional = 1u << HR_CAUSAL_BWD_BIAS | 1u << HR_CAUSAL_BWD_STARTS | 1u << HR_CAUSAL_BWD_PARTIAL,
    .args_bytes = sizeof(hr_causal_conv_args),
    .alias = {{HR_CAUSAL_BWD_PARTIAL, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .typed_by = HR_CAUSAL_BWD_X,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = causal_conv_bwd_shape,
    .cost = causal_conv_bwd_cost,
    .workspace = causal_conv_bwd_workspace,
    .cpu = {.run = causal_conv_bwd_run},
    .samples = causal_conv_bwd_samples,
    .n_samples = sizeof causal_conv_bwd_samples / sizeof *causal_conv_bwd_samples,
};
