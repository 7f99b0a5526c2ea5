/* lora_down and its backward on tensor cores: x, or dx, passes once, masked in registers on its way. Lane 4 q + t of a
 * warp has columns [8 t, 8 t + 8) of a slab of 32 columns in rows q and q + 8 of a step of 16: 16 bytes of each, which
 * one block of random words serves. Masks are drawn only; what they scale by is put on f32 sums. */
#ifndef HR_OP_LORA_DOWN_MASK_CUH
#define HR_OP_LORA_DOWN_MASK_CUH

extern "C" {
#include "op/lora_down.h"
#include "op/lora_down_cuda.h"
}

enum { DOWN_WARPS = 8, DOWN_SLABS = 4, DOWN_AHEAD = 3, GRADIENT_WARPS = 6, DX_STEPS = 4, FINISH_LANES = 8 };

/* How many warps of lora_down share the columns of 16 rows: each has DOWN_SLABS slabs or more, 6 as a rule, of which it
 * reads DOWN_AHEAD at a time. It depends on the columns alone, so that a row has the same sums among few rows and among
 * many. */
static inline int sharing_warps(int64_t in) {
  int warps = 1;
  while (warps < DOWN_WARPS && in / HR_DOWN_SLAB >= 2 * warps * DOWN_SLABS)
    warps *= 2;
  return warps;
}

struct down_call {
  int64_t rows, in, width;
  int64_t sample_rows; /* rows of x that a sample has */
  int64_t first;       /* sample of row 0 */
  uint64_t stream_key, use;
  uint32_t limit;
  float scale;
  int sharing; /* warps of lora_down that have the same rows */
};

/* 8 neighbouring elements. PACKED, here and in kernels: operands and rows lie aligned for 16 bytes. */
template <bool PACKED, typename T> __device__ inline uint4 eight_read(const T *from) {
  if constexpr (PACKED) {
    return *(const uint4 *)from;
  } else {
    uint16_t one[8];
#pragma unroll
    for (int e = 0; e < 8; e++)
      one[e] = ((const uint16_t *)from)[e];
    return make_uint4(one[0] | (uint32_t)one[1] << 16, one[2] | (uint32_t)one[3] << 16, one[4] | (uint32_t)one[5] << 16,
                      one[6] | (uint32_t)one[7] << 16);
  }
}

/* Two numbers of a column, the first from row `row` of a matrix [rows, columns]. Rows that are not there are 0. */
template <typename T>
__device__ inline uint32_t column_pair(const T *matrix, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  const uint16_t *at = (const uint16_t *)matrix + row * columns + column;
  uint32_t low = row < rows ? at[0] : 0, high = row + 1 < rows ? at[columns] : 0;
  return low | high << 16;
}

/* The mask of a row of x. */
struct row_mask {
  uint64_t sample;
  int64_t element; /* of the row's first one in its sample */
};
__device__ inline row_mask mask_of(const down_call &c, const hr_control *control, int64_t row) {
  uint32_t sample = (uint32_t)row / (uint32_t)c.sample_rows; /* rows fit (HR_DOWN_MOST); 64 bits take far longer */
  return {control->sample + (uint64_t)c.first + sample, (row - (int64_t)sample * c.sample_rows) * c.in};
}
/* 16 rows further on; `each`: elements of a sample. */
__device__ inline void mask_advance(const down_call &c, int64_t each, row_mask &row) {
  for (row.element += 16 * c.in; row.element >= each; row.element -= each)
    row.sample++;
}

/* All bits of the elements that are kept, for columns [column, column + 8) of a row. */
__device__ inline uint4 kept(uint64_t key, const row_mask &row, int64_t column, uint32_t limit_twice) {
  uint32_t word[4];
  hr__mask_draw(key, row.sample, (uint64_t)(row.element + column) / HR_MASK_LANES, word);
  return make_uint4(__vcmpgeu2(word[0], limit_twice), __vcmpgeu2(word[1], limit_twice),
                    __vcmpgeu2(word[2], limit_twice), __vcmpgeu2(word[3], limit_twice));
}
__device__ inline uint4 both(const uint4 &x, const uint4 &y) {
  return make_uint4(x.x & y.x, x.y & y.y, x.z & y.z, x.w & y.w);
}

/* h [rows, 8 N]: c.sharing warps have 16 rows, each a part of the columns of x, which it goes along DOWN_AHEAD slabs at
 * a time. Sums do not mind in which order columns are numbered: of the two products of a slab, number 2 t + e of
 * product p is column 8 t + 4 p + e, number 2 t + 8 + e is column 8 t + 4 p + 2 + e. */
template <typename T, int N, bool PACKED>
static __global__ void __launch_bounds__(DOWN_WARPS * 32, N <= 3 ? 3 : 2)
    down_kernel(const T *x, const T *weight, const hr_control *control, T *h, const __grid_constant__ down_call c) {
  __shared__ float parts[DOWN_WARPS][16][N * 8];
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4, part = warp % c.sharing;
  int64_t first_row = ((int64_t)blockIdx.x * (DOWN_WARPS / c.sharing) + warp / c.sharing) * 16;
  int64_t row[2] = {first_row + q, first_row + q + 8};
  int64_t each = (c.in / HR_DOWN_SLAB + c.sharing - 1) / c.sharing * HR_DOWN_SLAB, begin = part * each;
  int64_t end = begin + each < c.in ? begin + each : c.in;
  uint64_t key = hr__dropout_key(control->seed, c.stream_key, control->step, c.use);
  uint32_t limit_twice = c.limit << 16 | c.limit;
  row_mask mask[2] = {mask_of(c, control, row[0]), mask_of(c, control, row[1])};
  float sum[N][4] = {};
  for (int64_t first = begin; first < end && first_row < c.rows; first += DOWN_AHEAD * HR_DOWN_SLAB) {
    uint4 from[DOWN_AHEAD][2];
#pragma unroll
    for (int s = 0; s < DOWN_AHEAD; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int64_t column = first + s * HR_DOWN_SLAB + 8 * t;
        from[s][half] = make_uint4(0, 0, 0, 0);
        if (column < end && row[half] < c.rows) from[s][half] = eight_read<PACKED>(x + row[half] * c.in + column);
      }
#pragma unroll
    for (int s = 0; s < DOWN_AHEAD; s++) {
      int64_t column = first + s * HR_DOWN_SLAB + 8 * t;
      uint64_t slab_key =
          (uint64_t)opaque((uint32_t)(key >> 32)) << 32 | opaque((uint32_t)key); /* not in 12 registers */
      uint4 low = both(from[s][0], kept(slab_key, mask[0], column, limit_twice));
      uint4 high = both(from[s][1], kept(slab_key, mask[1], column, limit_twice));
      uint32_t even[4] = {low.x, high.x, low.y, high.y}, odd[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
      for (int n = 0; n < N; n++) {
        uint4 w = make_uint4(0, 0, 0, 0);
        if (column < end) w = eight_read<PACKED>(weight + (n * 8 + q) * c.in + column);
        multiply<T>(sum[n], even, w.x, w.y);
        multiply<T>(sum[n], odd, w.z, w.w);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      parts[warp][q + e / 2 * 8][n * 8 + 2 * t + e % 2] = sum[n][e];
  __syncthreads();
  /* All sums of the block's rows, those of a row over its parts in order. */
  int groups = DOWN_WARPS / c.sharing;
  for (int i = threadIdx.x; i < groups * 16 * N * 8; i += DOWN_WARPS * 32) {
    int group = i / (16 * N * 8), r = i / (N * 8) % 16, n = i % (N * 8);
    int64_t to = ((int64_t)blockIdx.x * groups + group) * 16 + r;
    float total = 0.0f;
    for (int p = 0; p < c.sharing; p++)
      total += parts[group * c.sharing + p][r][n];
    if (to < c.rows) h[to * c.width + n] = from_float<T>(c.scale * total);
  }
}

/* dx: a warp has a slab of columns and goes down DX_STEPS steps of rows; what belongs to its columns of A stays in
 * registers. Result (q, 2 t + e) of product i is column 8 t + 2 i + e, so that column q of its second operand, which
 * this lane has a part of, is column 8 (q / 2) + 2 i + q % 2 of A. N: steps of 16 columns of dh. */
template <typename T, int N, bool PACKED>
static __global__ void __launch_bounds__(GRADIENT_WARPS * 32)
    down_dx_kernel(const T *dh, const T *weight, const hr_control *control, const T *add, T *dx, int64_t column_blocks,
                   const __grid_constant__ down_call c) {
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t slab = ((int64_t)blockIdx.x % column_blocks * GRADIENT_WARPS + warp) * HR_DOWN_SLAB;
  int64_t begin = (int64_t)blockIdx.x / column_blocks * DX_STEPS * 16, column = slab + 8 * t;
  if (slab >= c.in) return;
  uint64_t key = hr__dropout_key(control->seed, c.stream_key, control->step, c.use);
  uint32_t b[4][N][2];
  row_mask mask[2] = {mask_of(c, control, begin + q), mask_of(c, control, begin + q + 8)};
  int64_t each = c.sample_rows * c.in;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        b[i][n][half] =
            column_pair(weight, c.width, c.in, 16 * n + 8 * half + 2 * t, slab + 8 * (q / 2) + 2 * i + q % 2);
  for (int step = 0; step < DX_STEPS; step++) {
    int64_t row[2] = {begin + step * 16 + q, begin + step * 16 + q + 8};
    float sum[4][4] = {};
    uint4 more[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      more[half] = make_uint4(0, 0, 0, 0);
      if (add && row[half] < c.rows) more[half] = eight_read<PACKED>(add + row[half] * c.in + column);
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
      uint32_t from[4];
#pragma unroll
      for (int part = 0; part < 4; part++) {
        int64_t at = 16 * n + part / 2 * 8 + 2 * t;
        from[part] = 0;
        if (row[part % 2] < c.rows && at < c.width) from[part] = *(const uint32_t *)(dh + row[part % 2] * c.width + at);
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
        multiply<T>(sum[i], from, b[i][n][0], b[i][n][1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t word[4];
      hr__mask_draw(key, mask[half].sample, (uint64_t)(mask[half].element + column) / HR_MASK_LANES, word);
      mask_advance(c, each, mask[half]);
      if (row[half] >= c.rows) continue;
      pack<T, 8> sums;
      memcpy(&sums, &more[half], sizeof sums);
      float to[8];
#pragma unroll
      for (int e = 0; e < 8; e++) {
        to[e] = to_float(sums.value[e]);
        if (hr__mask_keeps(word, e, c.limit)) to[e] = fmaf(c.scale, sum[e / 2][2 * half + e % 2], to[e]);
      }
      T *out = dx + row[half] * c.in + column;
      if constexpr (PACKED) {
        pack_write<8>(out, to);
      } else {
#pragma unroll
        for (int e = 0; e < 8; e++)
          out[e] = from_float<T>(to[e]);
      }
    }
  }
}

/* What dht of 16 rows from `first` on is made of, as first operands of products: 16 of its rows at a time. Two
 * neighbours of a row of dh; not PACKED: of a column, as products take them. */
template <typename T, int M, bool PACKED>
__device__ inline void heads_read(const T *dh, int64_t end, int64_t width, int64_t first, int q, int t,
                                  uint32_t (&to)[M][4]) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int part = 0; part < 4; part++) {
      int64_t row = first + part / 2 * 8, column = 16 * m + part % 2 * 8;
      to[m][part] = 0;
      if (column >= width) continue;
      if constexpr (!PACKED)
        to[m][part] = column_pair(dh, end, width, row + 2 * t, column + q);
      else if (row + q < end)
        to[m][part] = *(const uint32_t *)(dh + (row + q) * width + column + 2 * t);
    }
}

/* dA: a warp has SLABS slabs of columns and goes down the rows of its block. dAt of 8 columns 8 t + 2 i + e at a time,
 * from transposed registers; the results of lane 4 q + t are those of its own columns, for rows q and q + 8 of every 16
 * of dA. M: steps of 16 columns of dh. */
template <typename T, int M, int SLABS, bool PACKED>
static __global__ void __launch_bounds__(GRADIENT_WARPS * 32, M == 1   ? 3
                                                              : M == 2 ? 2
                                                                       : 1) /* op/lora_down_cuda.h counts on it */
    down_dw_kernel(const T *dh, const T *x, const hr_control *control, float *sums, int64_t column_blocks,
                   int64_t block_rows, const __grid_constant__ down_call c) {
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t row_block = (int64_t)blockIdx.x / column_blocks, begin = row_block * block_rows;
  int64_t end = begin + block_rows < c.rows ? begin + block_rows : c.rows;
  int64_t slab = ((int64_t)blockIdx.x % column_blocks * GRADIENT_WARPS + warp) * SLABS * HR_DOWN_SLAB;
  if (slab >= c.in) return;
  uint64_t key = hr__dropout_key(control->seed, c.stream_key, control->step, c.use);
  uint32_t limit_twice = c.limit << 16 | c.limit;
  float sum[SLABS][M][4][4] = {};
  uint4 next[SLABS][2];
#pragma unroll
  for (int s = 0; s < SLABS; s++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t row = begin + q + 8 * half, column = slab + s * HR_DOWN_SLAB + 8 * t;
      next[s][half] = make_uint4(0, 0, 0, 0);
      if (row < end && column < c.in) next[s][half] = eight_read<PACKED>(x + row * c.in + column);
    }
  uint32_t ht_next[M][4];
  heads_read<T, M, PACKED>(dh, end, c.width, begin, q, t, ht_next);
  row_mask mask[2] = {mask_of(c, control, begin + q), mask_of(c, control, begin + q + 8)};
  int64_t each = c.sample_rows * c.in;
  for (int64_t first = begin; first < end; first += 16) {
    uint4 from[SLABS][2];
#pragma unroll
    for (int s = 0; s < SLABS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int64_t row = first + 16 + q + 8 * half, column = slab + s * HR_DOWN_SLAB + 8 * t;
        from[s][half] = next[s][half];
        next[s][half] = make_uint4(0, 0, 0, 0);
        if (row < end && column < c.in) next[s][half] = eight_read<PACKED>(x + row * c.in + column);
      }
    uint32_t ht[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int part = 0; part < 4; part++)
        ht[m][part] = PACKED ? transposed(ht_next[m][part]) : ht_next[m][part];
    heads_read<T, M, PACKED>(dh, end, c.width, first + 16, q, t, ht_next);
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
      uint4 masked[2];
#pragma unroll
      for (int half = 0; half < 2; half++)
        masked[half] = both(from[s][half], kept(key, mask[half], slab + s * HR_DOWN_SLAB + 8 * t, limit_twice));
      uint32_t low[4] = {masked[0].x, masked[0].y, masked[0].z, masked[0].w};
      uint32_t high[4] = {masked[1].x, masked[1].y, masked[1].z, masked[1].w};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t b0 = transposed(low[i]), b1 = transposed(high[i]);
#pragma unroll
        for (int m = 0; m < M; m++)
          multiply<T>(sum[s][m][i], ht[m], b0, b1);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
      mask_advance(c, each, mask[half]);
  }
#pragma unroll
  for (int s = 0; s < SLABS; s++)
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int64_t row = 16 * m + e / 2 * 8 + q, column = slab + s * HR_DOWN_SLAB + 8 * t + 2 * i + e % 2;
          if (row < c.width && column < c.in) sums[(row_block * c.width + row) * c.in + column] = sum[s][m][i][e];
        }
}

/* Completes dA: 32 elements to a block, over the sums of all blocks of rows in a fixed order. */
template <typename P>
static __global__ void __launch_bounds__(32 * FINISH_LANES)
    down_dw_finish_kernel(const float *sums, const P *partial, P *da, int64_t count, int64_t row_blocks, float scale) {
  __shared__ float parts[FINISH_LANES][32];
  int64_t at = (int64_t)blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (at < count)
#pragma unroll 8
    for (int64_t n = threadIdx.y; n < row_blocks; n += FINISH_LANES)
      sum += sums[n * count + at];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || at >= count) return;
  sum = 0.0f;
#pragma unroll
  for (int lane = 0; lane < FINISH_LANES; lane++)
    sum += parts[lane][threadIdx.x];
  da[at] = from_float<P>(scale * sum + (partial ? to_float(partial[at]) : 0.0f));
}

#endif
