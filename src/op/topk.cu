/* topk on CUDA: a warp for each row finds the first, then the first behind that, and so on. Long rows are cut where few
 * are wanted (hr__topk_parts): a block for each part, WIDE elements to a thread, then a warp over what these have
 * found; where many are wanted a block goes over all of a row. */
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
  PART_THREADS = HR_TOPK_PART / WIDE
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

/* The block's first one, in every thread. warps is of this call alone until the next barrier. */
template <int THREADS> __device__ inline candidate block_first(candidate best, candidate *warps) {
  best = warp_first(best);
  if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = best;
  __syncthreads();
  int lane = (int)threadIdx.x % WARP;
  return warp_first(lane < THREADS / WARP ? warps[lane] : candidate{0.0f, -1});
}

template <typename T>
static __global__ void __launch_bounds__(LONG_THREADS)
    topk_long_kernel(const T *x, T *values, int32_t *indices, int64_t columns, int k) {
  __shared__ candidate warps[LONG_THREADS / WARP];
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
    last = block_first<LONG_THREADS>(best, warps);
    __syncthreads();
    if (threadIdx.x == 0) {
      values[row * k + j] = from[last.at];
      indices[row * k + j] = (int32_t)last.at;
    }
  }
}

/* A block: a part of a row; found [rows, parts, k]: where its first ones are, -1 behind the last. */
template <typename T>
static __global__ void __launch_bounds__(PART_THREADS)
    topk_part_kernel(const T *x, int32_t *found, int64_t columns, int64_t parts, int k) {
  __shared__ candidate warps[2][PART_THREADS / WARP]; /* by turns: one barrier is enough */
  next_may_begin();
  front_wait();
  int64_t row = blockIdx.x / parts, part = blockIdx.x % parts, first = part * HR_TOPK_PART + threadIdx.x * WIDE;
  float mine[WIDE];
  int there = (int)max((int64_t)0, min((int64_t)WIDE, columns - first));
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    mine[e] = e < there ? to_float(x[row * columns + first + e]) : 0.0f;
  candidate last = {0.0f, -1};
  for (int j = 0; j < k; j++) {
    candidate best = {0.0f, -1};
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      if (e < there && (last.at < 0 || hr__topk_before(last.value, last.at, mine[e], first + e)))
        best = before_of(best, {mine[e], first + e});
    last = block_first<PART_THREADS>(best, warps[j % 2]);
    if (threadIdx.x == 0) found[(row * parts + part) * k + j] = (int32_t)last.at;
    if (last.at < 0) last = {-INFINITY, columns}; /* nothing comes behind it */
  }
}

/* A warp for each row over what its parts have found. */
template <typename T>
static __global__ void __launch_bounds__(WARP)
    topk_join_kernel(const T *x, const int32_t *found, T *values, int32_t *indices, int64_t columns, int64_t parts,
                     int k) {
  next_may_begin();
  front_wait();
  int64_t row = blockIdx.x;
  const T *from = x + row * columns;
  candidate last = {0.0f, -1};
  for (int j = 0; j < k; j++) {
    candidate best = {0.0f, -1};
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < parts * k; i += WARP) {
      int64_t at = found[row * parts * k + i];
      if (at < 0) continue;
      candidate here = {to_float(from[at]), at};
      if (last.at < 0 || hr__topk_before(last.value, last.at, here.value, at)) best = before_of(best, here);
    }
    last = warp_first(best);
    if (threadIdx.x == 0) {
      values[row * k + j] = from[last.at];
      indices[row * k + j] = (int32_t)last.at;
    }
  }
}

template <typename T> static hr_status parts_run(const hr_call *call, int64_t rows, int64_t parts) {
  const T *x = (const T *)call->in[0].data;
  int64_t columns = desc_columns(call->in[0].desc);
  int k = ((const hr_topk_args *)call->args)->k;
  int32_t *found = (int32_t *)call->workspace;
  hr_status status = launch_early(call, topk_part_kernel<T>, dim3((unsigned)(rows * parts)), dim3(PART_THREADS), 0, x,
                                  found, columns, parts, k);
  if (status != HR_OK) return status;
  return launch_early(call, topk_join_kernel<T>, dim3((unsigned)rows), dim3(WARP), 0, x, (const int32_t *)found,
                      (T *)call->out[0].data, (int32_t *)call->out[1].data, columns, parts, k);
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
    int64_t parts = hr__topk_parts(rows, columns, k);
    if (parts > 1) return parts_run<T>(call, rows, parts);
    if (columns >= LONG_COLUMNS && rows <= HR_TOPK_LONG_ROWS) {
      launch(topk_long_kernel<T>, (unsigned)rows, LONG_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
             (T *)call->out[0].data, (int32_t *)call->out[1].data, columns, k);
      return launched();
    }
    launch(topk_kernel<T>, (unsigned)divide_up(rows, TOPK_WARPS), TOPK_THREADS, 0, call_stream(call),
           (const T *)call->in[0].data, (T *)call->out[0].data, (int32_t *)call->out[1].data, rows, columns, k);
    return launched();
  });
}

#define TOPK(T)                                                                                                        \
  (const void *)topk_kernel<T>, (const void *)topk_long_kernel<T>, (const void *)topk_part_kernel<T>,                  \
      (const void *)topk_join_kernel<T>

extern "C" const hr_cuda_launcher hr_cuda_topk = {{nullptr, nullptr, topk_run}, {TOPK(float), TOPK(bf16), TOPK(f16)}};
