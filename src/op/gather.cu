/* gather and scatter on CUDA. Every row of a scatter's result is made by one block, or every element by one thread,
 * which look through the index of their sample and add what they find in order: no atomics, and no scratch. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/gather.h"
}

enum { WARP = 32, GATHER_THREADS = 256, SCATTER_THREADS = 128, SCATTER_WARPS = SCATTER_THREADS / WARP };
enum { SCATTER_AHEAD = 4 };   /* rows that a thread has in flight */
enum { NARROW_COLUMNS = 32 }; /* below, a thread has an element */
static const int64_t GATHER_BLOCKS = 8192;

static unsigned blocks_of(int64_t threads, int block) {
  int64_t blocks = divide_up(threads, block);
  return (unsigned)(blocks < GATHER_BLOCKS ? blocks : GATHER_BLOCKS);
}

/* ---- gather ---- */

/* A row is `units` of a type as large as rows and addresses allow. */
template <typename U>
static __global__ void __launch_bounds__(GATHER_THREADS)
    gather_kernel(const int32_t *index, const U *x, U *y, hr_gather_sizes s, int64_t units) {
  int64_t stride = (int64_t)gridDim.x * GATHER_THREADS, count = s.groups * s.n * units;
  for (int64_t i = (int64_t)blockIdx.x * GATHER_THREADS + threadIdx.x; i < count; i += stride) {
    int64_t at = i / units, row = index[at];
    bool known = row >= 0 && row < s.rows;
    y[i] = known ? x[(at / s.n * s.rows + row) * units + i % units] : U();
  }
}

template <typename U> static bool gather_try(const hr_call *call, const hr_gather_sizes &s, int64_t row_bytes) {
  int64_t size = (int64_t)sizeof(U), units = row_bytes / size;
  const void *x = call->in[1].data;
  void *y = call->out[0].data;
  if (row_bytes % size != 0 || !aligned(x, sizeof(U)) || !aligned(y, sizeof(U))) return false;
  launch(gather_kernel<U>, blocks_of(s.groups * s.n * units, GATHER_THREADS), GATHER_THREADS, 0, call_stream(call),
         (const int32_t *)call->in[0].data, (const U *)x, (U *)y, s, units);
  return true;
}

static hr_status gather_run(const hr_call *call) {
  hr_gather_sizes s = hr__gather_sizes(&call->in[0].desc, &call->in[1].desc);
  int64_t row_bytes = s.columns * (call->in[1].desc.dtype == HR_F32 ? 4 : 2);
  if (!gather_try<uint4>(call, s, row_bytes) && !gather_try<uint32_t>(call, s, row_bytes))
    gather_try<uint16_t>(call, s, row_bytes);
  return launched();
}

/* ---- scatter ---- */

/* Where this block's next SCATTER_THREADS indices name `row`: positions in `found`, ascending; returns how many. */
__device__ inline int found_list(const int32_t *index, int64_t from, int64_t n, int64_t row, int32_t *found,
                                 int *counts) {
  int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, before = 0, total = 0;
  int64_t position = from + threadIdx.x;
  bool match = position < n && index[position] == row;
  unsigned mates = __ballot_sync(~0u, match);
  if (lane == 0) counts[warp] = __popc(mates);
  __syncthreads();
#pragma unroll
  for (int w = 0; w < SCATTER_WARPS; w++) {
    if (w < warp) before += counts[w];
    total += counts[w];
  }
  if (match) found[before + __popc(mates & ((1u << lane) - 1))] = (int32_t)position;
  __syncthreads();
  return total;
}

/* Block: one row of the result, which may lie on the sum so far. */
template <typename T, typename P>
static __global__ void __launch_bounds__(SCATTER_THREADS)
    scatter_rows_kernel(const int32_t *index, const T *x, const P *partial, P *y, hr_gather_sizes s) {
  __shared__ int32_t found[SCATTER_THREADS];
  __shared__ int counts[SCATTER_WARPS];
  int64_t at = blockIdx.x, group = at / s.rows, row = at % s.rows;
  for (int64_t first = 0; first < s.columns; first += SCATTER_THREADS * WIDE) {
    float sum[WIDE] = {};
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      int64_t column = first + e * SCATTER_THREADS + threadIdx.x;
      if (partial && column < s.columns) sum[e] = to_float(partial[at * s.columns + column]);
    }
    for (int64_t from = 0; from < s.n; from += SCATTER_THREADS) {
      int total = found_list(index + group * s.n, from, s.n, row, found, counts);
      for (int k = 0; k < total; k += SCATTER_AHEAD) {
        T add[SCATTER_AHEAD][WIDE];
#pragma unroll
        for (int a = 0; a < SCATTER_AHEAD; a++)
#pragma unroll
          for (int e = 0; e < WIDE; e++) {
            int64_t column = first + e * SCATTER_THREADS + threadIdx.x;
            if (k + a < total && column < s.columns) add[a][e] = x[(group * s.n + found[k + a]) * s.columns + column];
          }
#pragma unroll
        for (int a = 0; a < SCATTER_AHEAD; a++)
#pragma unroll
          for (int e = 0; e < WIDE; e++)
            if (k + a < total && first + e * SCATTER_THREADS + threadIdx.x < s.columns) sum[e] += to_float(add[a][e]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      int64_t column = first + e * SCATTER_THREADS + threadIdx.x;
      if (column < s.columns) y[at * s.columns + column] = from_float<P>(sum[e]);
    }
  }
}

template <typename T, typename P>
static __global__ void __launch_bounds__(SCATTER_THREADS)
    scatter_elements_kernel(const int32_t *index, const T *x, const P *partial, P *y, hr_gather_sizes s) {
  int64_t stride = (int64_t)gridDim.x * SCATTER_THREADS, count = s.groups * s.rows * s.columns;
  for (int64_t i = (int64_t)blockIdx.x * SCATTER_THREADS + threadIdx.x; i < count; i += stride) {
    int64_t at = i / s.columns, column = i % s.columns, first = at / s.rows * s.n, row = at % s.rows;
    float sum = partial ? to_float(partial[i]) : 0.0f;
    for (int64_t k = first; k < first + s.n; k++)
      if (index[k] == row) sum += to_float(x[k * s.columns + column]);
    y[i] = from_float<P>(sum);
  }
}

template <typename T, typename P> static void scatter_launch(const hr_call *call) {
  hr_gather_sizes s = hr__gather_sizes(&call->in[0].desc, &call->out[0].desc);
  const int32_t *index = (const int32_t *)call->in[0].data;
  const T *x = (const T *)call->in[1].data;
  const P *partial = (const P *)call->in[2].data;
  P *y = (P *)call->out[0].data;
  cudaStream_t stream = call_stream(call);
  if (s.columns < NARROW_COLUMNS)
    launch(scatter_elements_kernel<T, P>, blocks_of(s.groups * s.rows * s.columns, SCATTER_THREADS), SCATTER_THREADS, 0,
           stream, index, x, partial, y, s);
  else
    launch(scatter_rows_kernel<T, P>, (unsigned)(s.groups * s.rows), SCATTER_THREADS, 0, stream, index, x, partial, y,
           s);
}

static hr_status scatter_run(const hr_call *call) {
  return by_dtype(call->in[1].desc.dtype, [&](auto t) {
    return by_dtype(call->out[0].desc.dtype, [&](auto p) {
      scatter_launch<decltype(t), decltype(p)>(call);
      return launched();
    });
  });
}

extern "C" const hr_cuda_launcher hr_cuda_gather = {
    {nullptr, nullptr, gather_run},
    {(const void *)gather_kernel<uint4>, (const void *)gather_kernel<uint32_t>, (const void *)gather_kernel<uint16_t>}};

#define SCATTER_TO(P)                                                                                                  \
  (const void *)scatter_rows_kernel<float, P>, (const void *)scatter_rows_kernel<bf16, P>,                             \
      (const void *)scatter_rows_kernel<f16, P>, (const void *)scatter_elements_kernel<float, P>,                      \
      (const void *)scatter_elements_kernel<bf16, P>, (const void *)scatter_elements_kernel<f16, P>
extern "C" const hr_cuda_launcher hr_cuda_scatter = {{nullptr, nullptr, scatter_run},
                                                     {SCATTER_TO(float), SCATTER_TO(bf16), SCATTER_TO(f16)}};
