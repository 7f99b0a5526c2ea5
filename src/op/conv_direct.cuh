/* Convolutions with one channel of x to a group (signals, depthwise), straight from x: sums are as short as the kernel,
 * or go over windows alone. No part of the result is made by two threads, and sums over windows are cut by the shape.
 */
#ifndef HR_OP_CONV_DIRECT_CUH
#define HR_OP_CONV_DIRECT_CUH

#include "dev/cuda/columns.cuh"
#include "op/conv_steps.cuh"

enum {
  DIRECT_THREADS = 256,
  DIRECT_CHANNELS = 8,      /* of y, summed at once by a thread */
  DIRECT_BLOCK = 32,        /* channels of y of one block */
  DIRECT_STAGED_TAPS = 256, /* kernels up to this size lie in shared memory, for channels of one block */
  DW_WARPS = 8,             /* of one block */
  DW_CHANNELS = 4,          /* of y, summed at once by a warp */
  DW_TAPS = 8               /* likewise */
};

template <typename T> struct direct_call {
  const T *from, *weight, *bias, *add; /* bias, add: NULL where there is none; add may be the result */
  T *to;
  int64_t samples, groups, out; /* out: channels of y of a group */
};

/* Number `first + thread` of all [samples, groups, places]: its sample and group as one number, and its place. The
 * block's first one is found by 64 bits, its neighbours by 32. */
__device__ inline int64_t row_find(int64_t first, unsigned thread, unsigned places, unsigned *place) {
  int64_t row = first / places;
  unsigned behind = (unsigned)(first - row * places) + thread;
  unsigned rows = behind / places;
  *place = behind - rows * places;
  return row + rows;
}

/* A thread has one place of y in one group, and goes through KC channels at once. STAGED: all threads of a block share
 * their weights, [taps, DIRECT_BLOCK] in shared memory; groups is 1 and KC DIRECT_CHANNELS. */
template <typename T, int AXES, int KC, bool STAGED>
static __global__ void __launch_bounds__(DIRECT_THREADS)
    direct_kernel(const __grid_constant__ direct_call<T> p, const __grid_constant__ conv_steps w) {
  float *staged = launch_shared<float>();
  int64_t channel = (int64_t)blockIdx.y * DIRECT_BLOCK, taps = volume(w.taps);
  int64_t end = channel + DIRECT_BLOCK < p.out ? channel + DIRECT_BLOCK : p.out;
  if (STAGED) {
    for (int64_t i = threadIdx.x; i < taps * DIRECT_BLOCK; i += DIRECT_THREADS) {
      int64_t k = channel + i % DIRECT_BLOCK;
      staged[i] = k < end ? to_float(p.weight[k * taps + i / DIRECT_BLOCK]) : 0.0f;
    }
    __syncthreads();
  }
  unsigned places = (unsigned)volume(w.places), place;
  int64_t row = row_find((int64_t)blockIdx.x * DIRECT_THREADS, threadIdx.x, places, &place);
  if (row >= p.samples * p.groups) return;
  int64_t group = p.groups == 1 ? 0 : row % p.groups;
  int at[HR_CONV_AXES], start[HR_CONV_AXES];
  place_at<AXES>(w, place, at);
  start_of<AXES>(w, at, start);
  const T *x = p.from + row * volume(w.source);
  for (; channel < end; channel += KC) {
    float sum[KC] = {};
    each_tap<AXES>(w, start, [&](int tap, int64_t element, int64_t source) {
      float value = to_float(x[source]);
      if constexpr (STAGED) {
        const float4 *four = (const float4 *)(staged + (int64_t)tap * DIRECT_BLOCK + channel % DIRECT_BLOCK);
#pragma unroll
        for (int i = 0; i < KC; i += 4) {
          float4 weights = four[i / 4];
          sum[i] += value * weights.x;
          sum[i + 1] += value * weights.y;
          sum[i + 2] += value * weights.z;
          sum[i + 3] += value * weights.w;
        }
      } else {
#pragma unroll
        for (int i = 0; i < KC; i++)
          if (channel + i < end) sum[i] += value * to_float(p.weight[(group * p.out + channel + i) * taps + element]);
      }
    });
#pragma unroll
    for (int i = 0; i < KC; i++) {
      if (channel + i >= end) break;
      int64_t k = channel + i, to = (row * p.out + k) * places + place;
      float value = sum[i];
      if (p.bias) value += to_float(p.bias[group * p.out + k]);
      if (p.add) value += to_float(p.add[to]);
      p.to[to] = from_float<T>(value);
    }
  }
}

/* dx of one walk: a thread has one element of dx. */
template <typename T, int AXES>
static __global__ void __launch_bounds__(DIRECT_THREADS)
    direct_dx_kernel(const __grid_constant__ direct_call<T> p, const __grid_constant__ conv_steps w) {
  unsigned place;
  int64_t row = row_find((int64_t)blockIdx.x * DIRECT_THREADS, threadIdx.x, (unsigned)volume(w.places), &place);
  if (row >= p.samples * p.groups) return;
  int64_t group = p.groups == 1 ? 0 : row % p.groups, size = volume(w.source), kernel = volume(w.kernel);
  int at[HR_CONV_AXES], start[HR_CONV_AXES];
  place_at<AXES>(w, place, at);
  start_of<AXES>(w, at, start);
  const T *dy = p.from + row * p.out * size, *weight = p.weight + group * p.out * kernel;
  float sum = 0.0f;
  for (int64_t k = 0; k < p.out; k++, dy += size, weight += kernel)
    each_tap<AXES>(w, start, [&](int, int64_t element, int64_t source) {
      sum += to_float(dy[source]) * to_float(weight[element]);
    });
  for (int d = 0; d < HR_CONV_AXES; d++)
    at[d] = w.to_first[d] + at[d] * w.to_step[d];
  int64_t to = row * volume(w.to) + linear_at(w.to, at);
  p.to[to] = from_float<T>(p.add ? sum + to_float(p.add[to]) : sum);
}

template <typename T> struct direct_dw {
  const T *dy, *x;
  float *partial; /* [parts, K, taps] */
  int64_t samples, groups, out, parts, part;
};

/* A warp has KC channels of y, all of one group, and one part of all windows: lanes go through windows, then join in a
 * fixed tree, DW_TAPS taps at a time. */
template <typename T, int AXES, int KC>
static __global__ void __launch_bounds__(DW_WARPS * 32)
    direct_dw_kernel(const __grid_constant__ direct_dw<T> p, const __grid_constant__ conv_steps w) {
  int64_t channels = p.groups * p.out, taps = volume(w.taps), size = volume(w.source), tiles = channels / KC;
  int64_t job = (int64_t)blockIdx.x * DW_WARPS + threadIdx.x / 32, part = job / tiles, k = (job - part * tiles) * KC;
  unsigned lane = threadIdx.x % 32, places = (unsigned)volume(w.places);
  if (part >= p.parts) return;
  int64_t group = k / p.out, first = part * p.part, all = p.samples * places;
  unsigned count = (unsigned)((first + p.part < all ? first + p.part : all) - first);
  for (int64_t tap = 0; tap < taps; tap += DW_TAPS) {
    float sum[KC][DW_TAPS] = {};
    int away[DW_TAPS][HR_CONV_AXES];
#pragma unroll
    for (int t = 0; t < DW_TAPS; t++)
      tap_at<AXES>(w, tap + t, away[t]);
    for (unsigned i = lane; i < count; i += 32) {
      unsigned place;
      int64_t sample = row_find(first, i, places, &place);
      int at[HR_CONV_AXES], start[HR_CONV_AXES];
      place_at<AXES>(w, place, at);
      start_of<AXES>(w, at, start);
      const T *dy = p.dy + (sample * channels + k) * places + place;
      const T *x = p.x + (sample * p.groups + group) * size + linear_at(w.source, start);
      float slope[KC];
#pragma unroll
      for (int c = 0; c < KC; c++)
        slope[c] = to_float(dy[(int64_t)c * places]);
#pragma unroll
      for (int t = 0; t < DW_TAPS; t++)
        if (tap + t < taps && inside<AXES>(w, start, away[t])) {
          float value = to_float(x[linear_at(w.source, away[t])]);
#pragma unroll
          for (int c = 0; c < KC; c++)
            sum[c][t] += slope[c] * value;
        }
    }
#pragma unroll
    for (int c = 0; c < KC; c++)
#pragma unroll
      for (int t = 0; t < DW_TAPS; t++) {
        for (int distance = 16; distance > 0; distance /= 2)
          sum[c][t] += __shfl_down_sync(~0u, sum[c][t], distance);
        if (lane == 0 && tap + t < taps) p.partial[(part * channels + k + c) * taps + tap + t] = sum[c][t];
      }
  }
}

/* ---- launches ---- */

template <typename T>
static hr_status direct_run(const hr_call *call, const hr_conv_sizes &s, const direct_call<T> &p) {
  hr_conv_walk walk = hr__conv_walk(&s);
  conv_steps w = steps_of(s, walk);
  int64_t taps = hr__conv_volume(walk.taps), rows = s.samples * s.groups * hr__conv_volume(walk.places);
  dim3 grid((unsigned)divide_up(rows, DIRECT_THREADS), (unsigned)divide_up(s.out, DIRECT_BLOCK));
  cudaStream_t stream = call_stream(call);
  return by_axes(s, [&](auto axes) {
    constexpr int AXES = decltype(axes)::value;
    if (s.out == 1)
      launch(direct_kernel<T, AXES, 1, false>, grid, DIRECT_THREADS, 0, stream, p, w);
    else if (s.groups == 1 && taps <= DIRECT_STAGED_TAPS)
      launch(direct_kernel<T, AXES, DIRECT_CHANNELS, true>, grid, DIRECT_THREADS,
             (size_t)taps * DIRECT_BLOCK * sizeof(float), stream, p, w);
    else
      launch(direct_kernel<T, AXES, DIRECT_CHANNELS, false>, grid, DIRECT_THREADS, 0, stream, p, w);
    return launched();
  });
}

template <typename T>
static hr_status direct_dx_run(const hr_call *call, const hr_conv_sizes &s, const direct_call<T> &p) {
  for (int64_t number = 0; number < hr__conv_dx_walks(&s); number++) {
    hr_conv_walk walk = hr__conv_dx_walk(&s, number);
    int64_t rows = s.samples * s.groups * hr__conv_volume(walk.places);
    if (rows == 0) continue;
    hr_status status = by_axes(s, [&](auto axes) {
      launch(direct_dx_kernel<T, decltype(axes)::value>, (unsigned)divide_up(rows, DIRECT_THREADS), DIRECT_THREADS, 0,
             call_stream(call), p, steps_of(s, walk));
      return launched();
    });
    if (status != HR_OK) return status;
  }
  return HR_OK;
}

/* dW [K, taps] = (partial +) sums */
template <typename T, typename P>
static hr_status direct_dw_run(const hr_call *call, const hr_conv_sizes &s, const direct_dw<T> &p, const P *partial,
                               P *dw) {
  hr_conv_walk walk = hr__conv_walk(&s);
  conv_steps w = steps_of(s, walk);
  bool several = s.out % DW_CHANNELS == 0;
  int64_t channels = s.groups * s.out, warps = p.parts * (several ? channels / DW_CHANNELS : channels);
  unsigned blocks = (unsigned)divide_up(warps, DW_WARPS);
  hr_status status = by_axes(s, [&](auto axes) {
    constexpr int AXES = decltype(axes)::value;
    if (several)
      launch(direct_dw_kernel<T, AXES, DW_CHANNELS>, blocks, DW_WARPS * 32, 0, call_stream(call), p, w);
    else
      launch(direct_dw_kernel<T, AXES, 1>, blocks, DW_WARPS * 32, 0, call_stream(call), p, w);
    return launched();
  });
  if (status != HR_OK) return status;
  columns_shape sums = {};
  sums.rows = p.parts;
  sums.columns = sums.row = channels * hr__conv_volume(s.kernel);
  sums.groups = sums.used = 1;
  return columns_run<float, P>(call, p.partial, partial, dw, sums);
}

#define DIRECT_FORM(T, AXES)                                                                                           \
  (const void *)direct_kernel<T, AXES, 1, false>, (const void *)direct_kernel<T, AXES, DIRECT_CHANNELS, true>,         \
      (const void *)direct_kernel<T, AXES, DIRECT_CHANNELS, false>
#define DIRECT_TYPE(T)      DIRECT_FORM(T, 1), DIRECT_FORM(T, HR_CONV_AXES)
#define DIRECT_FUNCTIONS    DIRECT_TYPE(float), DIRECT_TYPE(bf16), DIRECT_TYPE(f16)
#define DIRECT_DX_TYPE(T)   (const void *)direct_dx_kernel<T, 1>, (const void *)direct_dx_kernel<T, HR_CONV_AXES>
#define DIRECT_DX_FUNCTIONS DIRECT_DX_TYPE(float), DIRECT_DX_TYPE(bf16), DIRECT_DX_TYPE(f16)
#define DIRECT_DW_FORM(T, AXES)                                                                                        \
  (const void *)direct_dw_kernel<T, AXES, DW_CHANNELS>, (const void *)direct_dw_kernel<T, AXES, 1>
#define DIRECT_DW_TYPE(T)   DIRECT_DW_FORM(T, 1), DIRECT_DW_FORM(T, HR_CONV_AXES)
#define DIRECT_DW_FUNCTIONS DIRECT_DW_TYPE(float), DIRECT_DW_TYPE(bf16), DIRECT_DW_TYPE(f16)
#define SUM_FUNCTIONS       COLUMNS_PAIR(float, float), COLUMNS_PAIR(float, bf16), COLUMNS_PAIR(float, f16)

#endif
