/* layernorm over rows of 16-bit numbers in tiles of 16, as matrix instructions hold them: a warp has up to 4 slabs of
 * 32 columns, lane 4 q + t columns [8 t, 8 t + 8) of each in rows q and q + 8. Rows then need no barrier each, and what
 * stands in front of a norm can hand its tile over in registers (op/lora_up_norm.cuh).
 *
 * Sums over a row go over the lane's slabs in order, the four lanes of a quad, and the warps in order: by the number of
 * columns alone, whichever kernel makes them.
 */
#ifndef HR_OP_NORM_TILE_CUH
#define HR_OP_NORM_TILE_CUH

#include <type_traits>

#include "dev/cuda/pair.cuh"
#include "op/norm.cuh"

enum { NORM_ROWS = 16, NORM_SLAB = 32, NORM_SLABS = 2, NORM_WARPS = 12 };

/* Warps of a block for rows of that many columns, each with the same number of slabs. 0: they do not go by tiles. */
static int norm_tile_warps(int64_t columns) {
  if (columns % NORM_SLAB != 0 || columns > NORM_WARPS * NORM_SLABS * NORM_SLAB) return 0;
  int slabs = (int)(columns / NORM_SLAB), warps = (slabs + NORM_SLABS - 1) / NORM_SLABS;
  while (slabs % warps != 0)
    warps++;
  return warps <= NORM_WARPS ? warps : 0;
}

/* Calls `function` with the compile-time number of slabs of a warp. */
template <typename F> static hr_status by_slabs(int slabs, const F &function) {
  if (slabs == 1) return function(std::integral_constant<int, 1>());
  return function(std::integral_constant<int, NORM_SLABS>());
}

/* A row's elements that one lane has of a slab. */
template <typename T> using eight = pack<T, 8>;

template <typename T> __device__ inline void eight_floats(const eight<T> &from, float *to) {
  pack_floats(from, to);
}
template <typename T> __device__ inline eight<T> eight_rounded(const float *from) {
  eight<T> to;
#pragma unroll
  for (int e = 0; e < 8; e++)
    to.value[e] = from_float<T>(from[e]);
  return to;
}

/* Sums of rows q and q + 8 over all lanes that have them. parts is of these sums alone until the next barrier. */
template <typename V> __device__ inline void tile_sum(V (&sum)[2], V (*parts)[NORM_ROWS]) {
  int warp = threadIdx.x / WARP, q = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    sum_add(sum[half], lane_across(sum[half], 1));
    sum_add(sum[half], lane_across(sum[half], 2));
    if (t == 0) parts[warp][q + 8 * half] = sum[half];
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    V total = {};
    for (unsigned w = 0; w < blockDim.x / WARP; w++)
      sum_add(total, parts[w][q + 8 * half]);
    sum[half] = total;
  }
}

template <typename T, typename W> struct norm_tile {
  const W *w, *b;
  T *y;
  float *statistics;
  int64_t rows, columns;
  float eps;
};

/* y and statistics of the tile of x that the block has in its registers, from row `first` on. */
template <typename T, typename W, int SLABS>
__device__ inline void tile_normalize(const norm_tile<T, W> &c, const eight<T> (&x)[SLABS][2], int64_t first) {
  __shared__ float parts[2][NORM_WARPS][NORM_ROWS];
  int q = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  int64_t column = (int64_t)(threadIdx.x / WARP) * SLABS * NORM_SLAB + 8 * t;
  float v[SLABS][2][8], mean[2] = {}, rstd[2] = {};
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
      eight_floats(x[s][half], v[s][half]);
#pragma unroll
      for (int e = 0; e < 8; e++)
        mean[half] += v[s][half][e];
    }
  tile_sum(mean, parts[0]);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    mean[half] /= (float)c.columns;
#pragma unroll
    for (int s = 0; s < SLABS; s++)
#pragma unroll
      for (int e = 0; e < 8; e++) {
        v[s][half][e] -= mean[half];
        rstd[half] = fmaf(v[s][half][e], v[s][half][e], rstd[half]);
      }
  }
  tile_sum(rstd, parts[1]);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    rstd[half] = 1.0f / sqrtf(rstd[half] / (float)c.columns + c.eps);
    int64_t row = first + q + 8 * half;
    if (row < c.rows && threadIdx.x < WARP && t == 0) {
      c.statistics[2 * row] = mean[half];
      c.statistics[2 * row + 1] = rstd[half];
    }
  }
#pragma unroll
  for (int s = 0; s < SLABS; s++) {
    float w[8], b[8];
    pack_read<8>(c.w + column + s * NORM_SLAB, w);
    pack_read<8>(c.b + column + s * NORM_SLAB, b);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + q + 8 * half;
#pragma unroll
      for (int e = 0; e < 8; e++)
        v[s][half][e] = fmaf(v[s][half][e] * rstd[half], w[e], b[e]);
      if (row < c.rows) pack_write<8>(c.y + row * c.columns + column + s * NORM_SLAB, v[s][half]);
    }
  }
}

/* The tile of a matrix [rows, columns] from row `first` on; what is not there is 0. */
template <typename T, int SLABS>
__device__ inline void tile_load(eight<T> (&to)[SLABS][2], const T *from, int64_t first, int64_t end, int64_t columns) {
  int q = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  int64_t column = (int64_t)(threadIdx.x / WARP) * SLABS * NORM_SLAB + 8 * t;
#pragma unroll
  for (int s = 0; s < SLABS; s++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + q + 8 * half;
      to[s][half] = {};
      if (row < end) to[s][half] = pack_load<8>(from + row * columns + column + s * NORM_SLAB);
    }
}

template <typename T, typename W, int SLABS>
static __global__ void __launch_bounds__(NORM_WARPS *WARP)
    layernorm_tile_kernel(const T *x, const __grid_constant__ norm_tile<T, W> c) {
  int64_t first = (int64_t)blockIdx.x * NORM_ROWS;
  eight<T> tile[SLABS][2];
  tile_load(tile, x, first, c.rows, c.columns);
  tile_normalize(c, tile, first);
}

/* Backward, tile by tile; with SUMS also those of the weights' gradients, over the block's rows. */
template <typename T, typename W, int SLABS, bool SUMS>
static __global__ void __launch_bounds__(NORM_WARPS *WARP)
    layernorm_bwd_tile_kernel(const __grid_constant__ norm_bwd<T, W> c) {
  __shared__ float2 parts[2][NORM_WARPS][NORM_ROWS]; /* by turns: one barrier a tile is enough */
  int q = threadIdx.x % WARP / 4, t = threadIdx.x % 4, turn = 0;
  int64_t column = (int64_t)(threadIdx.x / WARP) * SLABS * NORM_SLAB + 8 * t;
  int64_t begin = (int64_t)blockIdx.x * c.rows_each, end = min(c.rows, begin + c.rows_each);
  float dw[SUMS ? SLABS : 1][8] = {}, db[SUMS ? SLABS : 1][8] = {};
  for (int64_t first = begin; first < end; first += NORM_ROWS, turn ^= 1) {
    eight<T> dy[SLABS][2], x[SLABS][2], before[SLABS][2] = {};
    float n[SLABS][2][8], g[SLABS][2][8], mean[2] = {}, rstd[2] = {};
    float2 dots[2] = {};
    tile_load(dy, c.dy, first, end, c.columns);
    tile_load(x, c.x, first, end, c.columns);
    if (c.partial) tile_load(before, c.partial, first, end, c.columns);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + q + 8 * half;
      if (row >= end) continue;
      float2 statistics = ((const float2 *)c.statistics)[row];
      mean[half] = statistics.x, rstd[half] = statistics.y;
    }
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
      float w[8];
      pack_read<8>(c.w + column + s * NORM_SLAB, w);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float d[8];
        eight_floats(dy[s][half], d);
        eight_floats(x[s][half], n[s][half]);
#pragma unroll
        for (int e = 0; e < 8; e++) {
          n[s][half][e] = (n[s][half][e] - mean[half]) * rstd[half];
          g[s][half][e] = d[e] * w[e];
          dots[half].x += g[s][half][e];
          dots[half].y = fmaf(g[s][half][e], n[s][half][e], dots[half].y);
          if constexpr (SUMS) {
            dw[s][e] = fmaf(d[e], n[s][half][e], dw[s][e]);
            db[s][e] += d[e];
          }
        }
      }
    }
    if (!c.dx) continue;
    tile_sum(dots, parts[turn]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + q + 8 * half;
      float g_mean = dots[half].x / (float)c.columns, gn_mean = dots[half].y / (float)c.columns;
#pragma unroll
      for (int s = 0; s < SLABS; s++) {
        float to[8];
        eight_floats(before[s][half], to);
#pragma unroll
        for (int e = 0; e < 8; e++)
          to[e] = fmaf(rstd[half], g[s][half][e] - g_mean - n[s][half][e] * gn_mean, to[e]);
        if (row < end) pack_write<8>(c.dx + row * c.columns + column + s * NORM_SLAB, to);
      }
    }
  }
  if constexpr (SUMS) {
    float *sums = c.sums + 2 * (int64_t)blockIdx.x * c.columns + column;
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
#pragma unroll
      for (int e = 0; e < 8; e++)
#pragma unroll
        for (int distance = 4; distance < WARP; distance *= 2) {
          dw[s][e] += lane_across(dw[s][e], distance);
          db[s][e] += lane_across(db[s][e], distance);
        }
      if (q > 0) continue;
      pack_write<8>(sums + s * NORM_SLAB, dw[s]);
      pack_write<8>(sums + c.columns + s * NORM_SLAB, db[s]);
    }
  }
}

#define NORM_TILES_OF(T, W) (const void *)layernorm_tile_kernel<T, W, 1>, (const void *)layernorm_tile_kernel<T, W, 2>
#define NORM_BWD_TILES_OF(T, W, SUMS)                                                                                  \
  (const void *)layernorm_bwd_tile_kernel<T, W, 1, SUMS>, (const void *)layernorm_bwd_tile_kernel<T, W, 2, SUMS>

#endif
