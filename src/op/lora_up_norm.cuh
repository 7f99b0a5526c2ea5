/* lora_up, dropout, the residual's add and layernorm in one pass, for 16-bit rows that a norm has by tiles
 * (op/norm_tile.cuh): what stands between them stays in registers, rounded as if it had been in memory. */
#ifndef HR_OP_LORA_UP_NORM_CUH
#define HR_OP_LORA_UP_NORM_CUH

#include "dev/cuda/pair.cuh"
#include "op/lora_up_place.cuh"
#include "op/mask.cuh"
#include "op/norm_tile.cuh"

template <typename T> struct up_norm {
  const T *h, *weight, *y; /* y: what the adapter is added to */
  const T *residual;       /* NULL: none */
  T *sum;                  /* what is normed */
  float scale;
  rows_mask mask;
  norm_tile<T, T> norm;
};

/* The products are those of up_slab_kernel: same operands in the same registers. */
template <typename T, int RANK, int SLABS>
static __global__ void __launch_bounds__(NORM_WARPS *WARP) up_norm_kernel(const __grid_constant__ up_norm<T> given) {
  up_norm<T> c = given;
  int q = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
  int64_t first = (int64_t)blockIdx.x * NORM_ROWS, rows = c.norm.rows, columns = c.norm.columns;
  int64_t column = (int64_t)(threadIdx.x / WARP) * SLABS * NORM_SLAB;
  eight<T> tile[SLABS][2], residual[SLABS][2] = {};
  uint32_t x[4];
  tile_load(tile, c.y, first, rows, columns);
  if (c.residual) tile_load(residual, c.residual, first, rows, columns);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int64_t row = first + q + 8 * half;
    const T *from = c.h + row * RANK + 2 * t;
    x[half] = row < rows ? *(const uint32_t *)from : 0;
    x[2 + half] = RANK == 16 && row < rows ? *(const uint32_t *)(from + 8) : 0;
  }
  masked_row masked[2] = {};
  if (c.mask.control) {
    c.mask.begin();
    masked[0] = c.mask.row_of(first + q), masked[1] = c.mask.row_of(first + q + 8);
  }
#pragma unroll
  for (int s = 0; s < SLABS; s++) {
    float sum[4][4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const T *from = c.weight + (column + s * NORM_SLAB + 8 * (q / 2) + 2 * i + q % 2) * RANK + 2 * t;
      multiply<T>(sum[i], x, *(const uint32_t *)from, RANK == 16 ? *(const uint32_t *)(from + 8) : 0);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + q + 8 * half, at = column + s * NORM_SLAB + 8 * t;
      float to[8];
      eight_floats(tile[s][half], to);
#pragma unroll
      for (int e = 0; e < 8; e++)
        to[e] = fmaf(c.scale, sum[e / 2][2 * half + e % 2], to[e]);
      round_pairs<T>(to);
      if (c.mask.control) {
        c.mask.apply(to, masked[half], at);
        round_pairs<T>(to);
      }
      if (c.residual) {
        float other[8];
        eight_floats(residual[s][half], other);
#pragma unroll
        for (int e = 0; e < 8; e++)
          to[e] += other[e];
      }
      tile[s][half] = eight_rounded<T>(to);
      if (row < rows) pack_store<8>(c.sum + row * columns + at, tile[s][half]);
    }
  }
  tile_normalize(c.norm, tile, first);
}

template <typename T> static hr_status up_norm_launch(const hr_call *up, const up_norm<T> &c, int rank) {
  int warps = norm_tile_warps(c.norm.columns);
  unsigned blocks = (unsigned)divide_up(c.norm.rows, NORM_ROWS), threads = (unsigned)warps * WARP;
  return by_slabs((int)(c.norm.columns / NORM_SLAB) / warps, [&](auto slabs) {
    constexpr int SLABS = decltype(slabs)::value;
    launch(rank == 8 ? up_norm_kernel<T, 8, SLABS> : up_norm_kernel<T, 16, SLABS>, blocks, threads, 0, call_stream(up),
           c);
    return launched();
  });
}

#define UP_NORM_OF(T, SLABS) (const void *)up_norm_kernel<T, 8, SLABS>, (const void *)up_norm_kernel<T, 16, SLABS>
#define UP_NORM_FUNCTIONS    UP_NORM_OF(bf16, 1), UP_NORM_OF(bf16, 2), UP_NORM_OF(f16, 1), UP_NORM_OF(f16, 2)

#endif
