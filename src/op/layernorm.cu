/* layernorm and its backward op on CUDA. 16-bit rows of whole slabs go by tiles (op/norm_tile.cuh), others have a block
 * each: op/norm.cuh says how it holds one. */
#include "op/norm_tile.cuh"
extern "C" {
#include "op/layernorm.h"
}

enum { WEIGHTS = 2 };

template <typename T, typename W> struct forward_call {
  const T *x;
  const W *w, *b;
  T *y;
  float *statistics;
  int64_t columns;
  float eps;
};

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_row_kernel(forward_call<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* one for each sum */
  int64_t column = threadIdx.x * WIDE, at = blockIdx.x * c.columns + column;
  bool inside = column < c.columns;
  float v[WIDE] = {}, w[WIDE], b[WIDE];
  if (inside) {
    pack_read<WIDE>(c.x + at, v);
    pack_read<WIDE>(c.w + column, w);
    pack_read<WIDE>(c.b + column, b);
  }
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    sum += v[e];
  float mean = row_sum(sum, warps[0]) / (float)c.columns;
  if (inside)
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      squares += (v[e] - mean) * (v[e] - mean);
  float rstd = 1.0f / sqrtf(row_sum(squares, warps[1]) / (float)c.columns + c.eps);
  if (threadIdx.x == 0) {
    c.statistics[2 * (int64_t)blockIdx.x] = mean;
    c.statistics[2 * (int64_t)blockIdx.x + 1] = rstd;
  }
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = (v[e] - mean) * rstd * w[e] + b[e];
  pack_write<WIDE>(c.y + at, v);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) layernorm_any_kernel(forward_call<T, W> c) {
  __shared__ float warps[2][ANY_THREADS / WARP];
  const T *from = c.x + blockIdx.x * c.columns;
  T *to = c.y + blockIdx.x * c.columns;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS)
    sum += to_float(from[i]);
  float mean = row_sum(sum, warps[0]) / (float)c.columns;
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
    float v = to_float(from[i]) - mean;
    squares += v * v;
  }
  float rstd = 1.0f / sqrtf(row_sum(squares, warps[1]) / (float)c.columns + c.eps);
  if (threadIdx.x == 0) {
    c.statistics[2 * (int64_t)blockIdx.x] = mean;
    c.statistics[2 * (int64_t)blockIdx.x + 1] = rstd;
  }
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS)
    to[i] = from_float<T>((to_float(from[i]) - mean) * rstd * to_float(c.w[i]) + to_float(c.b[i]));
}

/* Types that go by tiles: weights are in that of rows or in f32. */
template <typename T, typename W> constexpr bool TILES = sizeof(T) == 2 && (sizeof(W) == 4 || std::is_same_v<T, W>);

template <typename T, typename W> static hr_status layernorm_launch(const hr_call *call) {
  forward_call<T, W> c = {};
  c.x = (const T *)call->in[0].data;
  c.w = (const W *)call->in[1].data;
  c.b = (const W *)call->in[2].data;
  c.y = (T *)call->out[0].data;
  c.statistics = (float *)call->out[1].data;
  c.columns = desc_columns(call->in[0].desc);
  c.eps = ((const hr_layernorm_args *)call->args)->eps;
  unsigned rows = (unsigned)desc_rows(call->in[0].desc);
  if constexpr (TILES<T, W>)
    if (int warps = wide(c.x, c.w, c.b, c.y) ? norm_tile_warps(c.columns) : 0) {
      norm_tile<T, W> tile = {c.w, c.b, c.y, c.statistics, rows, c.columns, c.eps};
      return by_slabs((int)(c.columns / NORM_SLAB) / warps, [&](auto slabs) {
        launch(layernorm_tile_kernel<T, W, decltype(slabs)::value>, (unsigned)divide_up(rows, NORM_ROWS),
               (unsigned)warps * WARP, 0, call_stream(call), c.x, tile);
        return launched();
      });
    }
  if (row_fits(c.columns) && wide(c.x, c.w, c.b, c.y))
    launch(layernorm_row_kernel<T, W>, rows, row_threads(c.columns), 0, call_stream(call), c);
  else
    launch(layernorm_any_kernel<T, W>, rows, ANY_THREADS, 0, call_stream(call), c);
  return launched();
}

static hr_status layernorm_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) { return layernorm_launch<decltype(t), decltype(u)>(call); });
  });
}

/* ---- layernorm_bwd ---- */

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_bwd_row_kernel(norm_bwd<T, W> c) {
  __shared__ float2 warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {}, db[WIDE] = {};
  if (inside) pack_read<WIDE>(c.w + column, w);
  for (int64_t row = first; row < end; row++) {
    int64_t at = row * c.columns + column;
    float mean = c.statistics[2 * row], rstd = c.statistics[2 * row + 1];
    float dy[WIDE] = {}, n[WIDE] = {}, before[WIDE] = {};
    float2 dots = {0.0f, 0.0f};
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, n);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
#pragma unroll
      for (int e = 0; e < WIDE; e++) {
        n[e] = (n[e] - mean) * rstd;
        dots.x += dy[e] * w[e];
        dots.y += dy[e] * w[e] * n[e];
        dw[e] += dy[e] * n[e];
        db[e] += dy[e];
      }
    }
    if (!c.dx) continue;
    float2 sums = row_sum(dots, warps[row % 2]);
    if (!inside) continue;
    float g_mean = sums.x / (float)c.columns, gn_mean = sums.y / (float)c.columns;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * (dy[e] * w[e] - g_mean - n[e] * gn_mean);
    pack_write<WIDE>(c.dx + at, before);
  }
  if (c.sums && inside) {
    float *sums = c.sums + 2 * blockIdx.x * c.columns + column;
    pack_write<WIDE>(sums, dw);
    pack_write<WIDE>(sums + c.columns, db);
  }
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) layernorm_bwd_any_kernel(norm_bwd<T, W> c) {
  __shared__ float2 warps[2][ANY_THREADS / WARP];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  float *dw = c.sums ? c.sums + 2 * blockIdx.x * c.columns : nullptr; /* each column belongs to one thread */
  for (int64_t row = first; row < end; row++) {
    const T *dy = c.dy + row * c.columns, *x = c.x + row * c.columns;
    float mean = c.statistics[2 * row], rstd = c.statistics[2 * row + 1];
    float2 dots = {0.0f, 0.0f};
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float d = to_float(dy[i]), n = (to_float(x[i]) - mean) * rstd, g = d * to_float(c.w[i]);
      dots.x += g;
      dots.y += g * n;
      if (!dw) continue;
      dw[i] = (row == first ? 0.0f : dw[i]) + d * n;
      dw[c.columns + i] = (row == first ? 0.0f : dw[c.columns + i]) + d;
    }
    if (!c.dx) continue;
    float2 sums = row_sum(dots, warps[row % 2]);
    float g_mean = sums.x / (float)c.columns, gn_mean = sums.y / (float)c.columns;
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float before = c.partial ? to_float(c.partial[row * c.columns + i]) : 0.0f;
      float n = (to_float(x[i]) - mean) * rstd;
      float own = rstd * (to_float(dy[i]) * to_float(c.w[i]) - g_mean - n * gn_mean);
      c.dx[row * c.columns + i] = from_float<T>(before + own);
    }
  }
}

template <typename T, typename W> static hr_status layernorm_bwd_launch(const hr_call *call) {
  norm_bwd<T, W> c = norm_bwd_of<T, W>(call);
  if (!c.dx && !c.sums) return HR_OK;
  cudaStream_t stream = call_stream(call);
  if constexpr (TILES<T, W>)
    if (int warps = norm_bwd_packs(c) ? norm_tile_warps(c.columns) : 0) {
      if (!c.sums) c.rows_each = NORM_ROWS;
      hr_status status = by_slabs((int)(c.columns / NORM_SLAB) / warps, [&](auto slabs) {
        constexpr int SLABS = decltype(slabs)::value;
        launch(c.sums ? layernorm_bwd_tile_kernel<T, W, SLABS, true> : layernorm_bwd_tile_kernel<T, W, SLABS, false>,
               (unsigned)divide_up(c.rows, c.rows_each), (unsigned)warps * WARP, 0, stream, c);
        return launched();
      });
      if (c.sums && status == HR_OK) norm_sums_launch<WEIGHTS>(call, c);
      return status == HR_OK ? launched() : status;
    }
  unsigned blocks = (unsigned)divide_up(c.rows, c.rows_each);
  if (row_fits(c.columns) && norm_bwd_packs(c))
    launch(layernorm_bwd_row_kernel<T, W>, blocks, row_threads(c.columns), 0, stream, c);
  else
    launch(layernorm_bwd_any_kernel<T, W>, blocks, ANY_THREADS, 0, stream, c);
  if (c.sums) norm_sums_launch<WEIGHTS>(call, c);
  return launched();
}

static hr_status layernorm_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_NORM_X].desc.dtype, [&](auto t) {
    return by_dtype(call->in[HR_NORM_W].desc.dtype,
                    [&](auto u) { return layernorm_bwd_launch<decltype(t), decltype(u)>(call); });
  });
}

#define NORM_TILES                                                                                                     \
  NORM_TILES_OF(bf16, bf16), NORM_TILES_OF(bf16, float), NORM_TILES_OF(f16, f16), NORM_TILES_OF(f16, float)
#define NORM_BWD_TILES(SUMS)                                                                                           \
  NORM_BWD_TILES_OF(bf16, bf16, SUMS), NORM_BWD_TILES_OF(bf16, float, SUMS), NORM_BWD_TILES_OF(f16, f16, SUMS),        \
      NORM_BWD_TILES_OF(f16, float, SUMS)

extern "C" const hr_cuda_launcher hr_cuda_layernorm = {
    {nullptr, nullptr, layernorm_run},
    {NORM_PAIRS(layernorm_row_kernel), NORM_PAIRS(layernorm_any_kernel), NORM_TILES}};

extern "C" const hr_cuda_launcher hr_cuda_layernorm_bwd = {{norm_bwd_prepare, nullptr, layernorm_bwd_run},
                                                           {NORM_PAIRS(layernorm_bwd_row_kernel),
                                                            NORM_PAIRS(layernorm_bwd_any_kernel), NORM_SUMS(WEIGHTS),
                                                            NORM_BWD_TILES(true), NORM_BWD_TILES(false)}};
