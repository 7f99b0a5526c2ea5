/* pool: its rules and the CPU's kernels, which go along rows of the last axis, an element of the window at a time, so
 * that neighbouring windows are one vector.
 */
#include "op/pool.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__pool(hr_builder *b, hr_id x, const hr_pool_args *args) {
  return hr__emit(b, &hr_op_pool, &x, 1, args);
}

/* ---- rules ---- */

static hr_status axis_check(const hr_pool_args *args, int axis, int64_t size, hr_error *err) {
  int64_t kernel = args->kernel[axis], stride = args->stride[axis], padding = args->padding[axis];
  if (kernel >= 1 && stride >= 1 && padding >= 0 && padding <= kernel / 2 && kernel <= size + 2 * padding) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                  "windows of %lld, stride %lld, padding %lld along axis %d of %lld: a window fits into the padded "
                  "axis, strides are from 1 on, padding is at most half a window",
                  (long long)kernel, (long long)stride, (long long)padding, axis, (long long)size);
}

/* What x gives. */
static hr_status result_of(const hr_desc *x, const hr_pool_args *args, hr_desc *y, hr_error *err) {
  int64_t taps = 1;
  if (x->rank < 3 || x->rank > 2 + HR_POOL_AXES)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x has rank %d, expected 3 to %d", x->rank, 2 + HR_POOL_AXES);
  *y = *x;
  for (int axis = 0; axis < x->rank - 2; axis++) {
    int64_t size = x->dim[2 + axis];
    HR_TRY(axis_check(args, axis, size, err));
    y->dim[2 + axis] = (size + 2 * args->padding[axis] - args->kernel[axis]) / args->stride[axis] + 1;
    taps = taps > HR_POOL_TAPS ? taps : taps * args->kernel[axis];
  }
  if (args->pooling == HR_POOL_MEAN || taps <= HR_POOL_TAPS) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the largest of windows of more than %d elements", HR_POOL_TAPS);
}

static hr_status pool_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_pool_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(result_of(&view->in[0], args, &out[0], err));
  if (args->pooling == HR_POOL_MEAN) return HR_OK;
  out[1] = out[0];
  out[1].dtype = HR_U8;
  return HR_OK;
}

static int pool_results(const void *args) {
  return ((const hr_pool_args *)args)->pooling == HR_POOL_MAX ? 2 : 1;
}

static hr_status pool_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_pool_bwd_args *args = view->args;
  const hr_desc *dy = &view->in[0];
  hr_desc y;
  HR_TRY(hr__shape_operands(view, 3, 1u << 1 | 1u << 2, err));
  HR_TRY(hr__shape_float(view, 0, err));
  if ((args->pool.pooling == HR_POOL_MAX) != (view->in[1].rank != 0))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "which elements were the largest is told of the largest alone");
  out[0] = *dy;
  for (int d = 2; d < dy->rank && d < 2 + HR_POOL_AXES; d++)
    out[0].dim[d] = args->size[d - 2];
  HR_TRY(result_of(&out[0], &args->pool, &y, err));
  HR_TRY(hr__shape_like(view, 0, &y, err));
  y.dtype = HR_U8;
  HR_TRY(hr__shape_like(view, 1, &y, err));
  return hr__shape_like(view, 2, &out[0], err);
}

static void pool_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  const hr_desc *x = &b->graph->values[node->in[0]].desc;
  hr_pool_bwd_args args = {.pool = *(const hr_pool_args *)node->args};
  for (int d = 2; d < x->rank; d++)
    args.size[d - 2] = x->dim[d];
  hr_id which = args.pool.pooling == HR_POOL_MAX ? hr__saved_out(a, 1) : HR_NONE;
  hr__grad_set(a, 0, hr__emit(b, &hr_op_pool_bwd, (hr_id[]){dy, which, hr__grad_partial(a, 0)}, 3, &args));
}

static double taps_of(const hr_pool_args *args, int axes) {
  double taps = 1;
  for (int d = 0; d < axes; d++)
    taps *= (double)args->kernel[d];
  return taps;
}

static void pool_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, taps_of(view->args, view->in[0].rank - 2) * (double)hr_desc_count(&view->out[0]), cost);
}

static void pool_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_pool_bwd_args *args = view->args;
  hr__cost_stream(view, taps_of(&args->pool, view->in[0].rank - 2) * (double)hr_desc_count(&view->in[0]), cost);
}

/* ---- CPU ---- */

HR_INLINE float element(const void *data, hr_dtype dtype, int64_t i) {
  if (dtype == HR_F32) return ((const float *)data)[i];
  uint16_t bits = ((const uint16_t *)data)[i];
  return dtype == HR_BF16 ? hr__bf16_to_f32(bits) : hr__f16_to_f32(bits);
}

/* Elements along an axis that tap `tap` of windows reads inside of it: windows [first, end). */
HR_INLINE hr_range windows_inside(const hr_pool_walk *w, int axis, int64_t tap) {
  int64_t before = w->padding[axis] - tap, stride = w->stride[axis];
  int64_t first = before > 0 ? (before + stride - 1) / stride : 0;
  int64_t last = w->size[axis] - 1 + before;
  int64_t end = last < 0 ? 0 : hr__min(w->windows[axis], last / stride + 1);
  return (hr_range){first, end > first ? end : first};
}

HR_INLINE int64_t place(const hr_pool_walk *w, int axis, int64_t window, int64_t tap) {
  return window * w->stride[axis] + tap - w->padding[axis];
}

/* The first tap of a window that is not in the padding. */
HR_INLINE int64_t first_tap(const hr_pool_walk *w, int axis, int64_t window) {
  int64_t tap = w->padding[axis] - window * w->stride[axis];
  return tap > 0 ? tap : 0;
}

/* A run of windows along the last axis. */
typedef struct run {
  const hr_pool_walk *w;
  int64_t plane, at[2]; /* the windows' number along the other axes */
  hr_range windows;
} run;

/* Joins what one tap of each window reads: sums, or the largest with its number. */
HR_INLINE void tap_join(const run *r, const void *x, hr_dtype dtype, bool largest, const int64_t tap[2], int64_t last,
                        float *best, uint8_t *which) {
  const hr_pool_walk *w = r->w;
  int64_t row = (r->plane * w->size[0] + place(w, 0, r->at[0], tap[0])) * w->size[1] + place(w, 1, r->at[1], tap[1]);
  int64_t from = row * w->size[2] + last - w->padding[2], stride = w->stride[2];
  uint8_t number = (uint8_t)((tap[0] * w->kernel[1] + tap[1]) * w->kernel[2] + last);
  hr_range inside = windows_inside(w, 2, last);
  int64_t first = inside.first > r->windows.first ? inside.first : r->windows.first;
  int64_t end = hr__min(inside.end, r->windows.end), shift = r->windows.first;
  if (!largest) {
#pragma omp simd
    for (int64_t i = first; i < end; i++)
      best[i - shift] += element(x, dtype, from + i * stride);
    return;
  }
#pragma omp simd
  for (int64_t i = first; i < end; i++) {
    float value = element(x, dtype, from + i * stride);
    bool takes = value > best[i - shift] || value != value; /* NaN stays */
    best[i - shift] = takes ? value : best[i - shift];
    which[i - shift] = takes ? number : which[i - shift];
  }
}

HR_INLINE void run_join(const run *r, const void *x, hr_dtype dtype, bool largest, float *best, uint8_t *which) {
  const hr_pool_walk *w = r->w;
  for (int64_t a = 0; a < w->kernel[0]; a++) {
    int64_t along = place(w, 0, r->at[0], a);
    if (along < 0 || along >= w->size[0]) continue;
    for (int64_t c = 0; c < w->kernel[1]; c++) {
      int64_t across = place(w, 1, r->at[1], c);
      if (across < 0 || across >= w->size[1]) continue;
      for (int64_t last = 0; last < w->kernel[2]; last++)
        tap_join(r, x, dtype, largest, (const int64_t[]){a, c}, last, best, which);
    }
  }
}

HR_CLONES static void run_pool(const hr_call *call, const run *r) {
  const hr_pool_walk *w = r->w;
  bool largest = ((const hr_pool_args *)call->args)->pooling == HR_POOL_MAX;
  const hr_tensor *x = &call->in[0], *y = &call->out[0];
  int64_t n = r->windows.end - r->windows.first;
  int64_t at = ((r->plane * w->windows[0] + r->at[0]) * w->windows[1] + r->at[1]) * w->windows[2] + r->windows.first;
  float block[HR_BLOCK], *best = hr__target(y, at, block);
  uint8_t *which = largest ? (uint8_t *)call->out[1].data + at : NULL;
  int64_t ahead = first_tap(w, 0, r->at[0]) * w->kernel[1] + first_tap(w, 1, r->at[1]);
  for (int64_t i = 0; i < n; i++) {
    best[i] = largest ? -__builtin_inff() : 0.0f;
    if (largest) which[i] = (uint8_t)(ahead * w->kernel[2] + first_tap(w, 2, r->windows.first + i));
  }
  if (x->desc.dtype == HR_F32 && largest)
    run_join(r, x->data, HR_F32, true, best, which);
  else if (largest)
    run_join(r, x->data, x->desc.dtype, true, best, which);
  else
    run_join(r, x->data, x->desc.dtype, false, best, which);
  float scale = 1.0f / (float)(w->kernel[0] * w->kernel[1] * w->kernel[2]);
  for (int64_t i = 0; i < n && !largest; i++)
    best[i] *= scale;
  hr__store(y, at, n, best);
}

/* Rows of the last axis that one task takes, of `row` elements, each of `taps` reads. */
static int64_t rows_per_task(const hr_pool_walk *w, int64_t row) {
  int64_t reads = row * w->kernel[0] * w->kernel[1] * w->kernel[2];
  return 1 + HR_CHUNK / (reads > 0 ? reads : 1);
}

static void pool_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_pool_walk w = hr__pool_walk(call->args, &call->in[0].desc, &call->out[0].desc);
  hr_range rows = hr__chunk(w.planes * w.windows[0] * w.windows[1], rows_per_task(&w, w.windows[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++) {
    run r = {.w = &w, .plane = row / w.windows[1] / w.windows[0]};
    r.at[0] = row / w.windows[1] % w.windows[0];
    r.at[1] = row % w.windows[1];
    for (int64_t first = 0; first < w.windows[2]; first += HR_BLOCK) {
      r.windows = (hr_range){first, hr__min(w.windows[2], first + HR_BLOCK)};
      run_pool(call, &r);
    }
  }
}

static hr_status pool_run(const hr_call *call) {
  hr_pool_walk w = hr__pool_walk(call->args, &call->in[0].desc, &call->out[0].desc);
  int64_t tasks = hr__chunks(w.planes * w.windows[0] * w.windows[1], rows_per_task(&w, w.windows[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, pool_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* Windows along an axis that have place `at` in them: [first, end). */
HR_INLINE hr_range windows_over(const hr_pool_walk *w, int axis, int64_t at) {
  int64_t last = at + w->padding[axis], before = last - w->kernel[axis] + 1, stride = w->stride[axis];
  return (hr_range){before > 0 ? (before + stride - 1) / stride : 0, hr__min(w->windows[axis], last / stride + 1)};
}

/* Adds to places [piece) of a row of dx what tap `last` of a row of windows has from them. */
HR_INLINE void tap_spread(const hr_pool_walk *w, hr_range piece, int64_t last, uint8_t number, const void *dy,
                          hr_dtype dtype, const uint8_t *which, float *to) {
  int64_t stride = w->stride[2], shift = last - w->padding[2] - piece.first;
  hr_range inside = windows_inside(w, 2, last);
  int64_t least = piece.first + w->padding[2] - last, most = piece.end - 1 + w->padding[2] - last;
  int64_t first = least > 0 ? (least + stride - 1) / stride : 0, end = most < 0 ? 0 : most / stride + 1;
  if (first < inside.first) first = inside.first;
  end = hr__min(end, inside.end);
#pragma omp simd
  for (int64_t i = first; i < end; i++) {
    float more = element(dy, dtype, i);
    to[i * stride + shift] += !which || which[i] == number ? more : 0.0f;
  }
}

/* Places [piece) of one row of dx: the sum over all windows that have them. */
HR_CLONES static void piece_gather(const hr_call *call, const hr_pool_walk *w, int64_t row, hr_range piece) {
  const hr_tensor *dy = &call->in[0], *partial = &call->in[2], *dx = &call->out[0];
  const uint8_t *which = call->in[1].data;
  size_t bytes = hr_dtype_bytes(dy->desc.dtype);
  int64_t plane = row / w->size[1] / w->size[0], n = piece.end - piece.first;
  int64_t at[2] = {row / w->size[1] % w->size[0], row % w->size[1]};
  hr_range over[2] = {windows_over(w, 0, at[0]), windows_over(w, 1, at[1])};
  float block[HR_BLOCK], loaded[HR_BLOCK];
  for (int64_t i = 0; i < n; i++)
    block[i] = 0.0f;
  for (int64_t a = over[0].first; a < over[0].end; a++)
    for (int64_t c = over[1].first; c < over[1].end; c++) {
      int64_t windows = ((plane * w->windows[0] + a) * w->windows[1] + c) * w->windows[2];
      int64_t tap = at[0] + w->padding[0] - a * w->stride[0];
      tap = (tap * w->kernel[1] + at[1] + w->padding[1] - c * w->stride[1]) * w->kernel[2];
      for (int64_t last = 0; last < w->kernel[2]; last++)
        tap_spread(w, piece, last, (uint8_t)(tap + last), (const char *)dy->data + (size_t)windows * bytes,
                   dy->desc.dtype, which ? which + windows : NULL, block);
    }
  float scale = which ? 1.0f : 1.0f / (float)(w->kernel[0] * w->kernel[1] * w->kernel[2]);
  int64_t first = row * w->size[2] + piece.first;
  const float *before = partial->data ? hr__load(partial, first, n, loaded) : NULL;
  float stored[HR_BLOCK], *to = hr__target(dx, first, stored);
  for (int64_t i = 0; i < n; i++)
    to[i] = (before ? before[i] : 0.0f) + block[i] * scale;
  hr__store(dx, first, n, to);
}

static hr_pool_walk bwd_walk(const hr_call *call) {
  const hr_pool_bwd_args *args = call->args;
  return hr__pool_walk(&args->pool, &call->out[0].desc, &call->in[0].desc);
}

static void pool_bwd_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_pool_walk w = bwd_walk(call);
  hr_range rows = hr__chunk(w.planes * w.size[0] * w.size[1], rows_per_task(&w, w.size[2]), task);
  (void)worker;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t first = 0; first < w.size[2]; first += HR_BLOCK)
      piece_gather(call, &w, row, (hr_range){first, hr__min(w.size[2], first + HR_BLOCK)});
}

static hr_status pool_bwd_run(const hr_call *call) {
  hr_pool_walk w = bwd_walk(call);
  int64_t tasks = hr__chunks(w.planes * w.size[0] * w.size[1], rows_per_task(&w, w.size[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, pool_bwd_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- samples ---- */

#define STEM                                                                                                           \
  {                                                                                                                    \
    .pooling = HR_POOL_MAX, .kernel = {3, 3}, .stride = {2, 2}, .padding = { 1, 1 }                                    \
  }
#define LINE                                                                                                           \
  {                                                                                                                    \
    .pooling = HR_POOL_MAX, .kernel = {3}, .stride = {1}, .padding = { 1 }                                             \
  }
#define CUBE                                                                                                           \
  {                                                                                                                    \
    .pooling = HR_POOL_MAX, .kernel = {2, 3, 2}, .stride = {2, 1, 3}, .padding = { 1, 0, 1 }                           \
  }
#define HALVES                                                                                                         \
  {                                                                                                                    \
    .pooling = HR_POOL_MEAN, .kernel = {2, 2}, .stride = {2, 2}, .padding = { 0, 0 }                                   \
  }
#define SPREAD                                                                                                         \
  {                                                                                                                    \
    .pooling = HR_POOL_MEAN, .kernel = {3, 5}, .stride = {2, 3}, .padding = { 1, 2 }                                   \
  }

static const hr_sample pool_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 4, {4, 6, 9, 12}}}, .args = &(const hr_pool_args)STEM},
    {.n_in = 1, .in = {{HR_F32, 3, {2, 3, 2060}}}, .args = &(const hr_pool_args)LINE},
    {.n_in = 1, .in = {{HR_F32, 5, {2, 3, 4, 5, 7}}}, .args = &(const hr_pool_args)CUBE},
    {.n_in = 1, .in = {{HR_F32, 4, {2, 5, 8, 7}}}, .args = &(const hr_pool_args)HALVES},
    {.n_in = 1, .in = {{HR_F32, 4, {3, 2, 7, 11}}}, .args = &(const hr_pool_args)SPREAD},
};
static const hr_sample pool_bwd_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 4, {4, 6, 5, 6}}, {HR_U8, 4, {4, 6, 5, 6}}, {HR_F32, 4, {4, 6, 9, 12}}},
     .args = &(const hr_pool_bwd_args){STEM, {9, 12}}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {2, 3, 2060}}, {HR_U8, 3, {2, 3, 2060}}},
     .args = &(const hr_pool_bwd_args){LINE, {2060}}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {2, 3, 3, 3, 3}}, {HR_U8, 5, {2, 3, 3, 3, 3}}},
     .args = &(const hr_pool_bwd_args){CUBE, {4, 5, 7}}},
    {.n_in = 3, .in = {{HR_F32, 4, {2, 5, 4, 3}}}, .args = &(const hr_pool_bwd_args){HALVES, {8, 7}}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {3, 2, 4, 4}}, {0}, {HR_F32, 4, {3, 2, 7, 11}}},
     .args = &(const hr_pool_bwd_args){SPREAD, {7, 11}}},
};

const hr_op hr_op_pool = {
    .name = "pool",
    .n_in = 1,
    .n_out = 2,
    .results = pool_results,
    .args_bytes = sizeof(hr_pool_args),
    .saves = HR_SAVE_OUT(1),
    .computes = 1u << 0,
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = pool_shape,
    .grad = pool_grad,
    .cost = pool_cost,
    .cpu = {.run = pool_run},
    .samples = pool_samples,
    .n_samples = sizeof pool_samples / sizeof *pool_samples,
};

const hr_op hr_op_pool_bwd = {
    .name = "pool_bwd",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 1 | 1u << 2,
    .args_bytes = sizeof(hr_pool_bwd_args),
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = pool_bwd_shape,
    .cost = pool_bwd_cost,
    .cpu = {.run = pool_bwd_run},
    .samples = pool_bwd_samples,
    .n_samples = sizeof pool_bwd_samples / sizeof *pool_bwd_samples,
};
