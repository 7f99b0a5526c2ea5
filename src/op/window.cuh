/* Gradients of some columns of rows that hold more: the other columns keep the sum so far, or are 0. */
#ifndef HR_OP_WINDOW_CUH
#define HR_OP_WINDOW_CUH

#include "dev/cuda/launch.cuh"

enum { FILL_THREADS = 256, FILL_EACH = 8 };

template <typename T>
static __global__ void __launch_bounds__(FILL_THREADS) window_fill_kernel(T *to, const T *from, int64_t count) {
  int64_t at = (blockIdx.x * (int64_t)FILL_THREADS + threadIdx.x) * FILL_EACH;
  if (at + FILL_EACH <= count) { /* results of the plan are aligned */
    pack<T, FILL_EACH> block = {};
    if (from) block = pack_load<FILL_EACH>(from + at);
    pack_store<FILL_EACH>(to + at, block);
    return;
  }
  for (; at < count; at++)
    to[at] = from ? from[at] : from_float<T>(0.0f);
}

/* All columns of `to`, unless they are the sum so far already. */
template <typename T> static void window_fill(const hr_call *call, T *to, const T *partial, int64_t count) {
  if (to == partial) return;
  launch(window_fill_kernel<T>, dim3((unsigned)divide_up(count, FILL_THREADS * FILL_EACH)), FILL_THREADS, 0,
         call_stream(call), to, partial, count);
}

#define WINDOW_FILL_FUNCTIONS                                                                                          \
  (const void *)window_fill_kernel<float>, (const void *)window_fill_kernel<bf16>, (const void *)window_fill_kernel<f16>

#endif
