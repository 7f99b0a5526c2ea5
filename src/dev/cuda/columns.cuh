/* Sums of columns over rows that lie a fixed distance apart, for several groups of rows at once, in an order that
 * follows from the shape: lanes take every so many-th row, then a fixed tree over the lanes.
 */
#ifndef HR_DEV_CUDA_COLUMNS_CUH
#define HR_DEV_CUDA_COLUMNS_CUH

#include "dev/cuda/launch.cuh"

enum { COLUMNS_THREADS = 256, COLUMNS_LANES = 64 };
static const int64_t COLUMNS_GROUPS = 65535; /* blockIdx.y goes no further */

/* Row i of group g begins at element g * group + i * row. */
struct columns_shape {
  int64_t rows;    /* of a group */
  int64_t columns; /* of a row */
  int64_t groups;  /* rows of the result, `columns` wide, one behind the other */
  int64_t used;    /* groups that have rows: the others are 0, or what the partial sum has */
  int64_t row, group;
};

/* W > 1: columns are a multiple of it and all rows aligned for packs. Blocks are [packs of W columns, lanes], lanes a
 * power of two up to COLUMNS_LANES. */
template <typename T, typename P, int W>
__global__ void __launch_bounds__(COLUMNS_THREADS)
    columns_kernel(const T *from, const P *partial, P *to, columns_shape s) {
  __shared__ float sums[COLUMNS_THREADS * W + COLUMNS_LANES]; /* a lane's row has one more, against bank conflicts */
  int64_t column = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
  unsigned width = blockDim.x * W + 1;
  for (int64_t group = blockIdx.y; group < s.groups; group += gridDim.y) {
    float sum[W] = {};
    if (column < s.columns && group < s.used)
      for (int64_t i = threadIdx.y; i < s.rows; i += blockDim.y) {
        float x[W];
        pack_read<W>(from + group * s.group + i * s.row + column, x);
#pragma unroll
        for (int e = 0; e < W; e++)
          sum[e] += x[e];
      }
#pragma unroll
    for (int e = 0; e < W; e++)
      sums[threadIdx.y * width + threadIdx.x * W + e] = sum[e];
    for (unsigned lanes = blockDim.y / 2; lanes > 0; lanes /= 2) {
      __syncthreads();
      if (threadIdx.y < lanes)
#pragma unroll
        for (int e = 0; e < W; e++)
          sums[threadIdx.y * width + threadIdx.x * W + e] += sums[(threadIdx.y + lanes) * width + threadIdx.x * W + e];
    }
    if (threadIdx.y == 0 && column < s.columns)
#pragma unroll
      for (int e = 0; e < W; e++) {
        int64_t at = group * s.columns + column + e;
        to[at] = from_float<P>((partial ? to_float(partial[at]) : 0.0f) + sums[threadIdx.x * W + e]);
      }
    __syncthreads(); /* the next group writes sums again */
  }
}

template <typename T> constexpr int COLUMNS_WIDE = 16 / (int)sizeof(T);

template <typename T, typename P, int W>
static hr_status columns_launch(const hr_call *call, const T *from, const P *partial, P *to, const columns_shape &s) {
  unsigned lanes = 1;
  while (lanes < COLUMNS_LANES && lanes < s.rows)
    lanes *= 2;
  unsigned packs = COLUMNS_THREADS / lanes;
  dim3 grid((unsigned)divide_up(s.columns, (int64_t)packs * W),
            (unsigned)(s.groups < COLUMNS_GROUPS ? s.groups : COLUMNS_GROUPS));
  launch(columns_kernel<T, P, W>, grid, dim3(packs, lanes), 0, call_stream(call), from, partial, to, s);
  return launched();
}

/* to = (partial +) sums; a partial sum may lie where the result goes. */
template <typename T, typename P>
static hr_status columns_run(const hr_call *call, const T *from, const P *partial, P *to, const columns_shape &s) {
  constexpr int W = COLUMNS_WIDE<T>;
  bool packed = s.columns % W == 0 && s.row % W == 0 && s.group % W == 0 && aligned(from, 16);
  return packed ? columns_launch<T, P, W>(call, from, partial, to, s)
                : columns_launch<T, P, 1>(call, from, partial, to, s);
}

#define COLUMNS_PAIR(T, P) (const void *)columns_kernel<T, P, COLUMNS_WIDE<T>>, (const void *)columns_kernel<T, P, 1>
#define COLUMNS_FUNCTIONS                                                                                              \
  COLUMNS_PAIR(float, float), COLUMNS_PAIR(float, bf16), COLUMNS_PAIR(float, f16), COLUMNS_PAIR(bf16, float),          \
      COLUMNS_PAIR(bf16, bf16), COLUMNS_PAIR(bf16, f16), COLUMNS_PAIR(f16, float), COLUMNS_PAIR(f16, bf16),            \
      COLUMNS_PAIR(f16, f16)

#endif
