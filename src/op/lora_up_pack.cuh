/* lora_up of rank 8 or 16 by packs of columns: one pass over y. What belongs to a thread's columns of B stays in
 * registers while it walks down the rows. */
#ifndef HR_OP_LORA_UP_PACK_CUH
#define HR_OP_LORA_UP_PACK_CUH

#include "op/lora_up_place.cuh"

enum { PACK_THREADS = 128, PACK_ROWS = 32, PACK_AHEAD = 4 };

/* A block: PACK_THREADS packs of W columns, PACK_ROWS rows. Columns and groups are multiples of W, rows aligned for
 * packs.
 */
template <typename T, int RANK, int W>
static __global__ void __launch_bounds__(PACK_THREADS)
    up_pack_kernel(const T *h, const T *weight, const T *add, T *y, int64_t rows, int64_t column_blocks,
                   const __grid_constant__ hr_lora_up_args a) {
  __shared__ __align__(16) float scaled[PACK_ROWS * HR_LORA_GROUPS * RANK]; /* scale h of these rows */
  int64_t first_row = (int64_t)blockIdx.x / column_blocks * PACK_ROWS;
  int64_t column = ((int64_t)blockIdx.x % column_blocks * PACK_THREADS + threadIdx.x) * W;
  int n = (int)(rows - first_row < PACK_ROWS ? rows - first_row : PACK_ROWS), width = a.groups * RANK;
  for (int i = threadIdx.x; i < n * width; i += PACK_THREADS)
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
  for (int first = 0; first < n; first += PACK_AHEAD) {
    pack<T, W> from[PACK_AHEAD];
#pragma unroll
    for (int u = 0; u < PACK_AHEAD; u++) {
      from[u] = {};
      if (add && first + u < n) from[u] = *(const pack<T, W> *)(add + (first_row + first + u) * a.columns + column);
    }
#pragma unroll
    for (int u = 0; u < PACK_AHEAD; u++) {
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

/* Columns of a thread: 16 bytes of y, but no more than 64 numbers of B in registers. */
template <typename T, int RANK>
constexpr int PACK_WIDTH = 16 / (int)sizeof(T) * RANK > 64 ? 64 / RANK : 16 / (int)sizeof(T);

/* Whether columns of y can be taken in packs of W. */
template <typename T, int W> static bool packs_fit(const hr_call *call, const hr_lora_up_args &a) {
  bool fit = a.columns % W == 0 && aligned(call->in[1].data, sizeof(T) * 4) &&
             aligned(call->in[2].data, sizeof(T) * W) && aligned(call->out[0].data, sizeof(T) * W);
  for (int g = 0; g < a.groups; g++)
    fit = fit && a.first[g] % W == 0 && a.rows[g] % W == 0;
  return fit;
}

template <typename T, int RANK, int W> static hr_status up_pack_launch(const hr_call *call, const hr_lora_up_args &a) {
  int64_t rows = desc_rows(call->out[0].desc), column_blocks = divide_up(a.columns, PACK_THREADS * W);
  int64_t blocks = column_blocks * divide_up(rows, PACK_ROWS);
  launch(up_pack_kernel<T, RANK, W>, (unsigned)blocks, PACK_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
         (const T *)call->in[1].data, (const T *)call->in[2].data, (T *)call->out[0].data, rows, column_blocks, a);
  return launched();
}

#define PACK_FUNCTIONS(T)                                                                                              \
  (const void *)up_pack_kernel<T, 8, PACK_WIDTH<T, 8>>, (const void *)up_pack_kernel<T, 16, PACK_WIDTH<T, 16>>

#endif
