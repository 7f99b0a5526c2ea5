/* pool on CUDA: a thread makes one element of the result, reading its window, or all windows that it was in. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/pool.h"
}

enum { POOL_THREADS = 256 };
static const int64_t POOL_BLOCKS = 16384;

static unsigned blocks_of(int64_t count) {
  int64_t blocks = divide_up(count, POOL_THREADS);
  return (unsigned)(blocks < POOL_BLOCKS ? blocks : POOL_BLOCKS);
}

/* Taps of a window that lie inside of x along an axis: [first, end). */
struct taps {
  int64_t first, end, start; /* start: place of tap 0, which may lie in the padding */
};

__device__ inline taps taps_of(const hr_pool_walk &w, int axis, int64_t window) {
  int64_t start = window * w.stride[axis] - w.padding[axis], room = w.size[axis] - start;
  return {start < 0 ? -start : 0, room < w.kernel[axis] ? room : w.kernel[axis], start};
}

/* which: NULL for the mean. */
template <typename T>
static __global__ void __launch_bounds__(POOL_THREADS)
    pool_kernel(const T *x, T *y, uint8_t *which, hr_pool_walk w, float scale) {
  int64_t step = (int64_t)gridDim.x * POOL_THREADS;
  int64_t count = w.planes * w.windows[0] * w.windows[1] * w.windows[2];
  for (int64_t i = (int64_t)blockIdx.x * POOL_THREADS + threadIdx.x; i < count; i += step) {
    int64_t row = i / w.windows[2], plane = row / w.windows[1] / w.windows[0];
    taps a = taps_of(w, 0, row / w.windows[1] % w.windows[0]), b = taps_of(w, 1, row % w.windows[1]);
    taps c = taps_of(w, 2, i % w.windows[2]);
    float best = which ? -INFINITY : 0.0f;
    int64_t number = (a.first * w.kernel[1] + b.first) * w.kernel[2] + c.first;
    for (int64_t p = a.first; p < a.end; p++)
      for (int64_t q = b.first; q < b.end; q++) {
        const T *from = x + ((plane * w.size[0] + a.start + p) * w.size[1] + b.start + q) * w.size[2] + c.start;
        for (int64_t r = c.first; r < c.end; r++) {
          float value = to_float(from[r]);
          if (!which) {
            best += value;
          } else if (value > best || value != value) {
            best = value;
            number = (p * w.kernel[1] + q) * w.kernel[2] + r;
          }
        }
      }
    y[i] = from_float<T>(best * scale);
    if (which) which[i] = (uint8_t)number;
  }
}

/* Windows along an axis that have place `at` in them: [first, end). */
struct span {
  int64_t first, end;
};

__device__ inline span windows_over(const hr_pool_walk &w, int axis, int64_t at) {
  int64_t last = at + w.padding[axis], before = last - w.kernel[axis] + 1, end = last / w.stride[axis] + 1;
  return {before > 0 ? (before + w.stride[axis] - 1) / w.stride[axis] : 0,
          end < w.windows[axis] ? end : w.windows[axis]};
}

template <typename T>
static __global__ void __launch_bounds__(POOL_THREADS)
    pool_bwd_kernel(const T *dy, const uint8_t *which, const T *partial, T *dx, hr_pool_walk w, float scale) {
  int64_t step = (int64_t)gridDim.x * POOL_THREADS, count = w.planes * w.size[0] * w.size[1] * w.size[2];
  for (int64_t i = (int64_t)blockIdx.x * POOL_THREADS + threadIdx.x; i < count; i += step) {
    int64_t row = i / w.size[2], plane = row / w.size[1] / w.size[0];
    int64_t at[] = {row / w.size[1] % w.size[0], row % w.size[1], i % w.size[2]};
    span a = windows_over(w, 0, at[0]), b = windows_over(w, 1, at[1]), c = windows_over(w, 2, at[2]);
    float sum = 0.0f;
    for (int64_t p = a.first; p < a.end; p++)
      for (int64_t q = b.first; q < b.end; q++) {
        int64_t windows = ((plane * w.windows[0] + p) * w.windows[1] + q) * w.windows[2];
        int64_t tap = at[0] + w.padding[0] - p * w.stride[0];
        tap = (tap * w.kernel[1] + at[1] + w.padding[1] - q * w.stride[1]) * w.kernel[2] + at[2] + w.padding[2];
        for (int64_t r = c.first; r < c.end; r++)
          if (!which || which[windows + r] == tap - r * w.stride[2]) sum += to_float(dy[windows + r]);
      }
    dx[i] = from_float<T>((partial ? to_float(partial[i]) : 0.0f) + sum * scale);
  }
}

static float scale_of(const hr_pool_args *args, const hr_pool_walk &w) {
  return args->pooling == HR_POOL_MAX ? 1.0f : 1.0f / (float)(w.kernel[0] * w.kernel[1] * w.kernel[2]);
}

static hr_status pool_run(const hr_call *call) {
  const hr_pool_args *args = (const hr_pool_args *)call->args;
  hr_pool_walk w = hr__pool_walk(args, &call->in[0].desc, &call->out[0].desc);
  uint8_t *which = args->pooling == HR_POOL_MAX ? (uint8_t *)call->out[1].data : nullptr;
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    launch(pool_kernel<T>, blocks_of(desc_count(call->out[0].desc)), POOL_THREADS, 0, call_stream(call),
           (const T *)call->in[0].data, (T *)call->out[0].data, which, w, scale_of(args, w));
    return launched();
  });
}

static hr_status pool_bwd_run(const hr_call *call) {
  const hr_pool_args *args = &((const hr_pool_bwd_args *)call->args)->pool;
  hr_pool_walk w = hr__pool_walk(args, &call->out[0].desc, &call->in[0].desc);
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    launch(pool_bwd_kernel<T>, blocks_of(desc_count(call->out[0].desc)), POOL_THREADS, 0, call_stream(call),
           (const T *)call->in[0].data, (const uint8_t *)call->in[1].data, (const T *)call->in[2].data,
           (T *)call->out[0].data, w, scale_of(args, w));
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_pool = {
    {nullptr, nullptr, pool_run},
    {(const void *)pool_kernel<float>, (const void *)pool_kernel<bf16>, (const void *)pool_kernel<f16>}};
extern "C" const hr_cuda_launcher hr_cuda_pool_bwd = {
    {nullptr, nullptr, pool_bwd_run},
    {(const void *)pool_bwd_kernel<float>, (const void *)pool_bwd_kernel<bf16>, (const void *)pool_bwd_kernel<f16>}};
