/* causal_conv on a GPU: a thread has one column, and goes along the positions of a strip with the last ones at hand.
 * See causal_conv.h. */
#include "op/window.cuh"

extern "C" {
#include "op/causal_conv.h"
}

enum { CONV_THREADS = 128, CONV_ROWS = 32, MOST = HR_CAUSAL_CONV_MOST };

template <typename T> struct conv_operands {
  hr_causal_sizes size;
  const T *x, *dy;
  const T *partial;
  const void *w, *bias;
  int w_dtype, bias_dtype;
  T *y; /* or dx */
  float *sums, *dw, *db;
};

__device__ inline float parameter_at(const void *from, int dtype, int64_t i) {
  return dtype == HR_BF16  ? to_float(((const bf16 *)from)[i])
         : dtype == HR_F16 ? to_float(((const f16 *)from)[i])
                           : ((const float *)from)[i];
}

/* A column's kernel. K 0: its length is known at run time only. */
template <int K> struct column_kernel {
  static constexpr int ROOM = K > 0 ? K : MOST;
  float weight[ROOM], bias;
  int length;
  template <typename T> __device__ void load(const conv_operands<T> &o, int64_t c) {
    length = K > 0 ? K : (int)o.size.kernel;
    bias = o.bias ? parameter_at(o.bias, o.bias_dtype, c) : 0.0f;
#pragma unroll
    for (int j = 0; j < ROOM; j++)
      weight[j] = j < length ? parameter_at(o.w, o.w_dtype, c * length + j) : 0.0f;
  }
};

/* Puts a value behind the others, the first of which falls out. */
template <int N> __device__ inline void shift_in(float (&line)[N], int length, float value) {
#pragma unroll
  for (int j = 0; j + 1 < N; j++)
    line[j] = j + 1 < length ? line[j + 1] : value;
  if (length == N) line[N - 1] = value;
}

template <int N>
__device__ inline float before_silu(const float (&weight)[N], const float (&line)[N], int length, float bias) {
  float sum = bias;
#pragma unroll
  for (int j = 0; j < N; j++)
    if (j < length) sum = fmaf(weight[j], line[j], sum);
  return sum;
}

template <typename T, int K>
static __global__ void __launch_bounds__(CONV_THREADS) causal_conv_kernel(conv_operands<T> o) {
  int64_t c = blockIdx.y * (int64_t)CONV_THREADS + threadIdx.x, strips = (o.size.length + CONV_ROWS - 1) / CONV_ROWS;
  int64_t sequence = blockIdx.x / strips, first = blockIdx.x % strips * CONV_ROWS;
  int64_t end = min(o.size.length, first + CONV_ROWS);
  if (c >= o.size.channels) return;
  column_kernel<K> w;
  w.load(o, c);
  float line[column_kernel<K>::ROOM] = {};
  const T *x = o.x + sequence * o.size.length * o.size.columns + o.size.first + c;
  for (int64_t t = first - (w.length - 1); t < end; t++) {
    shift_in(line, w.length, t >= 0 ? to_float(x[t * o.size.columns]) : 0.0f);
    if (t < first) continue;
    float u = before_silu(w.weight, line, w.length, w.bias);
    o.y[(sequence * o.size.length + t) * o.size.channels + c] = from_float<T>(u / (1.0f + expf(-u)));
  }
}

template <typename T, int K>
static __global__ void __launch_bounds__(CONV_THREADS) causal_conv_bwd_kernel(conv_operands<T> o) {
  int64_t c = blockIdx.y * (int64_t)CONV_THREADS + threadIdx.x;
  int64_t strips = (o.size.length + HR_CAUSAL_STRIP - 1) / HR_CAUSAL_STRIP;
  int64_t sequence = blockIdx.x / strips, first = blockIdx.x % strips * HR_CAUSAL_STRIP;
  int64_t end = min(o.size.length, first + HR_CAUSAL_STRIP);
  if (c >= o.size.channels) return;
  constexpr int ROOM = column_kernel<K>::ROOM;
  column_kernel<K> w;
  w.load(o, c);
  float line[ROOM] = {}, du[ROOM] = {}, dw[ROOM] = {}, db = 0.0f;
  const T *x = o.x + sequence * o.size.length * o.size.columns + o.size.first + c;
  for (int64_t t = first - (w.length - 1); t < end + w.length - 1; t++) {
    shift_in(line, w.length, t >= 0 && t < o.size.length ? to_float(x[t * o.size.columns]) : 0.0f);
    if (t < first) continue;
    float slope = 0.0f;
    if (t < o.size.length) {
      float u = before_silu(w.weight, line, w.length, w.bias), sigmoid = 1.0f / (1.0f + expf(-u));
      slope = to_float(o.dy[(sequence * o.size.length + t) * o.size.channels + c]) * sigmoid *
              (1.0f + u * (1.0f - sigmoid));
    }
    shift_in(du, w.length, slope);
    if (t < end) {
      db += slope;
#pragma unroll
      for (int j = 0; j < ROOM; j++)
        if (j < w.length) dw[j] = fmaf(slope, line[j], dw[j]);
    }
    int64_t done = t - (w.length - 1); /* du has rows done to t */
    if (done < first || done >= end) continue;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < ROOM; j++)
      if (j < w.length) sum = fmaf(w.weight[w.length - 1 - j < 0 ? 0 : w.length - 1 - j], du[j], sum);
    int64_t at = (sequence * o.size.length + done) * o.size.columns + o.size.first + c;
    o.y[at] = from_float<T>(sum + (o.partial ? to_float(o.partial[at]) : 0.0f));
  }
  float *sums = o.sums + (blockIdx.x * o.size.channels + c) * (w.length + 1);
#pragma unroll
  for (int j = 0; j < ROOM; j++)
    if (j < w.length) sums[j] = dw[j];
  sums[w.length] = db;
}

/* Sums of strips, in order. A thread: one number. */
static __global__ void __launch_bounds__(CONV_THREADS)
    causal_conv_sums_kernel(hr_causal_sizes size, const float *sums, int64_t strips, float *dw, float *db) {
  int64_t i = blockIdx.x * (int64_t)CONV_THREADS + threadIdx.x, each = size.kernel + 1;
  if (i >= size.channels * each) return;
  float sum = 0.0f;
  for (int64_t s = 0; s < strips; s++)
    sum += sums[s * size.channels * each + i];
  int64_t c = i / each, j = i % each;
  *(j < size.kernel ? dw + c * size.kernel + j : db + c) = sum;
}

template <typename T> static conv_operands<T> operands_of(const hr_call *call, int x) {
  conv_operands<T> o = {};
  o.size =
      hr__causal_sizes(&call->in[x].desc, &call->in[x + HR_CAUSAL_W].desc, (const hr_causal_conv_args *)call->args);
  o.x = (const T *)call->in[x].data;
  o.w = call->in[x + HR_CAUSAL_W].data;
  o.bias = call->in[x + HR_CAUSAL_BIAS].data;
  o.w_dtype = (int)call->in[x + HR_CAUSAL_W].desc.dtype;
  o.bias_dtype = (int)call->in[x + HR_CAUSAL_BIAS].desc.dtype;
  o.y = (T *)call->out[0].data;
  return o;
}

static hr_status causal_conv_run(const hr_call *call) {
  return by_dtype(call->in[HR_CAUSAL_X].desc.dtype, [&](auto t) {
    using T = decltype(t);
    conv_operands<T> o = operands_of<T>(call, HR_CAUSAL_X);
    dim3 grid((unsigned)(o.size.sequences * divide_up(o.size.length, CONV_ROWS)),
              (unsigned)divide_up(o.size.channels, CONV_THREADS));
    launch(o.size.kernel == 4 ? causal_conv_kernel<T, 4> : causal_conv_kernel<T, 0>, grid, CONV_THREADS, 0,
           call_stream(call), o);
    return launched();
  });
}

static hr_status causal_conv_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_CAUSAL_BWD_X].desc.dtype, [&](auto t) {
    using T = decltype(t);
    conv_operands<T> o = operands_of<T>(call, HR_CAUSAL_BWD_X);
    int64_t strips = o.size.sequences * hr__causal_strips(&o.size);
    o.dy = (const T *)call->in[HR_CAUSAL_DY].data;
    o.partial = (const T *)call->in[HR_CAUSAL_BWD_PARTIAL].data;
    o.sums = (float *)call->workspace;
    window_fill(call, o.y, o.partial, o.size.sequences * o.size.length * o.size.columns);
    dim3 grid((unsigned)strips, (unsigned)divide_up(o.size.channels, CONV_THREADS));
    launch(o.size.kernel == 4 ? causal_conv_bwd_kernel<T, 4> : causal_conv_bwd_kernel<T, 0>, grid, CONV_THREADS, 0,
           call_stream(call), o);
    launch(causal_conv_sums_kernel, (unsigned)divide_up(o.size.channels * (o.size.kernel + 1), CONV_THREADS),
           CONV_THREADS, 0, call_stream(call), o.size, (const float *)o.sums, strips, (float *)call->out[1].data,
           (float *)call->out[2].data);
    return launched();
  });
}

#define OF_TYPES(F, K) (const void *)F<float, K>, (const void *)F<bf16, K>, (const void *)F<f16, K>

extern "C" const hr_cuda_launcher hr_cuda_causal_conv = {
    {nullptr, nullptr, causal_conv_run}, {OF_TYPES(causal_conv_kernel, 4), OF_TYPES(causal_conv_kernel, 0)}};

extern "C" const hr_cuda_launcher hr_cuda_causal_conv_bwd = {
    {nullptr, nullptr, causal_conv_bwd_run},
    {OF_TYPES(causal_conv_bwd_kernel, 4), OF_TYPES(causal_conv_bwd_kernel, 0), (const void *)causal_conv_sums_kernel,
     WINDOW_FILL_FUNCTIONS}};
