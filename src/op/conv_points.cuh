/* Convolutions of 16-bit types whose windows are single places, to few channels (the ends of models of volumes): all
 * that counts is that x, or dx, goes through the GPU once. A thread has W neighbouring places, in all channels.
 */
#ifndef HR_OP_CONV_POINTS_CUH
#define HR_OP_CONV_POINTS_CUH

#include "op/conv_direct.cuh"

enum {
  POINTS_THREADS = 256,
  POINTS_CHANNELS = 8 /* of x, whose dW a block sums */
};

template <typename T> struct points_call {
  const T *from, *weight, *bias, *add; /* bias, add: NULL where there is none; add may be the result */
  T *to;
  int64_t samples, places;
  unsigned packs; /* of W places, of a sample */
  int in, out;
};

/* K: channels of y, at least. */
template <typename T, int W, int K>
static __global__ void __launch_bounds__(POINTS_THREADS) points_kernel(const __grid_constant__ points_call<T> p) {
  unsigned own;
  int64_t sample = row_find((int64_t)blockIdx.x * POINTS_THREADS, threadIdx.x, p.packs, &own);
  if (sample >= p.samples) return;
  const T *from = p.from + sample * p.in * p.places + (int64_t)own * W;
  float sums[K][W] = {};
#pragma unroll 8
  for (int c = 0; c < p.in; c++) {
    float x[W];
    pack_read<W>(from + c * p.places, x);
#pragma unroll
    for (int k = 0; k < K; k++) {
      float weight = k < p.out ? to_float(p.weight[k * p.in + c]) : 0.0f;
#pragma unroll
      for (int e = 0; e < W; e++)
        sums[k][e] += weight * x[e];
    }
  }
#pragma unroll
  for (int k = 0; k < K; k++) {
    if (k >= p.out) break;
    int64_t at = (sample * p.out + k) * p.places + (int64_t)own * W;
    float bias = p.bias ? to_float(p.bias[k]) : 0.0f, add[W] = {};
    if (p.add) pack_read<W>(p.add + at, add);
#pragma unroll
    for (int e = 0; e < W; e++)
      sums[k][e] = sums[k][e] + bias + add[e];
    pack_write<W>(p.to + at, sums[k]);
  }
}

template <typename T, int W, int K>
static __global__ void __launch_bounds__(POINTS_THREADS) points_dx_kernel(const __grid_constant__ points_call<T> p) {
  unsigned own;
  int64_t sample = row_find((int64_t)blockIdx.x * POINTS_THREADS, threadIdx.x, p.packs, &own);
  if (sample >= p.samples) return;
  float dy[K][W] = {};
#pragma unroll
  for (int k = 0; k < K; k++)
    if (k < p.out) pack_read<W>(p.from + (sample * p.out + k) * p.places + (int64_t)own * W, dy[k]);
#pragma unroll 4
  for (int c = 0; c < p.in; c++) {
    int64_t at = (sample * p.in + c) * p.places + (int64_t)own * W;
    float sums[W] = {}, add[W] = {};
    if (p.add) pack_read<W>(p.add + at, add);
#pragma unroll
    for (int k = 0; k < K; k++) {
      float weight = k < p.out ? to_float(p.weight[k * p.in + c]) : 0.0f;
#pragma unroll
      for (int e = 0; e < W; e++)
        sums[e] += weight * dy[k][e];
    }
#pragma unroll
    for (int e = 0; e < W; e++)
      sums[e] += add[e];
    pack_write<W>(p.to + at, sums);
  }
}

template <typename T> struct points_dw_call {
  const T *dy, *x;
  float *sums; /* [parts, K, C] */
  int64_t samples, places, part, parts;
  int in, out;
};

/* A block goes through the places of a part, in POINTS_CHANNELS channels of x. */
template <typename T, int W, int K>
static __global__ void __launch_bounds__(POINTS_THREADS) points_dw_kernel(const __grid_constant__ points_dw_call<T> p) {
  __shared__ float joined[POINTS_THREADS / 32][K * POINTS_CHANNELS];
  int blocks = (p.in - 1) / POINTS_CHANNELS + 1, channel = (int)(blockIdx.x % blocks) * POINTS_CHANNELS;
  int64_t part = blockIdx.x / blocks, first = part * p.part + (int64_t)threadIdx.x * W;
  int64_t end = min((part + 1) * p.part, p.samples * p.places), sample = first / p.places, place = first % p.places;
  float sums[K][POINTS_CHANNELS] = {};
  for (int64_t at = first; at < end; at += POINTS_THREADS * W) {
    float dy[K][W] = {};
    pack<T, W> x[POINTS_CHANNELS];
#pragma unroll
    for (int c = 0; c < POINTS_CHANNELS; c++) /* behind the last channel: any, not written */
      x[c] = pack_load<W>(p.x + (sample * p.in + min(channel + c, p.in - 1)) * p.places + place);
#pragma unroll
    for (int k = 0; k < K; k++)
      if (k < p.out) pack_read<W>(p.dy + (sample * p.out + k) * p.places + place, dy[k]);
#pragma unroll
    for (int c = 0; c < POINTS_CHANNELS; c++)
#pragma unroll
      for (int e = 0; e < W; e++)
#pragma unroll
        for (int k = 0; k < K; k++)
          sums[k][c] += dy[k][e] * to_float(x[c].value[e]);
    place += POINTS_THREADS * W;
    if (place >= p.places) {
      sample += place / p.places;
      place %= p.places;
    }
  }
#pragma unroll
  for (int i = 0; i < K * POINTS_CHANNELS; i++) {
    float sum = sums[i / POINTS_CHANNELS][i % POINTS_CHANNELS];
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_down_sync(~0u, sum, distance);
    if (threadIdx.x % 32 == 0) joined[threadIdx.x / 32][i] = sum;
  }
  __syncthreads();
  int k = (int)threadIdx.x / POINTS_CHANNELS, c = channel + (int)threadIdx.x % POINTS_CHANNELS;
  if (k >= K || k >= p.out || c >= p.in) return;
  float sum = 0.0f;
  for (int warp = 0; warp < POINTS_THREADS / 32; warp++)
    sum += joined[warp][threadIdx.x];
  p.sums[(part * p.out + k) * p.in + c] = sum;
}

/* ---- launches ---- */

static inline bool points_wide(const hr_conv_sizes &s) {
  return hr__conv_volume(s.y) % WIDE == 0;
}

/* conv, or conv_dx. */
template <typename T> static hr_status points_run(const hr_call *call, const hr_conv_sizes &s, bool forward) {
  points_call<T> p = {};
  p.from = (const T *)call->in[0].data;
  p.weight = (const T *)call->in[1].data;
  p.bias = forward ? (const T *)call->in[2].data : nullptr;
  p.add = (const T *)call->in[forward ? 3 : 2].data;
  p.to = (T *)call->out[0].data;
  p.samples = s.samples;
  p.places = hr__conv_volume(s.y);
  p.in = (int)s.in;
  p.out = (int)s.out;
  bool packed = points_wide(s) && wide(p.from, p.add, p.to);
  p.packs = (unsigned)(p.places / (packed ? WIDE : 1));
  void (*kernel)(points_call<T>);
  if (forward)
    kernel = s.out == 1 ? packed ? points_kernel<T, WIDE, 1> : points_kernel<T, 1, 1>
             : packed ? points_kernel<T, WIDE, HR_CONV_POINTS_OUT>
                        : points_kernel<T, 1, HR_CONV_POINTS_OUT>;
  else
    kernel = s.out == 1 ? packed ? points_dx_kernel<T, WIDE, 1> : points_dx_kernel<T, 1, 1>
             : packed ? points_dx_kernel<T, WIDE, HR_CONV_POINTS_OUT>
                        : points_dx_kernel<T, 1, HR_CONV_POINTS_OUT>;
  launch(kernel, (unsigned)divide_up(p.samples * p.packs, POINTS_THREADS), POINTS_THREADS, 0, call_stream(call), p);
  return launched();
}

/* The sums of parts, [parts, dW]. */
template <typename T>
static hr_status points_dw_run(const hr_call *call, const hr_conv_sizes &s, const hr_conv_cuda_dw &d) {
  points_dw_call<T> p = {};
  p.dy = (const T *)call->in[0].data;
  p.x = (const T *)call->in[1].data;
  p.sums = (float *)call->workspace;
  p.samples = s.samples;
  p.places = hr__conv_volume(s.y);
  p.part = d.part;
  p.parts = d.parts;
  p.in = (int)s.in;
  p.out = (int)s.out;
  bool packed = points_wide(s) && wide(p.dy, p.x);
  void (*kernel)(points_dw_call<T>) = s.out == 1 ? packed ? points_dw_kernel<T, WIDE, 1> : points_dw_kernel<T, 1, 1>
                                      : packed ? points_dw_kernel<T, WIDE, HR_CONV_POINTS_OUT>
                                                 : points_dw_kernel<T, 1, HR_CONV_POINTS_OUT>;
  launch(kernel, (unsigned)(d.parts * divide_up(s.in, POINTS_CHANNELS)), POINTS_THREADS, 0, call_stream(call), p);
  return launched();
}

#define POINTS_FORMS(KERNEL, T)                                                                                        \
  (const void *)KERNEL<T, WIDE, 1>, (const void *)KERNEL<T, 1, 1>, (const void *)KERNEL<T, WIDE, HR_CONV_POINTS_OUT>,  \
      (const void *)KERNEL<T, 1, HR_CONV_POINTS_OUT>
#define POINTS_FUNCTIONS    POINTS_FORMS(points_kernel, bf16), POINTS_FORMS(points_kernel, f16)
#define POINTS_DX_FUNCTIONS POINTS_FORMS(points_dx_kernel, bf16), POINTS_FORMS(points_dx_kernel, f16)
#define POINTS_DW_FUNCTIONS POINTS_FORMS(points_dw_kernel, bf16), POINTS_FORMS(points_dw_kernel, f16)

#endif
