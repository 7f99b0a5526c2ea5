/* topk on CUDA: a warp for each row finds the first, then the first behind that, and so on; of few long rows a block
 * each. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/topk.h"
}

enum {
  WARP = 32,
  TOPK_THREADS = 256,
  TOPK_WARPS = TOPK_THREADS / WARP,
  LONG_THREADS = 1024,
  LONG_COLUMNS = 4096,
  LONG_ROWS = 1024
};

/* An element with its place; at < 0: none. */
struct candidate {
  float value;
  int64_t at;
};

__device__ inline candidate before_of(candidate a, candidate b) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  return hr__topk_before(a.value, a.at, b.value, b.at) ? a : b;
}

__device__ inline candidate warp_first(candidate best) {
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    candidate other = {__shfl_xor_sync(~0u, best.value, distance), __shfl_xor_sync(~0u, best.at, distance)};
    best = before_of(best, other);
  }
  return best;
}

template <typename T>
static __global__ void __launch_bounds__(LONG_THREADS)
    topk_long_kernel(const T *x, T *values, int32_t *indices, int64_t columns, int k) {
  __shared__ candidate warps[LONG_THREADS / WARP];
  int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  int64_t row = blockIdx.x;
  const T *from = x + row * columns;
  candidate last = {0.0f, -1};
  for (int j = 0; j < k; j++) {
    candidate best = {0.0f, -1};
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < columns; i += LONG_THREADS) {
      candidate here = {to_float(from[i]), i};
      if (last.at < 0 || hr__topk_before(last.value, last.at, here.value, i)) best = before_of(best, here);
    }
    best = warp_first(best);
    if (lane == 0) warps[warp] = best;
    __syncthreads();
    last = warp_first(warps[lane]); /* as many warps as lanes */
    __syncthreads();
    if (threadIdx.x == 0) {
      values[row * k + j] = from[last.at];
      indices[row * k + j] = (int32_t)last.at;
    }
  }
}

template <typename T>
static __global__ void __launch_bounds__(TOPK_THREADS)
    topk_kernel(const T *x, T *values, int32_t *indices, int64_t rows, int64_t columns, int k) {
  int lane = (int)threadIdx.x % WARP;
  int64_t row = (int64_t)blockIdx.x * TOPK_WARPS + threadIdx.x / WARP;
  if (row >= rows) return;
  const T *from = x + row * columns;
  candidate last = {0.0f, -1}; /* none yet */
  for (int j = 0; j < k; j++) {
    candidate best = {0.0f, -1};
    for (int64_t i = lane; i < columns; i += WARP) {
      candidate here = {to_float(from[i]), i};
      if (last.at < 0 || hr__topk_before(last.value, last.at, here.value, i)) best = before_of(best, here);
    }
    last = warp_first(best);
    if (lane == 0) {
      values[row * k + j] = from[last.at];
      indices[row * k + j] = (int32_t)last.at;
    }
  }
}

static hr_status topk_run(const hr_call *call) {
  const hr_desc &x = call->in[0].desc;
  int64_t rows = desc_rows(x), columns = desc_columns(x);
  int k = ((const hr_topk_args *)call->args)->k;
  return by_dtype(x.dtype, [&](auto t) {
    using T = decltype(t);
    if (columns >= LONG_COLUMNS && rows <= LONG_ROWS) {
      topk_long_kernel<T><<<(unsigned)rows, LONG_THREADS, 0, call_stream(call)>>>(
          (const T *)call->in[0].data, (T *)call->out[0].data, (int32_t *)call->out[1].data, columns, k);
      return launched();
    }
    topk_kernel<T><<<(unsigned)divide_up(rows, TOPK_WARPS), TOPK_THREADS, 0, call_stream(call)>>>(
        (const T *)call->in[0].data, (T *)call->out[0].data, (int32_t *)call->out[1].data, rows, columns, k);
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_topk = {
    {nullptr, nullptr, topk_run},
    {(const void *)topk_kernel<float>, (const void *)topk_kernel<bf16>, (const void *)topk_kernel<f16>,
     (const void *)topk_long_kernel<float>, (const void *)topk_long_kernel<bf16>, (const void *)topk_long_kernel<f16>}};
