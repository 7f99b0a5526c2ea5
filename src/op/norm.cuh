/* Rows of layernorm and rmsnorm on CUDA: how a block holds one, sums over it, and gradients of weights summed over all.
 *
 * Rows of up to ROW_MOST elements, a multiple of WIDE, are held in registers, WIDE elements to a thread, and memory is
 * passed over once. Others are walked over by ANY_THREADS and read again for each look at a row. Sums over a row are
 * made by threads, warps and block in this order, whatever the device.
 */
#ifndef HR_OP_NORM_CUH
#define HR_OP_NORM_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/norm.h"
}

enum { WARP = 32, ROW_THREADS = 1024, ROW_MOST = ROW_THREADS * WIDE, ANY_THREADS = 256 };

/* As many threads as a row has packs, in whole warps. */
static bool row_fits(int64_t columns) {
  return columns % WIDE == 0 && columns <= ROW_MOST;
}
static unsigned row_threads(int64_t columns) {
  return (unsigned)(divide_up(columns / WIDE, WARP) * WARP);
}

/* One number of each thread, or two. */
__device__ inline void sum_add(float &sum, float value) {
  sum += value;
}
__device__ inline void sum_add(float2 &sum, float2 value) {
  sum.x += value.x;
  sum.y += value.y;
}
__device__ inline float lane_across(float value, int distance) {
  return __shfl_xor_sync(~0u, value, distance);
}
__device__ inline float2 lane_across(float2 value, int distance) {
  return {lane_across(value.x, distance), lane_across(value.y, distance)};
}

/* The sum over the warp of each thread's value, in every thread. */
template <typename V> __device__ inline V warp_sum(V value) {
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    sum_add(value, lane_across(value, distance));
  return value;
}

/* The sum over the block of each thread's value, in every thread. warps is of this sum alone until the next barrier. */
template <typename V> __device__ inline V row_sum(V value, V *warps) {
  value = warp_sum(value);
  if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = value;
  __syncthreads();
  V sum = {};
  for (unsigned i = 0; i < blockDim.x / WARP; i++)
    sum_add(sum, warps[i]);
  return sum;
}

/* Of rmsnorm: x -> w * round(x * rstd), rounded to the type of x as the public models do; raised: (1 + w) * (x * rstd).
 */
template <typename T> __device__ inline float normal(float x, float rstd, float w, bool raised) {
  return raised ? (1.0f + w) * (x * rstd) : w * to_float(from_float<T>(x * rstd));
}

/* A call of a backward op. A block goes over rows_each rows and leaves
 * its sums in the workspace, f32 [blocks, weights, columns]; a second kernel adds these up. dx may lie on dy or on the
 * partial sum: a thread writes only what it has read, and after the whole row was read once. */
template <typename T, typename W> struct norm_bwd {
  const T *dy, *x, *partial; /* partial: NULL where there is none */
  const W *w;
  const float *statistics;
  T *dx;       /* NULL: not wanted */
  float *sums; /* NULL: none is wanted */
  int64_t rows, columns, rows_each;
  bool raised;
};

template <typename T, typename W> static norm_bwd<T, W> norm_bwd_of(const hr_call *call) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  norm_bwd<T, W> c = {};
  c.dy = (const T *)call->in[HR_NORM_DY].data;
  c.x = (const T *)call->in[HR_NORM_X].data;
  c.w = (const W *)call->in[HR_NORM_W].data;
  c.statistics = (const float *)call->in[HR_NORM_STATISTICS].data;
  c.columns = desc_columns(call->in[HR_NORM_W].desc);
  c.rows = desc_count(call->in[HR_NORM_X].desc) / c.columns;
  c.rows_each = 1;
  c.raised = args->raised;
  if (args->want_dx) {
    c.dx = (T *)call->out[0].data;
    c.partial = (const T *)call->in[HR_NORM_DX_PARTIAL].data;
  }
  if (args->want_dw || args->want_db) {
    c.sums = (float *)call->workspace;
    c.rows_each = hr__norm_sum_rows(c.rows, c.columns);
  }
  return c;
}

/* Whether a backward call can take packs. */
template <typename T, typename W> static bool norm_bwd_packs(const norm_bwd<T, W> &c) {
  return wide(c.dy, c.x, c.partial, c.w, c.dx, c.sums);
}

/* Gradients of N weights, blockIdx.y says which: (partial +) the sum over blocks. 32 columns to a block, 32 lanes that
 * take every 32nd row, then a fixed tree. */
template <typename W, int N> struct norm_sums {
  const float *sums; /* [blocks, N, columns] */
  int64_t blocks, columns;
  const W *partial[N]; /* NULL where there is none */
  W *to[N];            /* NULL: not wanted */
};
template <typename W, int N> static __global__ void __launch_bounds__(WARP *WARP) norm_sums_kernel(norm_sums<W, N> c) {
  __shared__ float sums[WARP][WARP + 1];
  int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x;
  unsigned weight = N > 1 ? blockIdx.y : 0;
  W *to = weight ? c.to[N - 1] : c.to[0];
  const W *partial = weight ? c.partial[N - 1] : c.partial[0];
  if (N > 1 && !to) return; /* the whole block */
  float sum = 0.0f;
  if (column < c.columns)
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < c.blocks; block += WARP)
      sum += c.sums[(N * block + weight) * c.columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  for (unsigned lanes = WARP / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.y < lanes) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + lanes][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < c.columns)
    to[column] = from_float<W>((partial ? to_float(partial[column]) : 0.0f) + sums[0][threadIdx.x]);
}

/* Behind the kernel that has left the sums. */
template <int N, typename T, typename W> static void norm_sums_launch(const hr_call *call, const norm_bwd<T, W> &c) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  const bool wanted[] = {args->want_dw, args->want_db};
  norm_sums<W, N> s = {};
  s.sums = c.sums;
  s.blocks = divide_up(c.rows, c.rows_each);
  s.columns = c.columns;
  for (int i = 0; i < N; i++) {
    if (wanted[i]) s.to[i] = (W *)call->out[1 + i].data;
    s.partial[i] = (const W *)call->in[HR_NORM_DW_PARTIAL + i].data;
  }
  dim3 grid((unsigned)divide_up(c.columns, WARP), N);
  launch(norm_sums_kernel<W, N>, grid, dim3(WARP, WARP), 0, call_stream(call), s);
}

/* The plan gave the call room for the sums. */
static hr_status norm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  int64_t columns = desc_columns(call->in[HR_NORM_W].desc), rows = desc_count(call->in[HR_NORM_X].desc) / columns;
  int64_t blocks = divide_up(rows, hr__norm_sum_rows(rows, columns)), weights = call->n_out - 1;
  size_t bytes = (size_t)(blocks * weights * columns) * sizeof(float);
  *prepared = nullptr;
  if (!(args->want_dw || args->want_db) || call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed",
                                       call->workspace_bytes, bytes);
}

/* A kernel for every pair of types of rows and weights. */
#define NORM_PAIRS(kernel)                                                                                             \
  (const void *)kernel<float, float>, (const void *)kernel<float, bf16>, (const void *)kernel<float, f16>,             \
      (const void *)kernel<bf16, float>, (const void *)kernel<bf16, bf16>, (const void *)kernel<bf16, f16>,            \
      (const void *)kernel<f16, float>, (const void *)kernel<f16, bf16>, (const void *)kernel<f16, f16>
#define NORM_SUMS(N)                                                                                                   \
  (const void *)norm_sums_kernel<float, N>, (const void *)norm_sums_kernel<bf16, N>,                                   \
      (const void *)norm_sums_kernel<f16, N>

#endif
