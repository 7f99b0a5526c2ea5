/* A walk of a convolution (op/conv_walk.h) as kernels take it: along one axis numbers of 32 bits are enough, over all
 * of a tensor they are not.
 */
#ifndef HR_OP_CONV_STEPS_CUH
#define HR_OP_CONV_STEPS_CUH

#include <type_traits>

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/conv_cuda.h"
}

struct conv_steps {
  int places[HR_CONV_AXES], to[HR_CONV_AXES], to_first[HR_CONV_AXES], to_step[HR_CONV_AXES];
  int source[HR_CONV_AXES], step[HR_CONV_AXES];
  int taps[HR_CONV_AXES], first[HR_CONV_AXES], tap[HR_CONV_AXES];
  int w_first[HR_CONV_AXES], w_step[HR_CONV_AXES], kernel[HR_CONV_AXES];
};

static const int64_t STEPS_MOST = (int64_t)1 << 30; /* elements along an axis */

static inline conv_steps steps_of(const hr_conv_sizes &s, const hr_conv_walk &w) {
  conv_steps steps;
  for (int d = 0; d < HR_CONV_AXES; d++) {
    steps.places[d] = (int)w.places[d];
    steps.to[d] = (int)w.to[d];
    steps.to_first[d] = (int)w.to_first[d];
    steps.to_step[d] = (int)w.to_step[d];
    steps.source[d] = (int)w.source[d];
    steps.step[d] = (int)w.step[d];
    steps.taps[d] = (int)w.taps[d];
    steps.first[d] = (int)w.first[d];
    steps.tap[d] = (int)w.tap[d];
    steps.w_first[d] = (int)w.w_first[d];
    steps.w_step[d] = (int)w.w_step[d];
    steps.kernel[d] = (int)s.kernel[d];
  }
  return steps;
}

/* Kernels have two forms: windows slide along the last axis only, or along any. */
template <typename F> static hr_status by_axes(const hr_conv_sizes &s, const F &function) {
  bool one = true;
  for (int d = 0; d < HR_CONV_AXES - 1; d++)
    one = one && s.x[d] == 1 && s.kernel[d] == 1 && s.y[d] == 1 && s.padding[d] == 0;
  return one ? function(std::integral_constant<int, 1>()) : function(std::integral_constant<int, HR_CONV_AXES>());
}

__device__ inline int64_t volume(const int size[HR_CONV_AXES]) {
  return (int64_t)size[0] * size[1] * size[2];
}

/* Element `at` of something of that size, in its only channel. */
__device__ inline int64_t linear_at(const int size[HR_CONV_AXES], const int at[HR_CONV_AXES]) {
  return ((int64_t)at[0] * size[1] + at[1]) * size[2] + at[2];
}

/* A place by its number among those of a sample: along each axis. */
template <int AXES> __device__ inline void place_at(const conv_steps &w, int64_t number, int at[HR_CONV_AXES]) {
  at[0] = at[1] = 0;
#pragma unroll
  for (int d = HR_CONV_AXES - 1; d > HR_CONV_AXES - AXES; d--) {
    at[d] = (int)(number % w.places[d]);
    number /= w.places[d];
  }
  at[HR_CONV_AXES - AXES] = (int)number;
}

/* Where the first tap of a place reads; may lie outside. */
template <int AXES>
__device__ inline void start_of(const conv_steps &w, const int at[HR_CONV_AXES], int start[HR_CONV_AXES]) {
  start[0] = start[1] = 0;
#pragma unroll
  for (int d = HR_CONV_AXES - AXES; d < HR_CONV_AXES; d++)
    start[d] = at[d] * w.step[d] + w.first[d];
}

/* A tap by its number: how far it reads from a place's first one. */
template <int AXES> __device__ inline void tap_at(const conv_steps &w, int64_t number, int away[HR_CONV_AXES]) {
  away[0] = away[1] = 0;
#pragma unroll
  for (int d = HR_CONV_AXES - 1; d >= HR_CONV_AXES - AXES; d--) {
    away[d] = (int)(number % w.taps[d]) * w.tap[d];
    number /= w.taps[d];
  }
}

template <int AXES>
__device__ inline bool inside(const conv_steps &w, const int start[HR_CONV_AXES], const int away[HR_CONV_AXES]) {
  bool all = true;
#pragma unroll
  for (int d = HR_CONV_AXES - AXES; d < HR_CONV_AXES; d++)
    all = all && (unsigned)(start[d] + away[d]) < (unsigned)w.source[d];
  return all;
}

/* function(tap, element of the kernel, element of the source's channel), for the taps of a place that are inside. */
template <int AXES, typename F>
__device__ inline void each_tap(const conv_steps &w, const int start[HR_CONV_AXES], const F &function) {
  if constexpr (AXES == 1) {
    int element = w.w_first[2], c = start[2];
    for (int k = 0; k < w.taps[2]; k++, element += w.w_step[2], c += w.tap[2])
      if ((unsigned)c < (unsigned)w.source[2]) function(k, (int64_t)element, (int64_t)c);
  } else {
    for (int i = 0, a = start[0]; i < w.taps[0]; i++, a += w.tap[0]) {
      if ((unsigned)a >= (unsigned)w.source[0]) continue;
      for (int j = 0, b = start[1]; j < w.taps[1]; j++, b += w.tap[1]) {
        if ((unsigned)b >= (unsigned)w.source[1]) continue;
        for (int k = 0, c = start[2]; k < w.taps[2]; k++, c += w.tap[2]) {
          if ((unsigned)c >= (unsigned)w.source[2]) continue;
          const int in_kernel[] = {w.w_first[0] + i * w.w_step[0], w.w_first[1] + j * w.w_step[1],
                                   w.w_first[2] + k * w.w_step[2]},
                    in_source[] = {a, b, c};
          function((i * w.taps[1] + j) * w.taps[2] + k, linear_at(w.kernel, in_kernel), linear_at(w.source, in_source));
        }
      }
    }
  }
}

#endif
