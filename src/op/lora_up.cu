/* lora_up on CUDA: one pass over y, and one over dy for both gradients.
 *
 * What belongs to a thread's columns of B stays in registers while it walks down the rows. In 16 bits tensor cores
 * multiply, backward from one set of registers with dy. All other shapes take plain loops.
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/lora_up.h"
#include "op/lora_up_cuda.h"
}

/* --- which group ------------------------------------------------------------------------------------------------- */

struct lora_place {
  int group;      /* -1: none */
  int64_t weight; /* row of B */
};

/* The group of column `column` of y. */
__device__ inline lora_place place_of_column(const hr_lora_up_args &a, int64_t column) {
  int64_t before = 0;
  for (int g = 0; g < a.groups; g++) {
    if (column >= a.first[g] && column < a.first[g] + a.rows[g]) return {g, before + column - a.first[g]};
    before += a.rows[g];
  }
  return {-1, 0};
}

/* The group of row `weight` of B, which exists. */
__device__ inline int group_of_weight(const hr_lora_up_args &a, int64_t weight, int64_t *before) {
  int g = 0;
  *before = 0;
  while (g + 1 < a.groups && weight >= *before + a.rows[g])
    *before += a.rows[g++];
  return g;
}

/* --- tensor cores ------------------------------------------------------------------------------------------------ */

/* d += a b, with a [16, 16], b [16, 8] and d [16, 8] spread over the warp. Lane 4 q + t holds
 *   a: (q, 2t), (q + 8, 2t), (q, 2t + 8), (q + 8, 2t + 8), each with its right neighbour;
 *   b: (2t, q), (2t + 8, q), each with the one below;
 *   d: (q, 2t), (q, 2t + 1), (q + 8, 2t), (q + 8, 2t + 1). */
template <typename T> __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
template <> __device__ inline void multiply<bf16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <> __device__ inline void multiply<f16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* --- forward, slabs ---------------------------------------------------------------------------------------------- */

enum { SLAB = 32, SLABS = 2, SLAB_WARPS = 8, SLAB_THREADS = SLAB_WARPS * 32, SLAB_BLOCKS = 3, SLAB_STEP = 16 };

/* A block: SLAB_WARPS x SLABS slabs of SLAB columns, block_rows rows, a multiple of SLAB_STEP. Columns and groups are
 * multiples of SLAB: a slab belongs to one group or to none. Lane 4 q + t has columns [8 t, 8 t + 8) of a slab in rows
 * q and q + 8 of a step: result (q, 2 t + e) of product i is column 8 t + 2 i + e, so that column 2 (q / 2) + q % 2 of
 * its second operand, which this lane has a part of, is row 8 (q / 2) + 2 i + q % 2 of B. */
template <typename T, int RANK>
static __global__ void __launch_bounds__(SLAB_THREADS, SLAB_BLOCKS)
    up_slab_kernel(const T *h, const T *weight, const T *add, T *y, int64_t rows, int64_t column_blocks,
                   int64_t block_rows, const __grid_constant__ hr_lora_up_args a) {
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t begin = (int64_t)blockIdx.x / column_blocks * block_rows, width = a.groups * RANK;
  int64_t column = ((int64_t)blockIdx.x % column_blocks * SLAB_WARPS + warp) * SLABS * SLAB; /* of the first slab */
  int64_t at = (begin + q) * a.columns + column + 8 * t;
  int n = (int)(rows - begin < block_rows ? rows - begin : block_rows);
  bool inside[SLABS], grouped[SLABS];
  const T *h_at[SLABS];
  uint32_t b[SLABS][4][2];
#pragma unroll
  for (int s = 0; s < SLABS; s++) {
    lora_place place = place_of_column(a, column + s * SLAB);
    inside[s] = column + s * SLAB < a.columns;
    grouped[s] = place.group >= 0;
    h_at[s] = h + (begin + q) * width + (grouped[s] ? place.group * RANK : 0) + 2 * t;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const T *from = weight + (place.weight + 8 * (q / 2) + 2 * i + q % 2) * RANK + 2 * t;
      b[s][i][0] = grouped[s] ? *(const uint32_t *)from : 0;
      b[s][i][1] = RANK == 16 && grouped[s] ? *(const uint32_t *)(from + 8) : 0;
    }
  }
  for (int first = 0; first < n; first += SLAB_STEP) {
    pack<T, 8> from[SLABS][2];
    uint32_t x[SLABS][4];
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        bool has = inside[s] && first + q + 8 * half < n;
        from[s][half] = {};
        if (add && has) from[s][half] = pack_load<8>(add + at + half * 8 * a.columns + s * SLAB);
        x[s][half] = has && grouped[s] ? *(const uint32_t *)(h_at[s] + half * 8 * width) : 0;
        x[s][2 + half] = RANK == 16 && has && grouped[s] ? *(const uint32_t *)(h_at[s] + half * 8 * width + 8) : 0;
      }
      h_at[s] += SLAB_STEP * width;
    }
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
      float sum[4][4] = {};
#pragma unroll
      for (int i = 0; i < 4; i++)
        multiply<T>(sum[i], x[s], b[s][i]);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float to[8];
#pragma unroll
        for (int e = 0; e < 8; e++)
          to[e] = to_float(from[s][half].value[e]) + a.scale * sum[e / 2][2 * half + e % 2];
        if (inside[s] && first + q + 8 * half < n) pack_write<8>(y + at + half * 8 * a.columns + s * SLAB, to);
      }
    }
    at += SLAB_STEP * a.columns;
  }
}

/* Whether y goes by slabs. */
static bool slabs_fit(const hr_call *call, const hr_lora_up_args &a) {
  bool fit = a.columns % SLAB == 0 && aligned(call->in[0].data, 4) && aligned(call->in[1].data, 4) &&
             wide(call->in[2].data, call->out[0].data);
  for (int g = 0; g < a.groups; g++)
    fit = fit && a.first[g] % SLAB == 0 && a.rows[g] % SLAB == 0;
  return fit;
}

/* Many rows to a block save reads of B, few make enough blocks. */
template <typename T, int RANK> static hr_status up_slab_launch(const hr_call *call, const hr_lora_up_args &a) {
  enum { ROWS_FEW = 2 * SLAB_STEP, ROWS_MANY = 4 * SLAB_STEP, BLOCKS_ENOUGH = 1024 };
  int64_t rows = desc_rows(call->out[0].desc);
  int64_t column_blocks = divide_up(a.columns, SLAB_WARPS * SLABS * SLAB), block_rows = ROWS_MANY;
  if (column_blocks * divide_up(rows, block_rows) < BLOCKS_ENOUGH) block_rows = ROWS_FEW;
  int64_t blocks = column_blocks * divide_up(rows, block_rows);
  up_slab_kernel<T, RANK><<<(unsigned)blocks, SLAB_THREADS, 0, call_stream(call)>>>(
      (const T *)call->in[0].data, (const T *)call->in[1].data, (const T *)call->in[2].data, (T *)call->out[0].data,
      rows, column_blocks, block_rows, a);
  return launched();
}

/* --- forward ----------------------------------------------------------------------------------------------------- */

enum { UP_THREADS = 128, UP_ROWS = 32, UP_AHEAD = 4, LOOP_ROWS = 16, LOOP_RANK = 8 };

/* A block: UP_THREADS packs of W columns, UP_ROWS rows. Columns and groups are multiples of W, rows aligned for packs.
 */
template <typename T, int RANK, int W>
static __global__ void __launch_bounds__(UP_THREADS)
    up_kernel(const T *h, const T *weight, const T *add, T *y, int64_t rows, int64_t column_blocks,
              const __grid_constant__ hr_lora_up_args a) {
  __shared__ alignas(16) float scaled[UP_ROWS * HR_LORA_GROUPS * RANK]; /* scale h of these rows */
  int64_t first_row = (int64_t)blockIdx.x / column_blocks * UP_ROWS;
  int64_t column = ((int64_t)blockIdx.x % column_blocks * UP_THREADS + threadIdx.x) * W;
  int n = (int)(rows - first_row < UP_ROWS ? rows - first_row : UP_ROWS), width = a.groups * RANK;
  for (int i = threadIdx.x; i < n * width; i += UP_THREADS)
    scaled[i] = a.scale * to_float(h[first_row * width + i]);
  __syncthreads();
  if (column >= a.columns) return;

  lora_place place = place_of_column(a, column);
  float b[W][RANK];
#pragma unroll
  for (int e = 0; e < W; e++)
#pragma unroll
    for (int k = 0; k < RANK; k += 4) {
      pack<T, 4> four = {};
      if (place.group >= 0) four = *(const pack<T, 4> *)(weight + (place.weight + e) * RANK + k);
#pragma unroll
      for (int i = 0; i < 4; i++)
        b[e][k + i] = to_float(four.value[i]);
    }
  const float *row_scaled = scaled + (place.group < 0 ? 0 : place.group) * RANK;
  for (int first = 0; first < n; first += UP_AHEAD) {
    pack<T, W> from[UP_AHEAD];
#pragma unroll
    for (int u = 0; u < UP_AHEAD; u++) {
      from[u] = {};
      if (add && first + u < n) from[u] = *(const pack<T, W> *)(add + (first_row + first + u) * a.columns + column);
    }
#pragma unroll
    for (int u = 0; u < UP_AHEAD; u++) {
      if (first + u >= n) break;
      float sum[W];
#pragma unroll
      for (int e = 0; e < W; e++)
        sum[e] = to_float(from[u].value[e]);
#pragma unroll
      for (int k = 0; k < RANK; k += 4) {
        pack<float, 4> s = *(const pack<float, 4> *)(row_scaled + (first + u) * width + k);
#pragma unroll
        for (int e = 0; e < W; e++)
#pragma unroll
          for (int i = 0; i < 4; i++)
            sum[e] += s.value[i] * b[e][k + i];
      }
      pack<T, W> to;
#pragma unroll
      for (int e = 0; e < W; e++)
        to.value[e] = from_float<T>(sum[e]);
      *(pack<T, W> *)(y + (first_row + first + u) * a.columns + column) = to;
    }
  }
}

/* Any shape: a thread has one column and LOOP_ROWS rows. */
template <typename T>
static __global__ void up_loop_kernel(const T *h, const T *weight, const T *add, T *y, int64_t rows,
                                      int64_t column_blocks, const __grid_constant__ hr_lora_up_args a) {
  int64_t first_row = (int64_t)blockIdx.x / column_blocks * LOOP_ROWS;
  int64_t column = (int64_t)blockIdx.x % column_blocks * UP_THREADS + threadIdx.x, width = a.groups * a.rank;
  if (column >= a.columns) return;
  lora_place place = place_of_column(a, column);
  float sum[LOOP_ROWS];
#pragma unroll
  for (int r = 0; r < LOOP_ROWS; r++)
    sum[r] = 0.0f;
  for (int64_t k0 = 0; place.group >= 0 && k0 < a.rank; k0 += LOOP_RANK) {
    float b[LOOP_RANK];
#pragma unroll
    for (int i = 0; i < LOOP_RANK; i++)
      b[i] = k0 + i < a.rank ? a.scale * to_float(weight[place.weight * a.rank + k0 + i]) : 0.0f;
#pragma unroll
    for (int r = 0; r < LOOP_ROWS; r++)
      for (int i = 0; i < LOOP_RANK; i++)
        if (first_row + r < rows && k0 + i < a.rank)
          sum[r] += b[i] * to_float(h[(first_row + r) * width + place.group * a.rank + k0 + i]);
  }
#pragma unroll
  for (int r = 0; r < LOOP_ROWS; r++) {
    int64_t at = (first_row + r) * a.columns + column;
    if (first_row + r < rows) y[at] = from_float<T>(sum[r] + (add ? to_float(add[at]) : 0.0f));
  }
}

/* Whether columns of y can be taken in packs of W. */
template <typename T, int W> static bool packs_fit(const hr_call *call, const hr_lora_up_args &a) {
  bool fit = a.columns % W == 0 && aligned(call->in[1].data, sizeof(T) * 4) &&
             aligned(call->in[2].data, sizeof(T) * W) && aligned(call->out[0].data, sizeof(T) * W);
  for (int g = 0; g < a.groups; g++)
    fit = fit && a.first[g] % W == 0 && a.rows[g] % W == 0;
  return fit;
}

static int64_t blocks_for(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

template <typename T, int RANK, int W> static hr_status up_launch(const hr_call *call, const hr_lora_up_args &a) {
  int64_t rows = desc_rows(call->out[0].desc), column_blocks = blocks_for(a.columns, UP_THREADS * W);
  int64_t blocks = column_blocks * blocks_for(rows, UP_ROWS);
  up_kernel<T, RANK, W><<<(unsigned)blocks, UP_THREADS, 0, call_stream(call)>>>(
      (const T *)call->in[0].data, (const T *)call->in[1].data, (const T *)call->in[2].data, (T *)call->out[0].data,
      rows, column_blocks, a);
  return launched();
}

template <typename T> static hr_status up_loop_launch(const hr_call *call, const hr_lora_up_args &a) {
  int64_t rows = desc_rows(call->out[0].desc), column_blocks = blocks_for(a.columns, UP_THREADS);
  int64_t blocks = column_blocks * blocks_for(rows, LOOP_ROWS);
  up_loop_kernel<T><<<(unsigned)blocks, UP_THREADS, 0, call_stream(call)>>>(
      (const T *)call->in[0].data, (const T *)call->in[1].data, (const T *)call->in[2].data, (T *)call->out[0].data,
      rows, column_blocks, a);
  return launched();
}

/* Columns of a thread: 16 bytes of y, but no more than 64 numbers of B in registers. */
template <typename T, int RANK>
constexpr int UP_WIDTH = 16 / (int)sizeof(T) * RANK > 64 ? 64 / RANK : 16 / (int)sizeof(T);

static hr_status lora_up_run(const hr_call *call) {
  const hr_lora_up_args &a = *(const hr_lora_up_args *)call->args;
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int W8 = UP_WIDTH<T, 8>, W16 = UP_WIDTH<T, 16>;
    if constexpr (sizeof(T) == 2) {
      if (a.rank == 8 && slabs_fit(call, a)) return up_slab_launch<T, 8>(call, a);
      if (a.rank == 16 && slabs_fit(call, a)) return up_slab_launch<T, 16>(call, a);
    }
    if (a.rank == 8 && packs_fit<T, W8>(call, a)) return up_launch<T, 8, W8>(call, a);
    if (a.rank == 16 && packs_fit<T, W16>(call, a)) return up_launch<T, 16, W16>(call, a);
    return up_loop_launch<T>(call, a);
  });
}

/* --- backward, tiled --------------------------------------------------------------------------------------------- */

enum { BWD_WARPS = 8, BWD_THREADS = BWD_WARPS * 32, BWD_SLABS = HR_LORA_TILE / BWD_WARPS / 32 };

/* An 8 x 8 matrix of 16-bit numbers over the warp, lane 4 q + t with (q, 2t) and (q, 2t + 1), transposed. */
__device__ inline uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

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
  int64_t columns;      /* up to HR_LORA_TILE */
};

__device__ inline tile_place place_of_tile(const hr_lora_up_args &a, int64_t tile) {
  int64_t before = 0;
  int g = 0;
  for (;; g++) {
    int64_t tiles = (a.rows[g] + HR_LORA_TILE - 1) / HR_LORA_TILE;
    if (g + 1 == a.groups || tile < tiles) break;
    tile -= tiles;
    before += a.rows[g];
  }
  int64_t skip = tile * HR_LORA_TILE, left = a.rows[g] - skip;
  return {g, a.first[g] + skip, before + skip, left < HR_LORA_TILE ? left : HR_LORA_TILE};
}

/* A warp has BWD_SLABS slabs of 32 columns and goes down the rows of the block, 16 at a time. In a slab, lane 4 q + t
 * holds columns [8 t, 8 t + 8) of rows q and q + 8: registers i = 0..3 of each have columns 8 t + 2 i and + 1.
 *
 *   dh [16 rows, rank] += dy B: two products over 16 columns each. Sums do not mind in which order columns are
 *     numbered: number 2 t + e of product p is column 8 t + 4 p + e, number 2 t + 8 + e is column 8 t + 4 p + 2 + e.
 *   dBt [rank, columns] += ht dy: for each i the 8 columns 8 t + 2 i + e, from transposed registers. The results of
 *     lane 4 q + t are those of its own columns, for k = q (and q + 8).
 */
template <typename T, int RANK>
static __global__ void __launch_bounds__(BWD_THREADS)
    bwd_kernel(const T *dy, const T *h, const T *weight, float *dh_sums, float *db_sums, int64_t rows, hr_lora_cuda l,
               const __grid_constant__ hr_lora_up_args a) {
  __shared__ float parts[2][BWD_WARPS][HR_LORA_ROWS * RANK];
  int64_t tile = (int64_t)blockIdx.x % l.tiles, row_block = (int64_t)blockIdx.x / l.tiles;
  tile_place place = place_of_tile(a, tile);
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t begin = row_block * l.block_rows, end = begin + l.block_rows < rows ? begin + l.block_rows : rows;
  int64_t h_width = a.groups * RANK;
  const T *h_group = h + place.group * RANK;

  int column[BWD_SLABS]; /* in the tile */
  bool inside[BWD_SLABS];
  uint32_t b[BWD_SLABS][2][RANK / 8][2];
  float db[BWD_SLABS][4][4];
#pragma unroll
  for (int s = 0; s < BWD_SLABS; s++) {
    column[s] = (warp * BWD_SLABS + s) * 32 + t * 8;
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

  uint4 next[BWD_SLABS][2]; /* dy of rows q and q + 8, one step ahead */
#pragma unroll
  for (int s = 0; s < BWD_SLABS; s++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = begin + q + 8 * half;
      next[s][half] = make_uint4(0, 0, 0, 0);
      if (inside[s] && row < end)
        next[s][half] = *(const uint4 *)(dy + row * a.columns + place.first_column + column[s]);
    }

  int side = 0;
  for (int64_t first = begin; first < end; first += HR_LORA_ROWS, side ^= 1) {
    uint32_t from[BWD_SLABS][2][4], ht[4];
#pragma unroll
    for (int s = 0; s < BWD_SLABS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        from[s][half][0] = next[s][half].x;
        from[s][half][1] = next[s][half].y;
        from[s][half][2] = next[s][half].z;
        from[s][half][3] = next[s][half].w;
        int64_t row = first + HR_LORA_ROWS + q + 8 * half;
        next[s][half] = make_uint4(0, 0, 0, 0);
        if (inside[s] && row < end)
          next[s][half] = *(const uint4 *)(dy + row * a.columns + place.first_column + column[s]);
      }
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
    for (int s = 0; s < BWD_SLABS; s++) {
#pragma unroll
      for (int p = 0; p < 2; p++) {
        uint32_t x[4] = {from[s][0][2 * p], from[s][1][2 * p], from[s][0][2 * p + 1], from[s][1][2 * p + 1]};
#pragma unroll
        for (int n = 0; n < RANK / 8; n++)
          multiply<T>(dh[n], x, b[s][p][n]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t x[2] = {transposed(from[s][0][i]), transposed(from[s][1][i])};
        multiply<T>(db[s][i], ht, x);
      }
    }

    /* dh of these rows over the warps of the block. The other side is read by none any more: all have passed the
     * barrier of the step before. */
#pragma unroll
    for (int n = 0; n < RANK / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        parts[side][warp][(q + c / 2 * 8) * RANK + n * 8 + 2 * t + c % 2] = dh[n][c];
    __syncthreads();
    if (threadIdx.x < HR_LORA_ROWS * RANK) {
      int64_t row = first + threadIdx.x / RANK;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < BWD_WARPS; w++)
        sum += parts[side][w][threadIdx.x];
      if (row < end) dh_sums[(tile * rows + row) * RANK + threadIdx.x % RANK] = sum;
    }
  }

#pragma unroll
  for (int s = 0; s < BWD_SLABS; s++) {
    if (!inside[s]) continue;
    float *to = db_sums + (row_block * l.weight_rows + place.first_weight + column[s]) * RANK + q;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int c = 0; c < (RANK == 16 ? 4 : 2); c++)
        to[(2 * i + c % 2) * RANK + c / 2 * 8] = db[s][i][c];
  }
}

/* Completes the sums: elements of dh first, then those of dB. */
template <typename T, typename P>
static __global__ void bwd_finish_kernel(const float *dh_sums, const float *db_sums, const P *partial, T *dh, P *db,
                                         int64_t rows, hr_lora_cuda l, const __grid_constant__ hr_lora_up_args a) {
  int64_t width = a.groups * a.rank, dh_count = rows * width, db_count = l.weight_rows * a.rank;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  if (i < dh_count) {
    int64_t row = i / width, k = i % width % a.rank, tile = 0, tiles = 0;
    int group = (int)(i % width / a.rank);
    for (int g = 0; g <= group; g++) {
      tile += tiles;
      tiles = (a.rows[g] + HR_LORA_TILE - 1) / HR_LORA_TILE;
    }
#pragma unroll 8
    for (int64_t n = 0; n < tiles; n++)
      sum += dh_sums[((tile + n) * rows + row) * a.rank + k];
    dh[i] = from_float<T>(a.scale * sum);
  } else if (i < dh_count + db_count) {
    int64_t at = i - dh_count;
#pragma unroll 16
    for (int64_t n = 0; n < l.row_blocks; n++)
      sum += db_sums[n * db_count + at];
    db[at] = from_float<P>(a.scale * sum + (partial ? to_float(partial[at]) : 0.0f));
  }
}

/* --- backward, any shape ----------------------------------------------------------------------------------------- */

enum { LOOP_THREADS = 256, DB_COLUMNS = 32, DB_LANES = LOOP_THREADS / DB_COLUMNS };

/* A warp for LOOP_RANK neighbours in one row and group of dh. pieces: of the rank. */
template <typename T>
static __global__ void dh_loop_kernel(const T *dy, const T *weight, T *dh, int64_t rows, int64_t pieces,
                                      const __grid_constant__ hr_lora_up_args a) {
  int64_t item = ((int64_t)blockIdx.x * LOOP_THREADS + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (item >= rows * a.groups * pieces) return; /* whole warps */
  int64_t k0 = item % pieces * LOOP_RANK, row = item / pieces / a.groups, before = 0;
  int group = (int)(item / pieces % a.groups);
  for (int g = 0; g < group; g++)
    before += a.rows[g];
  float sum[LOOP_RANK] = {};
  for (int64_t j = lane; j < a.rows[group]; j += 32) {
    float d = to_float(dy[row * a.columns + a.first[group] + j]);
    const T *from = weight + (before + j) * a.rank + k0;
#pragma unroll
    for (int i = 0; i < LOOP_RANK; i++)
      if (k0 + i < a.rank) sum[i] += d * to_float(from[i]);
  }
#pragma unroll
  for (int i = 0; i < LOOP_RANK; i++) {
    for (int distance = 16; distance > 0; distance /= 2)
      sum[i] += __shfl_down_sync(~0u, sum[i], distance);
    if (lane == 0 && k0 + i < a.rank) dh[(row * a.groups + group) * a.rank + k0 + i] = from_float<T>(a.scale * sum[i]);
  }
}

/* A block for DB_COLUMNS rows of dB and LOOP_RANK of the rank: DB_LANES rows of dy at a time. */
template <typename T, typename P>
static __global__ void db_loop_kernel(const T *dy, const T *h, const P *partial, P *db, int64_t rows,
                                      int64_t weight_rows, int64_t pieces, const __grid_constant__ hr_lora_up_args a) {
  __shared__ float sums[DB_LANES][DB_COLUMNS][LOOP_RANK + 1];
  int x = threadIdx.x % DB_COLUMNS, lane = threadIdx.x / DB_COLUMNS;
  int64_t k0 = (int64_t)blockIdx.x % pieces * LOOP_RANK, weight = (int64_t)blockIdx.x / pieces * DB_COLUMNS + x;
  float sum[LOOP_RANK] = {};
  if (weight < weight_rows) {
    int64_t before;
    int group = group_of_weight(a, weight, &before);
    int64_t column = a.first[group] + weight - before, width = a.groups * a.rank;
    for (int64_t row = lane; row < rows; row += DB_LANES) {
      float d = to_float(dy[row * a.columns + column]);
      const T *from = h + row * width + group * a.rank + k0;
#pragma unroll
      for (int i = 0; i < LOOP_RANK; i++)
        if (k0 + i < a.rank) sum[i] += d * to_float(from[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < LOOP_RANK; i++)
    sums[lane][x][i] = sum[i];
  __syncthreads();
  int64_t k = k0 + lane; /* as many lanes as neighbours */
  if (weight >= weight_rows || k >= a.rank) return;
  float total = 0.0f;
  for (int other = 0; other < DB_LANES; other++)
    total += sums[other][x][lane];
  int64_t at = weight * a.rank + k;
  db[at] = from_float<P>(a.scale * total + (partial ? to_float(partial[at]) : 0.0f));
}
static_assert((int)DB_LANES == (int)LOOP_RANK, "each lane completes one of the neighbours");

/* --- backward, launches ------------------------------------------------------------------------------------------ */

/* Operands: dy, h, B, partial?; results: dh, dB. */
template <typename T, typename P>
static hr_status bwd_loop_launch(const hr_call *call, const hr_lora_up_args &a, int64_t rows) {
  int64_t pieces = blocks_for(a.rank, LOOP_RANK), weight_rows = call->in[2].desc.dim[0];
  const T *dy = (const T *)call->in[0].data, *h = (const T *)call->in[1].data, *weight = (const T *)call->in[2].data;
  dh_loop_kernel<T>
      <<<(unsigned)blocks_for(rows * a.groups * pieces, LOOP_THREADS / 32), LOOP_THREADS, 0, call_stream(call)>>>(
          dy, weight, (T *)call->out[0].data, rows, pieces, a);
  db_loop_kernel<T, P>
      <<<(unsigned)(blocks_for(weight_rows, DB_COLUMNS) * pieces), LOOP_THREADS, 0, call_stream(call)>>>(
          dy, h, (const P *)call->in[3].data, (P *)call->out[1].data, rows, weight_rows, pieces, a);
  return launched();
}

template <typename T, typename P, int RANK>
static hr_status bwd_launch(const hr_call *call, const hr_lora_up_args &a, const hr_lora_cuda &l, int64_t rows) {
  float *dh_sums = (float *)call->workspace, *db_sums = (float *)((char *)call->workspace + l.db_sums);
  cudaStream_t stream = call_stream(call);
  bwd_kernel<T, RANK><<<(unsigned)(l.tiles * l.row_blocks), BWD_THREADS, 0, stream>>>(
      (const T *)call->in[0].data, (const T *)call->in[1].data, (const T *)call->in[2].data, dh_sums, db_sums, rows, l,
      a);
  int64_t count = (rows * a.groups + l.weight_rows) * RANK;
  bwd_finish_kernel<T, P><<<(unsigned)blocks_for(count, LOOP_THREADS), LOOP_THREADS, 0, stream>>>(
      dh_sums, db_sums, (const P *)call->in[3].data, (T *)call->out[0].data, (P *)call->out[1].data, rows, l, a);
  return launched();
}

template <typename T, typename P> static hr_status bwd_run_as(const hr_call *call) {
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)call->args)->up;
  int64_t rows = desc_rows(call->in[0].desc);
  if constexpr (sizeof(T) == 2) {
    hr_lora_cuda l = hr__lora_cuda_of(rows, call->in[0].desc.dtype, &a);
    if (l.tiled && aligned(call->in[0].data, 16))
      return a.rank == 8 ? bwd_launch<T, P, 8>(call, a, l, rows) : bwd_launch<T, P, 16>(call, a, l, rows);
  }
  return bwd_loop_launch<T, P>(call, a, rows);
}

static hr_status lora_up_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)call->args)->up;
  hr_lora_cuda l = hr__lora_cuda_of(desc_rows(call->in[0].desc), call->in[0].desc.dtype, &a);
  *prepared = nullptr;
  if (call->workspace_bytes >= l.bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL,
                                       "%zu bytes of workspace were planned, %zu are needed", call->workspace_bytes,
                                       l.bytes);
}

static hr_status lora_up_bwd_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->out[1].desc.dtype, [&](auto p) { return bwd_run_as<decltype(t), decltype(p)>(call); });
  });
}

#define UP_FUNCTIONS(T)                                                                                                \
  (const void *)up_kernel<T, 8, UP_WIDTH<T, 8>>, (const void *)up_kernel<T, 16, UP_WIDTH<T, 16>>,                      \
      (const void *)up_loop_kernel<T>
#define SLAB_FUNCTIONS(T) (const void *)up_slab_kernel<T, 8>, (const void *)up_slab_kernel<T, 16>
#define LOOP_FUNCTIONS(T)                                                                                              \
  (const void *)dh_loop_kernel<T>, (const void *)db_loop_kernel<T, float>, (const void *)db_loop_kernel<T, bf16>,      \
      (const void *)db_loop_kernel<T, f16>
#define TILE_FUNCTIONS(T)                                                                                              \
  (const void *)bwd_kernel<T, 8>, (const void *)bwd_kernel<T, 16>, (const void *)bwd_finish_kernel<T, float>,          \
      (const void *)bwd_finish_kernel<T, bf16>, (const void *)bwd_finish_kernel<T, f16>

extern "C" const hr_cuda_launcher hr_cuda_lora_up = {
    {nullptr, nullptr, lora_up_run},
    {UP_FUNCTIONS(float), UP_FUNCTIONS(bf16), UP_FUNCTIONS(f16), SLAB_FUNCTIONS(bf16), SLAB_FUNCTIONS(f16)}};
extern "C" const hr_cuda_launcher hr_cuda_lora_up_bwd = {
    {lora_up_bwd_prepare, nullptr, lora_up_bwd_run},
    {LOOP_FUNCTIONS(float), LOOP_FUNCTIONS(bf16), LOOP_FUNCTIONS(f16), TILE_FUNCTIONS(bf16), TILE_FUNCTIONS(f16)}};
