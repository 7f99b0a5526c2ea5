/* topk on CUDA: a warp for each row finds the first, then the first behind that, and so on. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/topk.h"
}

enum { WARP = 32, TOPK_THREADS = 256, TOPK_WARPS = TOPK_THREADS / WARP };

template <typename T>
static __global__ void __launch_bounds__(TOPK_THREADS)
    topk_kernel(const T *x, T *values, int32_t *indices, int64_t rows, int64_t columns, int k) {
  int lane = (int)threadIdx.x % WARP;
  int64_t row = (int64_t)blockIdx.x * TOPK_WARPS + threadIdx.x / WARP;
  if (row >= rows) return;
  const T *from = x + row * columns;
  float last = 0.0f;
  int64_t last_at = -1; /* none yet */
  for (int j = 0; j < k; j++) {
    float best = 0.0f;
    int64_t best_at = -1;
    for (int64_t i = lane; i < columns; i += WARP) {
      float value = to_float(from[i]);
      bool behind = last_at < 0 || hr__topk_before(last, last_at, value, i);
      if (behind && (best_at < 0 || hr__topk_before(value, i, best, best_at))) {
        best = value;
        best_at = i;
      }
    }
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
      float other = __shfl_xor_sync(~0u, best, distance);
      int64_t other_at = __shfl_xor_sync(~0u, best_at, distance);
      if (other_at >= 0 && (best_at < 0 || hr__topk_before(other, other_at, best, best_at))) {
        best = other;
        best_at = other_at;
      }
    }
    last = best;
    last_at = best_at;
    if (lane == 0) {
      values[row * k + j] = from[best_at];
      indices[row * k + j] = (int32_t)best_at;
    }
  }
}

static hr_status topk_run(const hr_call *call) {
  const hr_desc &x = call->in[0].desc;
  int64_t rows = desc_rows(x), columns = desc_columns(x);
  int k = ((const hr_topk_args *)call->args)->k;
  return by_dtype(x.dtype, [&](auto t) {
    using T = decltype(t);
    topk_kernel<T><<<(unsigned)divide_up(rows, TOPK_WARPS), TOPK_THREADS, 0, call_stream(call)>>>(
        (const T *)call->in[0].data, (T *)call->out[0].data, (int32_t *)call->out[1].data, rows, columns, k);
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_topk = {
    {nullptr, nullptr, topk_run},
    {(const void *)topk_kernel<float>, (const void *)topk_kernel<bf16>, (const void *)topk_kernel<f16>}};
