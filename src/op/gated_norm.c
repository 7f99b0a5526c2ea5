/* gated_norm: see gated_norm.h. On the CPU a task has some rows; what was made for the sum over a group lies in the
 * task's part of the workspace until the sum is known. */
#include "op/gated_norm.h"

#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "graph/adjoint.h"
#include "op/copy.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { HELD = 2 }; /* rows of f32 that backward holds: silu(z), its slope */

hr_id hr__gated_norm(hr_builder *b, hr_id y, hr_id x, hr_id weight, const hr_gated_norm_args *args) {
  return hr__emit(b, &hr_op_gated_norm, (hr_id[]){y, x, weight}, HR_GATED_OPERANDS, args);
}

/* ---- shape and gradient ---- */

/* Operands `y`, x and w. */
static hr_status operands_check(const hr_op_view *view, int y, hr_error *err) {
  const hr_gated_norm_args *args = view->args;
  const hr_desc *rows = &view->in[y], *x = &view->in[y + HR_GATED_X];
  HR_TRY(hr__shape_float(view, y, err));
  hr_desc expected = *rows;
  expected.dim[expected.rank - 1] = hr_desc_columns(x);
  HR_TRY(hr__shape_like(view, y + HR_GATED_X, &expected, err));
  int64_t width = hr_desc_columns(rows);
  if (args->groups < 1 || width % args->groups != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld columns do not form %lld groups", (long long)width,
                    (long long)args->groups);
  if (args->first < 0 || args->first + width > hr_desc_columns(x))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld columns from %lld on of %lld", (long long)width,
                    (long long)args->first, (long long)hr_desc_columns(x));
  hr_desc weight = hr__desc1(HR_F32, width);
  return hr__shape_like_float(view, y + HR_GATED_W, &weight, err);
}

static hr_desc rstd_desc(const hr_op_view *view, int y) {
  hr_gated_sizes s = hr__gated_sizes(&view->in[y], &view->in[y + HR_GATED_X], view->args);
  return hr__desc2(HR_F32, s.rows, s.groups);
}

static hr_status gated_norm_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_GATED_OPERANDS, 0, err));
  HR_TRY(operands_check(view, HR_GATED_Y, err));
  out[0] = view->in[HR_GATED_Y];
  out[1] = rstd_desc(view, HR_GATED_Y);
  return HR_OK;
}

static hr_status gated_norm_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_GATED_BWD_OPERANDS, hr_op_gated_norm_bwd.optional, err));
  HR_TRY(operands_check(view, HR_GATED_BWD_Y, err));
  hr_desc rstd = rstd_desc(view, HR_GATED_BWD_Y);
  HR_TRY(hr__shape_like(view, HR_GATED_DOUT, &view->in[HR_GATED_BWD_Y], err));
  HR_TRY(hr__shape_like(view, HR_GATED_RSTD, &rstd, err));
  out[0] = view->in[HR_GATED_BWD_Y];
  out[1] = view->in[HR_GATED_BWD_X];
  out[2] = hr__desc1(HR_F32, hr_desc_columns(&out[0]));
  return hr__shape_like(view, HR_GATED_PARTIAL, &out[1], err);
}

static void gated_norm_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dout = hr__out_grad(a, 0);
  if (dout == HR_NONE) return;
  bool wants_x = hr__wants_grad(a, HR_GATED_X);
  hr_id in[HR_GATED_BWD_OPERANDS] = {dout,
                                     hr__saved_in(a, HR_GATED_Y),
                                     hr__saved_in(a, HR_GATED_X),
                                     hr__saved_in(a, HR_GATED_W),
                                     hr__saved_out(a, 1),
                                     wants_x ? hr__grad_partial(a, HR_GATED_X) : HR_NONE};
  hr_id dy = hr__emit(b, &hr_op_gated_norm_bwd, in, HR_GATED_BWD_OPERANDS, node->args);
  if (dy == HR_NONE) return;
  if (hr__wants_grad(a, HR_GATED_Y)) hr__grad_add(a, HR_GATED_Y, dy);
  if (wants_x) hr__grad_set(a, HR_GATED_X, hr__node_out(b, dy, 1));
  if (!hr__wants_grad(a, HR_GATED_W)) return;
  hr_id dw = hr__node_out(b, dy, 2);
  if (hr__grad_dtype(a, HR_GATED_W) != HR_F32) dw = hr__copy(b, dw, hr__grad_dtype(a, HR_GATED_W));
  hr__grad_add(a, HR_GATED_W, dw);
}

/* Bytes of the columns that are read and written, not of whole rows. */
static void work_of(const hr_op_view *view, int y, int rows_moved, double flops, hr_cost *cost) {
  double elements = (double)hr_desc_count(&view->in[y]);
  hr__cost_stream(view, flops * elements, cost);
  cost->bytes = rows_moved * elements * (double)hr_dtype_bytes(view->in[y].dtype);
}
static void gated_norm_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, HR_GATED_Y, 3, 14, cost);
}
static void gated_norm_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, HR_GATED_BWD_Y, 6, 30, cost);
}

static size_t gated_norm_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_gated_sizes s = hr__gated_sizes(&view->in[HR_GATED_Y], &view->in[HR_GATED_X], view->args);
  return kind == HR_CUDA ? 0 : (size_t)threads * (size_t)s.each * sizeof(float);
}

/* Sums of each strip, then on the CPU what threads hold. */
static size_t gated_norm_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_gated_sizes s = hr__gated_sizes(&view->in[HR_GATED_BWD_Y], &view->in[HR_GATED_BWD_X], view->args);
  int64_t strips = hr__chunks(s.rows, hr__gated_strip(s.rows, kind));
  int64_t held = kind == HR_CUDA ? 0 : HELD * threads * s.each;
  return (size_t)(strips * s.width + held) * sizeof(float);
}

/* ---- CPU ---- */

HR_CLONES static float gate_row(const hr_tensor *y, const hr_tensor *x, int64_t y_at, int64_t x_at, int64_t count,
                                float *gated) {
  float y_block[HR_BLOCK], z_block[HR_BLOCK], squares = 0.0f;
  for (int64_t i = 0; i < count; i += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, count - i);
    const float *from = hr__load(y, y_at + i, n, y_block), *z = hr__load(x, x_at + i, n, z_block);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++) {
      float a = from[k] * (z[k] / (1.0f + hr__expf(-z[k])));
      gated[i + k] = a;
      sum += a * a;
    }
    squares += sum;
  }
  return squares;
}

HR_CLONES static void row_store(const hr_tensor *out, const hr_tensor *w, int64_t at, int64_t column, int64_t count,
                                float rstd, float *gated) {
  float w_block[HR_BLOCK];
  for (int64_t i = 0; i < count; i += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, count - i);
    const float *by = hr__load(w, column + i, n, w_block);
    float *row = gated + i;
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
      row[k] *= rstd;
    hr__round(out->desc.dtype, n, row);
    float *to = hr__target(out, at + i, row);
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
      to[k] = row[k] * by[k];
    hr__store(out, at + i, n, to);
  }
}

static void forward_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_gated_norm_args *args = call->args;
  const hr_tensor *y = &call->in[HR_GATED_Y], *x = &call->in[HR_GATED_X];
  hr_gated_sizes s = hr__gated_sizes(&y->desc, &x->desc, args);
  hr_range rows = hr__chunk(s.rows, 1 + HR_CHUNK / s.width, task);
  float *gated = (float *)call->workspace + worker * s.each;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t group = 0; group < s.groups; group++) {
      int64_t column = group * s.each;
      float squares = gate_row(y, x, row * s.width + column, row * s.columns + s.first + column, s.each, gated);
      float rstd = 1.0f / sqrtf(squares / (float)s.each + args->eps);
      ((float *)call->out[1].data)[row * s.groups + group] = rstd;
      row_store(&call->out[0], &call->in[HR_GATED_W], row * s.width + column, column, s.each, rstd, gated);
    }
}

static hr_status gated_norm_run(const hr_call *call) {
  hr_gated_sizes s = hr__gated_sizes(&call->in[HR_GATED_Y].desc, &call->in[HR_GATED_X].desc, call->args);
  hr__pool_run(call->device->pool, call->threads, hr__chunks(s.rows, 1 + HR_CHUNK / s.width), forward_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

/* One group of one row, by offsets into y, x and w. */
typedef struct place {
  int64_t y, x, w, count;
  float rstd;
} place;

/* Leaves silu(z) and its slope, adds to dw, and gives the sum of w dout a. */
HR_CLONES static float row_look(const hr_call *call, const place *p, float *silu, float *slope, float *dw) {
  float dout_block[HR_BLOCK], y_block[HR_BLOCK], z_block[HR_BLOCK], w_block[HR_BLOCK], dot = 0.0f;
  for (int64_t i = 0; i < p->count; i += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, p->count - i);
    const float *dout = hr__load(&call->in[HR_GATED_DOUT], p->y + i, n, dout_block);
    const float *y = hr__load(&call->in[HR_GATED_BWD_Y], p->y + i, n, y_block);
    const float *z = hr__load(&call->in[HR_GATED_BWD_X], p->x + i, n, z_block);
    const float *w = hr__load(&call->in[HR_GATED_BWD_W], p->w + i, n, w_block);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++) {
      float sigmoid = 1.0f / (1.0f + hr__expf(-z[k])), s = z[k] * sigmoid, a = y[k] * s;
      silu[i + k] = s;
      slope[i + k] = sigmoid + s * (1.0f - sigmoid);
      sum += w[k] * dout[k] * a;
      dw[i + k] += dout[k] * (a * p->rstd);
    }
    dot += sum;
  }
  return dot;
}

HR_CLONES static void row_back(const hr_call *call, const place *p, float pull, const float *silu, const float *slope) {
  const hr_tensor *dy = &call->out[0], *dx = &call->out[1], *partial = &call->in[HR_GATED_PARTIAL];
  float dout_block[HR_BLOCK], y_block[HR_BLOCK], w_block[HR_BLOCK], before_block[HR_BLOCK];
  for (int64_t i = 0; i < p->count; i += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, p->count - i);
    const float *dout = hr__load(&call->in[HR_GATED_DOUT], p->y + i, n, dout_block);
    const float *y = hr__load(&call->in[HR_GATED_BWD_Y], p->y + i, n, y_block);
    const float *w = hr__load(&call->in[HR_GATED_BWD_W], p->w + i, n, w_block);
    const float *before = partial->data ? hr__load(partial, p->x + i, n, before_block) : NULL;
    float da[HR_BLOCK], dz[HR_BLOCK];
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
      da[k] = p->rstd * (w[k] * dout[k]) - pull * (y[k] * silu[i + k]);
      dz[k] = da[k] * y[k] * slope[i + k];
    }
    if (before) {
#pragma omp simd
      for (int64_t k = 0; k < n; k++)
        dz[k] += before[k];
    }
    float *to = hr__target(dy, p->y + i, dout_block), *to_x = hr__target(dx, p->x + i, dz);
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
      to[k] = da[k] * silu[i + k];
    hr__store(dy, p->y + i, n, to);
    if (to_x != dz) memcpy(to_x, dz, (size_t)n * sizeof *to_x);
    hr__store(dx, p->x + i, n, to_x);
  }
}

static void backward_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_gated_sizes s = hr__gated_sizes(&call->in[HR_GATED_BWD_Y].desc, &call->in[HR_GATED_BWD_X].desc, call->args);
  int64_t strip = hr__gated_strip(s.rows, HR_CPU), strips = hr__chunks(s.rows, strip);
  hr_range rows = hr__chunk(s.rows, strip, task);
  float *dw = (float *)call->workspace + task * s.width;
  float *silu = (float *)call->workspace + strips * s.width + HELD * worker * s.each, *slope = silu + s.each;
  memset(dw, 0, (size_t)s.width * sizeof *dw);
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t group = 0; group < s.groups; group++) {
      int64_t column = group * s.each;
      place p = {row * s.width + column, row * s.columns + s.first + column, column, s.each,
                 ((const float *)call->in[HR_GATED_RSTD].data)[row * s.groups + group]};
      float dot = row_look(call, &p, silu, slope, dw + column);
      row_back(call, &p, dot * p.rstd * p.rstd * p.rstd / (float)s.each, silu, slope);
    }
}

static hr_status gated_norm_bwd_run(const hr_call *call) {
  hr_gated_sizes s = hr__gated_sizes(&call->in[HR_GATED_BWD_Y].desc, &call->in[HR_GATED_BWD_X].desc, call->args);
  const hr_tensor *partial = &call->in[HR_GATED_PARTIAL], *dx = &call->out[1];
  int64_t strips = hr__chunks(s.rows, hr__gated_strip(s.rows, HR_CPU));
  if (!partial->data) /* the columns of others */
    memset(dx->data, 0, hr_desc_bytes(&dx->desc));
  else if (partial->data != dx->data)
    memcpy(dx->data, partial->data, hr_desc_bytes(&dx->desc));
  hr__pool_run(call->device->pool, call->threads, strips, backward_task, (void *)(uintptr_t)call);
  const float *sums = call->workspace;
  float *dw = call->out[2].data;
  memset(dw, 0, (size_t)s.width * sizeof *dw);
  for (int64_t strip = 0; strip < strips; strip++)
    for (int64_t i = 0; i < s.width; i++)
      dw[i] += sums[strip * s.width + i];
  return HR_OK;
}

/* ---- samples ---- */

/* Columns amid others; in groups; rows that end within a pack; several strips, and columns of several blocks. */
static const hr_gated_norm_args first_columns = {0, 1, 1e-5f}, amid = {5, 3, 1e-5f}, packs = {8, 4, 1e-5f};
static const hr_sample gated_norm_samples[] = {
    {.n_in = HR_GATED_OPERANDS,
     .in = {{HR_F32, 3, {2, 19, 64}}, {HR_F32, 3, {2, 19, 104}}, {HR_F32, 1, {64}}},
     .args = &first_columns},
    {.n_in = HR_GATED_OPERANDS,
     .in = {{HR_F32, 3, {2, 7, 33}}, {HR_F32, 3, {2, 7, 41}}, {HR_F32, 1, {33}}},
     .args = &amid},
    {.n_in = HR_GATED_OPERANDS,
     .in = {{HR_F32, 4, {1, 2, 3, 64}}, {HR_F32, 4, {1, 2, 3, 88}}, {HR_F32, 1, {64}}},
     .args = &packs},
    {.n_in = HR_GATED_OPERANDS,
     .in = {{HR_F32, 2, {37, 1061}}, {HR_F32, 2, {37, 1100}}, {HR_F32, 1, {1061}}},
     .args = &first_columns},
};
#define SHAPE2(a, b)                                                                                                   \
  {                                                                                                                    \
    HR_F32, 2, {                                                                                                       \
      a, b                                                                                                             \
    }                                                                                                                  \
  }
#define SHAPE3(a, b, c)                                                                                                \
  {                                                                                                                    \
    HR_F32, 3, {                                                                                                       \
      a, b, c                                                                                                          \
    }                                                                                                                  \
  }
static const hr_sample gated_norm_bwd_samples[] = {
    {.n_in = HR_GATED_BWD_OPERANDS,
     .in = {SHAPE3(2, 19, 64), SHAPE3(2, 19, 64), SHAPE3(2, 19, 104), {HR_F32, 1, {64}}, SHAPE2(38, 1)},
     .args = &first_columns},
    {.n_in = HR_GATED_BWD_OPERANDS,
     .in = {SHAPE3(2, 7, 33), SHAPE3(2, 7, 33), SHAPE3(2, 7, 41), {HR_F32, 1, {33}}, SHAPE2(14, 3), SHAPE3(2, 7, 41)},
     .args = &amid},
    {.n_in = HR_GATED_BWD_OPERANDS,
     .in =
         {SHAPE3(3, 17, 64), SHAPE3(3, 17, 64), SHAPE3(3, 17, 88), {HR_F32, 1, {64}}, SHAPE2(51, 4), SHAPE3(3, 17, 88)},
     .args = &packs},
    {.n_in = HR_GATED_BWD_OPERANDS,
     .in = {SHAPE2(301, 1061), SHAPE2(301, 1061), SHAPE2(301, 1100), {HR_F32, 1, {1061}}, SHAPE2(301, 1)},
     .args = &first_columns},
};

const hr_op hr_op_gated_norm = {
    .name = "gated_norm",
    .n_in = HR_GATED_OPERANDS,
    .n_out = 2,
    .light = true,
    .args_bytes = sizeof(hr_gated_norm_args),
    .saves = HR_SAVE_IN(HR_GATED_Y) | HR_SAVE_IN(HR_GATED_X) | HR_SAVE_IN(HR_GATED_W) | HR_SAVE_OUT(1),
    .computes = 1u << HR_GATED_Y | 1u << HR_GATED_X,
    .axes = HR_AXES_ROWS,
    .shares = 1u << HR_GATED_W,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = gated_norm_shape,
    .grad = gated_norm_grad,
    .cost = gated_norm_cost,
    .workspace = gated_norm_workspace,
    .cpu = {.run = gated_norm_run},
    .samples = gated_norm_samples,
    .n_samples = sizeof gated_norm_samples / sizeof *gated_norm_samples,
};

const hr_op hr_op_gated_norm_bwd = {
    .name = "gated_norm_bwd",
    .n_in = HR_GATED_BWD_OPERANDS,
    .n_out = 3,
    .optional = 1u << HR_GATED_PARTIAL,
    .args_bytes = sizeof(hr_gated_norm_args),
    .alias = {{HR_GATED_PARTIAL, 1, HR_ALIAS_ACCUMULATE}, {HR_GATED_DOUT, 0, HR_ALIAS_MAY}},
    .n_alias = 2,
    .axes = HR_AXES_NONE,
    .typed_by = HR_GATED_BWD_Y,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = gated_norm_bwd_shape,
    .cost = gated_norm_bwd_cost,
    .workspace = gated_norm_bwd_workspace,
    .cpu = {.run = gated_norm_bwd_run},
    .samples = gated_norm_bwd_samples,
    .n_samples = sizeof gated_norm_bwd_samples / sizeof *gated_norm_bwd_samples,
};
