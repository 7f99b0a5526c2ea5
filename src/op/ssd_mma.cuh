/* The scan of 16-bit types with matrix instructions: how operands come to shared memory, and products from there.
 *
 * A block has SCAN_WARPS warps and takes SIDE positions at a time, 16 for each warp: a strip. Heads have up to WIDTH
 * channels and states up to N numbers for each, a parameter of the kernels; what is missing to that is zero. Rows in
 * shared memory are longer by 16 bytes, so that rows of a matrix lie in different banks. Registers of a lane are those
 * of attention_mma.cuh: with q = lane / 4 and t = lane % 4, sums [16, 8] are (q, 2t), (q, 2t + 1) and the same of row
 * q + 8; a left factor [16, 16] is made of two of these.
 *
 * Exponents are to base 2: sums of d A are multiplied by LOG2_E where they are read.
 */
#ifndef HR_OP_SSD_MMA_CUH
#define HR_OP_SSD_MMA_CUH

#include "dev/cuda/pair.cuh"
#include "op/ssd_operands.cuh"

enum { SIDE = HR_SSD_SIDE, STRIP = 16, SCAN_WARPS = SIDE / STRIP, SCAN_THREADS = 32 * SCAN_WARPS, WIDTH = 64 };
enum { MOST_TILES = HR_SSD_CHUNK_MOST / SIDE };
static const float LOG2_E = 1.44269504f;

template <int COLUMNS> constexpr int pitch = COLUMNS + 8;

/* Where a chunk begins, and the positions that it has. */
struct chunk_place {
  int64_t first;
  int count, tiles;
};
__device__ inline chunk_place chunk_at(const hr_ssd_sizes &size, int64_t chunk) {
  chunk_place p;
  p.first = chunk * size.chunk;
  p.count = (int)min(size.chunk, size.length - p.first);
  p.tiles = (p.count + SIDE - 1) / SIDE;
  return p;
}

/* Begins to copy `rows` rows of `columns` elements; what is behind them up to [ROWS, COLUMNS] becomes zero. Few of its
 * steps are side by side: their addresses would push sums out of registers. */
template <int ROWS, int COLUMNS, typename T>
__device__ inline void rows_start(T *to, const T *from, int64_t stride, int rows, int columns) {
  constexpr int PACKS = COLUMNS / 8, STEP = SCAN_THREADS / PACKS;
  static_assert(SCAN_THREADS % PACKS == 0 && ROWS % STEP == 0, "every thread copies as many pieces");
  int row = (int)threadIdx.x / PACKS, column = (int)threadIdx.x % PACKS * 8;
  if (columns % 8 == 0 && stride % 8 == 0 && (uintptr_t)from % 16 == 0) {
    const T *at = from + row * stride + column;
    T *put = to + row * pitch<COLUMNS> + column;
    if (column >= columns) rows = 0;
#pragma unroll 2
    for (; row < ROWS; row += STEP) {
      copy_start<16>(put, row < rows ? at : from, row < rows);
      at += STEP * stride;
      put += STEP * pitch<COLUMNS>;
    }
  } else
    for (int i = (int)threadIdx.x; i < ROWS * COLUMNS; i += SCAN_THREADS) {
      row = i / COLUMNS;
      column = i % COLUMNS;
      bool there = row < rows && column < columns;
      to[row * pitch<COLUMNS> + column] = there ? from[row * stride + column] : from_float<T>(0.0f);
    }
}

/* Where a lane's row of four 8 x 8 matrices begins: in a left factor that lies in rows, or a right one that lies in
 * columns (SWAPPED false), or the other way round. */
template <bool SWAPPED> __device__ inline int lane_offset(int ld) {
  int lane = (int)threadIdx.x % 32, row = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  return SWAPPED ? (high + row) * ld + low : (low + row) * ld + high;
}

/* sum [16, WIDE] += left [16, 16] times a right factor [16, WIDE] from `at` on; with TURN [WIDE, 16] there. */
template <int WIDE, bool TURN, typename T>
__device__ inline void strip_multiply(float (&sum)[WIDE / 8][4], const uint32_t (&left)[4], const T *at, int ld) {
#pragma unroll
  for (int j = 0; j < WIDE; j += 16) {
    uint32_t right[4]; /* the first two registers are its left half */
    if constexpr (TURN)
      matrices_load(right, at + j * ld);
    else
      matrices_load_transposed(right, at + j);
    multiply<T>(sum[j / 8], left, right[0], right[1]);
    multiply<T>(sum[j / 8 + 1], left, right[2], right[3]);
  }
}

/* sum [16, WIDE] += rows (with TURN_LEFT columns) of `left` [16, DEEP] times rows (with TURN_RIGHT columns) of `right`.
 */
template <int WIDE, int DEEP, bool TURN_LEFT, bool TURN_RIGHT, typename T>
__device__ inline void strip_product(float (&sum)[WIDE / 8][4], const T *left, int left_ld, const T *right,
                                     int right_ld) {
  left += lane_offset<TURN_LEFT>(left_ld);
  right += lane_offset<TURN_RIGHT>(right_ld);
#pragma unroll
  for (int k = 0; k < DEEP; k += 16) {
    uint32_t a[4];
    if constexpr (TURN_LEFT)
      matrices_load_transposed(a, left + k * left_ld);
    else
      matrices_load(a, left + k);
    strip_multiply<WIDE, TURN_RIGHT>(sum, a, TURN_RIGHT ? right + k : right + k * right_ld, right_ld);
  }
}

template <typename T> __device__ inline float2 numbers_at(const T *at) {
  return numbers_of(T(), *(const uint32_t *)at);
}

/* A warp's sums as 16 rows of `columns` elements, of which `rows` are there, by way of its own room in shared memory:
 * so that they leave 16 bytes at a time. */
template <int WIDE, typename T>
__device__ inline void strip_store(const float (&sum)[WIDE / 8][4], T *room, T *to, int64_t stride, int rows,
                                   int columns) {
  int lane = (int)threadIdx.x % 32, q = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int c = 0; c < WIDE / 8; c++) {
    *(uint32_t *)(room + q * pitch<WIDE> + 8 * c + 2 * t) = pair_of(T(), sum[c][0], sum[c][1]);
    *(uint32_t *)(room + (q + 8) * pitch<WIDE> + 8 * c + 2 * t) = pair_of(T(), sum[c][2], sum[c][3]);
  }
  __syncwarp();
  if (columns % 8 == 0 && stride % 8 == 0 && (uintptr_t)to % 16 == 0) {
#pragma unroll
    for (int k = 0; k < STRIP * WIDE / 8 / 32; k++) {
      int i = k * 32 + lane, row = i / (WIDE / 8), column = i % (WIDE / 8) * 8;
      if (row < rows && column < columns)
        *(uint4 *)(to + row * stride + column) = *(const uint4 *)(room + row * pitch<WIDE> + column);
    }
  } else
    for (int i = lane; i < STRIP * WIDE; i += 32)
      if (i / WIDE < rows && i % WIDE < columns)
        to[i / WIDE * stride + i % WIDE] = room[i / WIDE * pitch<WIDE> + i % WIDE];
}

#endif
