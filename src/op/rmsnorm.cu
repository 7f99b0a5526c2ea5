/* rmsnorm and its backward op on CUDA: a block for each row, as op/norm.cuh holds one, or a warp where rows are heads
 * of a wider axis. */
#include "op/norm.cuh"
extern "C" {
#include "op/few.h"
#include "op/rmsnorm.h"
}

enum { WEIGHTS = 1, HEAD_WARPS = 16, HEAD_MOST = WARP * WIDE };

/* Rows that are parts of the last axis: many and short. HEAD_WARPS of them to a block. */
static bool row_is_head(const hr_desc &x, int64_t columns) {
  return columns < desc_columns(x) && columns % WIDE == 0 && columns <= HEAD_MOST;
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS)
    rmsnorm_row_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t columns, hr_rmsnorm_args args) {
  __shared__ float warps[ROW_THREADS / WARP];
  int64_t at = blockIdx.x * columns + threadIdx.x * WIDE;
  bool inside = threadIdx.x * WIDE < columns;
  float v[WIDE] = {}, w[WIDE];
  if (inside) {
    pack_read<WIDE>(x + at, v);
    pack_read<WIDE>(weight + threadIdx.x * WIDE, w);
  }
  float squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    squares += v[e] * v[e];
  float rstd = 1.0f / sqrtf(row_sum(squares, warps) / (float)columns + args.eps);
  if (threadIdx.x == 0) rstds[blockIdx.x] = rstd;
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = normal<T>(v[e], rstd, w[e], args.raised);
  pack_write<WIDE>(y + at, v);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS)
    rmsnorm_any_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t columns, hr_rmsnorm_args args) {
  __shared__ float warps[ANY_THREADS / WARP];
  const T *from = x + blockIdx.x * columns;
  T *to = y + blockIdx.x * columns;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += ANY_THREADS) {
    float v = to_float(from[i]);
    squares += v * v;
  }
  float rstd = 1.0f / sqrtf(row_sum(squares, warps) / (float)columns + args.eps);
  if (threadIdx.x == 0) rstds[blockIdx.x] = rstd;
  for (int64_t i = threadIdx.x; i < columns; i += ANY_THREADS)
    to[i] = from_float<T>(normal<T>(to_float(from[i]), rstd, to_float(weight[i]), args.raised));
}

template <typename T, typename W>
static __global__ void __launch_bounds__(WARP *HEAD_WARPS)
    rmsnorm_head_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t rows, int64_t columns,
                        hr_rmsnorm_args args) {
  int64_t row = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.y;
  if (row >= rows) return;
  int64_t at = row * columns + threadIdx.x * WIDE;
  bool inside = threadIdx.x * WIDE < columns;
  float v[WIDE] = {}, w[WIDE];
  if (inside) {
    pack_read<WIDE>(x + at, v);
    pack_read<WIDE>(weight + threadIdx.x * WIDE, w);
  }
  float squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    squares += v[e] * v[e];
  float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)columns + args.eps);
  if (threadIdx.x == 0) rstds[row] = rstd;
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = normal<T>(v[e], rstd, w[e], args.raised);
  pack_write<WIDE>(y + at, v);
}

static hr_status rmsnorm_run(const hr_call *call) {
  int64_t columns = desc_columns(call->in[1].desc), rows = desc_count(call->in[0].desc) / columns;
  hr_rmsnorm_args args = *(const hr_rmsnorm_args *)call->args;
  float *rstds = (float *)call->out[1].data;
  cudaStream_t stream = call_stream(call);
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) {
      using T = decltype(t);
      using W = decltype(u);
      const T *x = (const T *)call->in[0].data;
      const W *w = (const W *)call->in[1].data;
      T *y = (T *)call->out[0].data;
      if (row_is_head(call->in[0].desc, columns) && wide(x, w, y))
        launch(rmsnorm_head_kernel<T, W>, (unsigned)divide_up(rows, HEAD_WARPS), dim3(WARP, HEAD_WARPS), 0, stream, x,
               w, y, rstds, rows, columns, args);
      else if (row_fits(columns) && wide(x, w, y))
        launch(rmsnorm_row_kernel<T, W>, (unsigned)rows, row_threads(columns), 0, stream, x, w, y, rstds, columns,
               args);
      else
        launch(rmsnorm_any_kernel<T, W>, (unsigned)rows, ANY_THREADS, 0, stream, x, w, y, rstds, columns, args);
      return launched();
    });
  });
}

/* ---- rmsnorm_bwd ---- */

/* What dy is multiplied by, as read from the weights. */
template <typename T, typename W> __device__ inline float factor_of(const norm_bwd<T, W> &c, float w) {
  return c.raised ? 1.0f + w : w;
}
template <typename T, typename W> __device__ inline void factors_read(const norm_bwd<T, W> &c, int64_t at, float *to) {
  pack_read<WIDE>(c.w + at, to);
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    to[e] = factor_of(c, to[e]);
}

/* What x is multiplied by in dx: with g = dy * w (raised: dy * (1 + w)) and n = x * rstd, rstd * rstd * mean(g * n). */
__device__ inline float pull_of(float dot, float rstd, int64_t columns) {
  return dot * rstd * rstd * rstd / (float)columns;
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) rmsnorm_bwd_row_kernel(norm_bwd<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {};
  if (inside) factors_read(c, column, w);
  for (int64_t row = first; row < end; row++) {
    int64_t at = row * c.columns + column;
    float dy[WIDE] = {}, x[WIDE] = {}, before[WIDE] = {}, dot = 0.0f, rstd = c.statistics[row];
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, x);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      dot += dy[e] * w[e] * x[e];
      dw[e] += dy[e] * (x[e] * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(row_sum(dot, warps[row % 2]), rstd, c.columns);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * dy[e] * w[e] - pull * x[e];
    pack_write<WIDE>(c.dx + at, before);
  }
  if (c.sums && inside) pack_write<WIDE>(c.sums + blockIdx.x * c.columns + column, dw);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) rmsnorm_bwd_any_kernel(norm_bwd<T, W> c) {
  __shared__ float warps[2][ANY_THREADS / WARP];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  float *dw = c.sums ? c.sums + blockIdx.x * c.columns : nullptr; /* each column belongs to one thread */
  for (int64_t row = first; row < end; row++) {
    const T *dy = c.dy + row * c.columns, *x = c.x + row * c.columns;
    float dot = 0.0f, rstd = c.statistics[row];
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float d = to_float(dy[i]), v = to_float(x[i]);
      dot += d * factor_of(c, to_float(c.w[i])) * v;
      if (dw) dw[i] = (row == first ? 0.0f : dw[i]) + d * (v * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(row_sum(dot, warps[row % 2]), rstd, c.columns);
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float before = c.partial ? to_float(c.partial[row * c.columns + i]) : 0.0f;
      float own = rstd * to_float(dy[i]) * factor_of(c, to_float(c.w[i])) - pull * to_float(x[i]);
      c.dx[row * c.columns + i] = from_float<T>(before + own);
    }
  }
}

/* Each warp takes every HEAD_WARPS-th row of the block's; their sums of dw are added in the order of the warps. */
template <typename T, typename W>
static __global__ void __launch_bounds__(WARP *HEAD_WARPS) rmsnorm_bwd_head_kernel(norm_bwd<T, W> c) {
  __shared__ float sums[HEAD_WARPS][HEAD_MOST];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {};
  if (inside) factors_read(c, column, w);
  for (int64_t row = first + threadIdx.y; row < end; row += HEAD_WARPS) {
    int64_t at = row * c.columns + column;
    float dy[WIDE] = {}, x[WIDE] = {}, before[WIDE] = {}, dot = 0.0f, rstd = c.statistics[row];
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, x);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      dot += dy[e] * w[e] * x[e];
      dw[e] += dy[e] * (x[e] * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(warp_sum(dot), rstd, c.columns);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * dy[e] * w[e] - pull * x[e];
    pack_write<WIDE>(c.dx + at, before);
  }
  if (!c.sums) return;
  if (inside)
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      sums[threadIdx.y][column + e] = dw[e];
  __syncthreads();
  unsigned own = threadIdx.y * WARP + threadIdx.x;
  if (own >= c.columns) return;
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < HEAD_WARPS; warp++)
    sum += sums[warp][own];
  c.sums[blockIdx.x * c.columns + own] = sum;
}

template <typename T, typename W> static hr_status rmsnorm_bwd_launch(const hr_call *call) {
  norm_bwd<T, W> c = norm_bwd_of<T, W>(call);
  if (!c.dx && !c.sums) return HR_OK;
  bool packs = norm_bwd_packs(c), heads = packs && row_is_head(call->in[HR_NORM_X].desc, c.columns);
  if (heads && !c.sums) c.rows_each = HEAD_WARPS;
  unsigned blocks = (unsigned)divide_up(c.rows, c.rows_each);
  cudaStream_t stream = call_stream(call);
  if (heads)
    launch(rmsnorm_bwd_head_kernel<T, W>, blocks, dim3(WARP, HEAD_WARPS), 0, stream, c);
  else if (packs && row_fits(c.columns))
    launch(rmsnorm_bwd_row_kernel<T, W>, blocks, row_threads(c.columns), 0, stream, c);
  else
    launch(rmsnorm_bwd_any_kernel<T, W>, blocks, ANY_THREADS, 0, stream, c);
  if (c.sums) norm_sums_launch<WEIGHTS>(call, c);
  return launched();
}

static hr_status rmsnorm_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_NORM_X].desc.dtype, [&](auto t) {
    return by_dtype(call->in[HR_NORM_W].desc.dtype,
                    [&](auto u) { return rmsnorm_bwd_launch<decltype(t), decltype(u)>(call); });
  });
}

extern "C" const hr_cuda_launcher hr_cuda_rmsnorm = {
    {nullptr, nullptr, rmsnorm_run},
    {NORM_PAIRS(rmsnorm_row_kernel), NORM_PAIRS(rmsnorm_any_kernel), NORM_PAIRS(rmsnorm_head_kernel)},
    nullptr,
    hr__few_take};

extern "C" const hr_cuda_launcher hr_cuda_rmsnorm_bwd = {{norm_bwd_prepare, nullptr, rmsnorm_bwd_run},
                                                         {NORM_PAIRS(rmsnorm_bwd_row_kernel),
                                                          NORM_PAIRS(rmsnorm_bwd_any_kernel),
                                                          NORM_PAIRS(rmsnorm_bwd_head_kernel), NORM_SUMS(WEIGHTS)}};
