/* Backward of lora_up on tensor cores, for the calls that op/lora_up_cuda.h calls tiled: one pass over dy, which is
 * multiplied from one set of registers for both gradients, then the sums completed. */
#ifndef HR_OP_LORA_UP_TILE_CUH
#define HR_OP_LORA_UP_TILE_CUH

#include "op/lora_up_source.cuh"
extern "C" {
#include "op/lora_up_cuda.h"
}

enum {
  TILE_SLABS = 2,
  TILE_WIDE = HR_LORA_TILE / TILE_SLABS / 32,
  TILE_NARROW = HR_LORA_NARROW / TILE_SLABS / 32
};                                         /* warps */
enum { TILE_FINISH = 32, TILE_LANES = 8 }; /* elements of dB that a block completes, and lanes for each */

/* Steps of 16 rows between two barriers. */
template <int RANK> constexpr int TILE_STEPS = 32 / RANK;

/* Two 16-bit numbers in one register, the first low. A number that is not there is 0. */
template <typename T> __device__ inline uint32_t joined(const T *low, bool has_low, const T *high, bool has_high) {
  uint32_t l = has_low ? *(const uint16_t *)low : 0, h = has_high ? *(const uint16_t *)high : 0;
  return l | h << 16;
}

/* Where a block works. */
struct tile_place {
  int group;
  int64_t first_column; /* of y */
  int64_t first_weight; /* row of B */
  int64_t columns;      /* up to those of a tile */
};

__device__ inline tile_place place_of_tile(const hr_lora_up_args &a, int64_t columns, int64_t tile) {
  int64_t before = 0;
  int g = 0;
  for (;; g++) {
    int64_t tiles = (a.rows[g] + columns - 1) / columns;
    if (g + 1 == a.groups || tile < tiles) break;
    tile -= tiles;
    before += a.rows[g];
  }
  int64_t skip = tile * columns, left = a.rows[g] - skip;
  return {g, a.first[g] + skip, before + skip, left < columns ? left : columns};
}

/* A warp has TILE_SLABS slabs of 32 columns and goes down the rows of the block, 16 at a time. In a slab, lane 4 q + t
 * holds columns [8 t, 8 t + 8) of rows q and q + 8: registers i = 0..3 of each have columns 8 t + 2 i and + 1.
 *
 *   dh [16 rows, rank] += dy B: two products over 16 columns each. Sums do not mind in which order columns are
 *     numbered: number 2 t + e of product p is column 8 t + 4 p + e, number 2 t + 8 + e is column 8 t + 4 p + 2 + e.
 *   dBt [rank, columns] += ht dy: for each i the 8 columns 8 t + 2 i + e, from transposed registers. The results of
 *     lane 4 q + t are those of its own columns, for k = q (and q + 8).
 */
template <typename T, int RANK, int WARPS, typename SOURCE>
static __global__ void __launch_bounds__(WARPS * 32, HR_LORA_AT_ONCE + (WARPS == TILE_NARROW))
    tile_kernel(const __grid_constant__ SOURCE given, const T *h, const T *weight, float *dh_sums, float *db_sums,
                int64_t rows, hr_lora_cuda l, const __grid_constant__ hr_lora_up_args a) {
  constexpr int STEPS = TILE_STEPS<RANK>, PART = HR_LORA_ROWS * RANK;
  __shared__ float parts[2][WARPS][STEPS * PART];
  int64_t tile = (int64_t)blockIdx.x % l.tiles, row_block = (int64_t)blockIdx.x / l.tiles;
  tile_place place = place_of_tile(a, l.tile, tile);
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t begin = row_block * l.block_rows, end = begin + l.block_rows < rows ? begin + l.block_rows : rows;
  int64_t h_width = a.groups * RANK;
  const T *h_group = h + place.group * RANK;

  SOURCE dy = given;
  dy.begin(begin + q, begin + q + 8);
  int column[TILE_SLABS]; /* in the tile */
  bool inside[TILE_SLABS];
  uint32_t b[TILE_SLABS][2][RANK / 8][2];
  float db[TILE_SLABS][4][4];
#pragma unroll
  for (int s = 0; s < TILE_SLABS; s++) {
    column[s] = (warp * TILE_SLABS + s) * 32 + t * 8;
    inside[s] = column[s] < place.columns;
#pragma unroll
    for (int p = 0; p < 2; p++)
#pragma unroll
      for (int n = 0; n < RANK / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const T *at = weight + (place.first_weight + column[s] + 4 * p + 2 * half) * RANK + n * 8 + q;
          b[s][p][n][half] = joined(at, inside[s], at + RANK, inside[s]);
        }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        db[s][i][c] = 0.0f;
  }

  typename SOURCE::raw next[TILE_SLABS][2]; /* what dy of rows q and q + 8 is made of, one step ahead */
#pragma unroll
  for (int s = 0; s < TILE_SLABS; s++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = begin + q + 8 * half;
      next[s][half] = {};
      if (inside[s] && row < end) next[s][half] = dy.load(row, place.first_column + column[s]);
    }

  int side = 0, step = 0; /* of those between two barriers */
  for (int64_t first = begin; first < end; first += HR_LORA_ROWS) {
    uint32_t from[TILE_SLABS][2][4], ht[4];
#pragma unroll
    for (int s = 0; s < TILE_SLABS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int64_t row = first + q + 8 * half;
        uint4 made = make_uint4(0, 0, 0, 0);
        if (inside[s] && row < end) made = dy.make(next[s][half], half, row, place.first_column + column[s]);
        from[s][half][0] = made.x;
        from[s][half][1] = made.y;
        from[s][half][2] = made.z;
        from[s][half][3] = made.w;
        row += HR_LORA_ROWS;
        next[s][half] = {};
        if (inside[s] && row < end) next[s][half] = dy.load(row, place.first_column + column[s]);
      }
    dy.rows_next(HR_LORA_ROWS);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = first + 2 * t + 8 * half;
      const T *at = h_group + row * h_width + q;
      ht[2 * half] = joined(at, row < end, at + h_width, row + 1 < end);
      ht[2 * half + 1] = RANK == 16 ? joined(at + 8, row < end, at + h_width + 8, row + 1 < end) : 0;
    }

    float dh[RANK / 8][4];
#pragma unroll
    for (int n = 0; n < RANK / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        dh[n][c] = 0.0f;
#pragma unroll
    for (int s = 0; s < TILE_SLABS; s++) {
#pragma unroll
      for (int p = 0; p < 2; p++) {
        uint32_t x[4] = {from[s][0][2 * p], from[s][1][2 * p], from[s][0][2 * p + 1], from[s][1][2 * p + 1]};
#pragma unroll
        for (int n = 0; n < RANK / 8; n++)
          multiply<T>(dh[n], x, b[s][p][n][0], b[s][p][n][1]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t low = transposed(from[s][0][i]), high = transposed(from[s][1][i]);
        multiply<T>(db[s][i], ht, low, high);
      }
    }

    /* dh of these rows over the warps of the block. The other side is read by none any more: all have passed the
     * barrier of the step before. */
#pragma unroll
    for (int n = 0; n < RANK / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        parts[side][warp][step * PART + (q + c / 2 * 8) * RANK + n * 8 + 2 * t + c % 2] = dh[n][c];
    if (++step < STEPS && first + HR_LORA_ROWS < end) continue;
    __syncthreads();
    int64_t summed = first - (step - 1) * HR_LORA_ROWS; /* first of the rows */
    for (int i = threadIdx.x; i < step * PART; i += WARPS * 32) {
      int64_t row = summed + i / RANK;
      if (row >= end) break;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < WARPS; w++)
        sum += parts[side][w][i];
      dh_sums[(tile * rows + row) * RANK + i % RANK] = sum;
    }
    step = 0, side ^= 1;
  }

#pragma unroll
  for (int s = 0; s < TILE_SLABS; s++) {
    if (!inside[s]) continue;
    float *to = db_sums + (row_block * l.weight_rows + place.first_weight + column[s]) * RANK + q;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int c = 0; c < (RANK == 16 ? 4 : 2); c++)
        to[(2 * i + c % 2) * RANK + c / 2 * 8] = db[s][i][c];
  }
}

/* Completes the sums: blocks of dh first, a thread for an element, then those of dB, whose sums are many. */
template <typename T, typename P>
static __global__ void __launch_bounds__(TILE_FINISH *TILE_LANES)
    tile_finish_kernel(const float *dh_sums, const float *db_sums, const P *partial, T *dh, P *db, int64_t rows,
                       int64_t dh_blocks, hr_lora_cuda l, const __grid_constant__ hr_lora_up_args a) {
  __shared__ float parts[TILE_LANES][TILE_FINISH];
  int64_t width = a.groups * a.rank, db_count = l.weight_rows * a.rank;
  if (blockIdx.x < dh_blocks) {
    int64_t i = (int64_t)blockIdx.x * (TILE_FINISH * TILE_LANES) + threadIdx.x;
    if (i >= rows * width) return;
    int64_t row = i / width, k = i % width % a.rank, tile = 0, tiles = 0;
    int group = (int)(i % width / a.rank);
    float sum = 0.0f;
    for (int g = 0; g <= group; g++) {
      tile += tiles;
      tiles = (a.rows[g] + l.tile - 1) / l.tile;
    }
#pragma unroll 8
    for (int64_t n = 0; n < tiles; n++)
      sum += dh_sums[((tile + n) * rows + row) * a.rank + k];
    dh[i] = from_float<T>(a.scale * sum);
    return;
  }
  int lane = threadIdx.x / TILE_FINISH, x = threadIdx.x % TILE_FINISH;
  int64_t at = ((int64_t)blockIdx.x - dh_blocks) * TILE_FINISH + x;
  float sum = 0.0f;
  if (at < db_count)
#pragma unroll 8
    for (int64_t n = lane; n < l.row_blocks; n += TILE_LANES)
      sum += db_sums[n * db_count + at];
  parts[lane][x] = sum;
  __syncthreads();
  if (lane > 0 || at >= db_count) return;
  sum = 0.0f;
#pragma unroll
  for (int other = 0; other < TILE_LANES; other++)
    sum += parts[other][x];
  db[at] = from_float<P>(a.scale * sum + (partial ? to_float(partial[at]) : 0.0f));
}

template <typename T, typename P, int RANK, typename SOURCE>
static hr_status bwd_tile_launch(const hr_call *call, const SOURCE &dy, const hr_lora_up_args &a, const hr_lora_cuda &l,
                                 int64_t rows) {
  float *dh_sums = (float *)call->workspace, *db_sums = (float *)((char *)call->workspace + l.db_sums);
  cudaStream_t stream = call_stream(call);
  bool narrow = l.tile == HR_LORA_NARROW;
  launch(narrow ? tile_kernel<T, RANK, TILE_NARROW, SOURCE> : tile_kernel<T, RANK, TILE_WIDE, SOURCE>,
         (unsigned)(l.tiles * l.row_blocks), (narrow ? TILE_NARROW : TILE_WIDE) * 32, 0, stream, dy,
         (const T *)call->in[1].data, (const T *)call->in[2].data, dh_sums, db_sums, rows, l, a);
  int64_t dh_blocks = divide_up(rows * a.groups * RANK, TILE_FINISH * TILE_LANES);
  launch(tile_finish_kernel<T, P>, (unsigned)(dh_blocks + divide_up(l.weight_rows * RANK, TILE_FINISH)),
         TILE_FINISH * TILE_LANES, 0, stream, dh_sums, db_sums, (const P *)call->in[3].data, (T *)call->out[0].data,
         (P *)call->out[1].data, rows, dh_blocks, l, a);
  return launched();
}

#define TILE_KERNELS_OF(T, WARPS, ...)                                                                                 \
  (const void *)tile_kernel<T, 8, WARPS, __VA_ARGS__>, (const void *)tile_kernel<T, 16, WARPS, __VA_ARGS__>
#define TILE_KERNELS(T, ...) TILE_KERNELS_OF(T, TILE_WIDE, __VA_ARGS__), TILE_KERNELS_OF(T, TILE_NARROW, __VA_ARGS__)
#define TILE_FUNCTIONS(T)                                                                                              \
  TILE_KERNELS(T, dy_stored<T>), TILE_KERNELS(T, dy_dropped<T>), TILE_KERNELS(T, dy_through_gelu<T, false>),           \
      TILE_KERNELS(T, dy_through_gelu<T, true>), (const void *)tile_finish_kernel<T, float>,                           \
      (const void *)tile_finish_kernel<T, bf16>, (const void *)tile_finish_kernel<T, f16>

#endif
