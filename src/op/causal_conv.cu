/* causal_conv on a GPU: a thread has one column, or two neighbours, and goes along the positions of a strip with the
 * last ones at hand and the next ones on their way. See causal_conv.h. */
#include "op/window.cuh"

extern "C" {
#include "op/causal_conv.h"
}

enum { CONV_THREADS = 128, CONV_ROWS = 32, AHEAD = 8, MOST = HR_CAUSAL_CONV_MOST };
enum { SUMS_WIDE = 32, SUMS_DEEP = 32 };

/* Of more than 128 bytes nvcc 13 makes kernels with 72 registers in place of 58. */
template <typename T> struct conv_operands {
  hr_causal_sizes size;
  const T *x, *dy;
  const T *partial;
  const void *w, *bias;
  int w_dtype, bias_dtype;
  const int *starts; /* [sequences, L]: where documents begin; NULL: a sequence is one */
  T *y;              /* or dx */
  float *sums;
};
static_assert(sizeof(conv_operands<float>) <= 128, "see above");

/* Kernels of EACH columns side by side. K 0: their length is known at run time only. */
template <int K, int EACH> struct column_kernels {
  static constexpr int ROOM = K > 0 ? K : MOST;
  float weight[EACH][ROOM], bias[EACH];
  int length;
  template <typename T> __device__ void load(const conv_operands<T> &o, int64_t c) {
    length = K > 0 ? K : (int)o.size.kernel;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      bias[i] = o.bias ? element_at(o.bias, o.bias_dtype, c + i) : 0.0f;
#pragma unroll
      for (int j = 0; j < ROOM; j++)
        weight[i][j] = j < length ? element_at(o.w, o.w_dtype, (c + i) * length + j) : 0.0f;
    }
  }
};

/* Puts a value behind the others, the first of which falls out. */
template <int N> __device__ inline void shift_in(float (&line)[N], int length, float value) {
#pragma unroll
  for (int j = 0; j + 1 < N; j++)
    line[j] = j + 1 < length ? line[j + 1] : value;
  if (length == N) line[N - 1] = value;
}

/* Nothing is at hand any more. */
template <int N, int EACH> __device__ inline void forget(float (&line)[EACH][N]) {
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < N; j++)
      line[i][j] = 0.0f;
}

template <int N>
__device__ inline float before_silu(const float (&weight)[N], const float (&line)[N], int length, float bias) {
  float sum = bias;
#pragma unroll
  for (int j = 0; j < N; j++)
    if (j < length) sum = fmaf(weight[j], line[j], sum);
  return sum;
}

/* 1 / (1 + exp(-u)) within a few units of the last place. */
__device__ inline float sigmoid_of(float u) {
  return __fdividef(1.0f, 1.0f + __expf(-u));
}

/* Rows [t, t + AHEAD) of EACH columns, read ahead of their use: zeros for those that are not in [first, end). */
template <int EACH, typename T> struct rows_ahead {
  pack<T, EACH> row[AHEAD];
  __device__ void load(const T *from, int64_t stride, int64_t t, int64_t first, int64_t end) {
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      row[i] = {};
      if (t + i >= first && t + i < end) row[i] = pack_load<EACH>(from + (t + i) * stride);
    }
  }
};

/* DOCUMENTS: at the first position of one, what lies before is forgotten. */
template <typename T, int K, int EACH, bool DOCUMENTS>
static __global__ void __launch_bounds__(CONV_THREADS) causal_conv_kernel(conv_operands<T> o) {
  int64_t c = (blockIdx.y * (int64_t)CONV_THREADS + threadIdx.x) * EACH;
  int64_t strips = (o.size.length + CONV_ROWS - 1) / CONV_ROWS;
  int64_t sequence = blockIdx.x / strips, first = blockIdx.x % strips * CONV_ROWS;
  int64_t end = min(o.size.length, first + CONV_ROWS);
  if (c >= o.size.channels) return;
  column_kernels<K, EACH> w;
  w.load(o, c);
  float line[EACH][column_kernels<K, EACH>::ROOM] = {};
  const T *x = o.x + sequence * o.size.length * o.size.columns + o.size.first + c;
  T *y = o.y + sequence * o.size.length * o.size.channels + c;
  const int *starts = DOCUMENTS ? o.starts + sequence * o.size.length : nullptr;
  for (int64_t t = max((int64_t)0, first - (w.length - 1)); t < first; t++) {
    pack<T, EACH> row = pack_load<EACH>(x + t * o.size.columns);
    if (DOCUMENTS && starts[t] == t) forget(line);
#pragma unroll
    for (int i = 0; i < EACH; i++)
      shift_in(line[i], w.length, to_float(row.value[i]));
  }
  rows_ahead<EACH, T> rows;
  for (int64_t t = first; t < end; t += AHEAD) {
    rows.load(x, o.size.columns, t, first, end);
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (t + k >= end) break;
      if (DOCUMENTS && starts[t + k] == t + k) forget(line);
      pack<T, EACH> out;
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        shift_in(line[i], w.length, to_float(rows.row[k].value[i]));
        float u = before_silu(w.weight[i], line[i], w.length, w.bias[i]);
        out.value[i] = from_float<T>(u * sigmoid_of(u));
      }
      *(pack<T, EACH> *)(y + (t + k) * o.size.channels) = out;
    }
  }
}

template <typename T, int K, int EACH, bool DOCUMENTS>
static __global__ void __launch_bounds__(CONV_THREADS) causal_conv_bwd_kernel(conv_operands<T> o) {
  int64_t c = (blockIdx.y * (int64_t)CONV_THREADS + threadIdx.x) * EACH;
  int64_t strips = (o.size.length + HR_CAUSAL_STRIP - 1) / HR_CAUSAL_STRIP;
  int64_t sequence = blockIdx.x / strips, first = blockIdx.x % strips * HR_CAUSAL_STRIP;
  int64_t end = min(o.size.length, first + HR_CAUSAL_STRIP);
  if (c >= o.size.channels) return;
  constexpr int ROOM = column_kernels<K, EACH>::ROOM;
  column_kernels<K, EACH> w;
  w.load(o, c);
  float line[EACH][ROOM] = {}, du[EACH][ROOM] = {}, dw[EACH][ROOM] = {}, db[EACH] = {};
  int64_t origin = sequence * o.size.length, behind = end + w.length - 1;
  const T *x = o.x + origin * o.size.columns + o.size.first + c, *dy = o.dy + origin * o.size.channels + c;
  const int *starts = DOCUMENTS ? o.starts + origin : nullptr;
  uint32_t borders = 0; /* bit i: a document began i positions ago */
  for (int64_t t = max((int64_t)0, first - (w.length - 1)); t < first; t++) {
    pack<T, EACH> row = pack_load<EACH>(x + t * o.size.columns);
    if (DOCUMENTS && starts[t] == t) forget(line);
#pragma unroll
    for (int i = 0; i < EACH; i++)
      shift_in(line[i], w.length, to_float(row.value[i]));
  }
  int64_t column = origin * o.size.columns + o.size.first + c;
  /* The sum so far is often the result itself: what is read behind a store of it waits for that store. */
  rows_ahead<EACH, T> rows, slopes, before = {};
  for (int64_t from = first; from < behind; from += AHEAD) {
    rows.load(x, o.size.columns, from, first, o.size.length);
    slopes.load(dy, o.size.channels, from, first, o.size.length);
    if (o.partial) before.load(o.partial + column, o.size.columns, from - (w.length - 1), first, end);
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      int64_t t = from + k, done = t - (w.length - 1); /* du has rows done to t */
      if (t >= behind) break;
      if (DOCUMENTS) {
        bool border = t < o.size.length && starts[t] == t;
        if (border) forget(line);
        borders = borders << 1 | border;
      }
      float sum[EACH] = {};
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        shift_in(line[i], w.length, to_float(rows.row[k].value[i]));
        float u = before_silu(w.weight[i], line[i], w.length, w.bias[i]), sigmoid = sigmoid_of(u);
        float slope = to_float(slopes.row[k].value[i]) * sigmoid * (1.0f + u * (1.0f - sigmoid));
        shift_in(du[i], w.length, slope);
        if (t < end) {
          db[i] += slope;
#pragma unroll
          for (int j = 0; j < ROOM; j++)
            if (j < w.length) dw[i][j] = fmaf(slope, line[i][j], dw[i][j]);
        }
        bool own = true; /* row done + j is of the document of row `done` */
#pragma unroll
        for (int j = 0; j < ROOM; j++) {
          if (DOCUMENTS && j > 0 && j < w.length) own &= !(borders >> (w.length - 1 - j) & 1);
          if (j < w.length && own)
            sum[i] = fmaf(w.weight[i][w.length - 1 - j < 0 ? 0 : w.length - 1 - j], du[i][j], sum[i]);
        }
      }
      if (done < first || done >= end) continue;
      pack<T, EACH> out;
#pragma unroll
      for (int i = 0; i < EACH; i++)
        out.value[i] = from_float<T>(sum[i] + to_float(before.row[k].value[i]));
      *(pack<T, EACH> *)(o.y + column + done * o.size.columns) = out;
    }
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    float *sums = o.sums + (blockIdx.x * o.size.channels + c + i) * (w.length + 1);
#pragma unroll
    for (int j = 0; j < ROOM; j++)
      if (j < w.length) sums[j] = dw[i][j];
    sums[w.length] = db[i];
  }
}

/* Sums of strips. A block has SUMS_WIDE numbers; each of its rows of threads adds up every SUMS_DEEP-th strip, then
 * these are added in order. */
static __global__ void __launch_bounds__(SUMS_WIDE *SUMS_DEEP)
    causal_conv_sums_kernel(hr_causal_sizes size, const float *sums, int64_t strips, float *dw, float *db) {
  __shared__ float parts[SUMS_DEEP][SUMS_WIDE];
  int column = (int)threadIdx.x, deep = (int)threadIdx.y;
  int64_t i = blockIdx.x * (int64_t)SUMS_WIDE + column, each = size.kernel + 1;
  float sum = 0.0f;
  if (i < size.channels * each)
#pragma unroll 8
    for (int64_t s = deep; s < strips; s += SUMS_DEEP)
      sum += sums[s * size.channels * each + i];
  parts[deep][column] = sum;
  __syncthreads();
  if (deep > 0 || i >= size.channels * each) return;
  for (int d = 1; d < SUMS_DEEP; d++)
    sum += parts[d][column];
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
  o.starts = (const int *)call->in[x + HR_CAUSAL_STARTS].data;
  o.y = (T *)call->out[0].data;
  return o;
}

/* Whether neighbours can go together, in kernels of usual length. */
template <typename T> static bool by_pairs(const conv_operands<T> &o) {
  bool even = o.size.channels % 2 == 0 && o.size.columns % 2 == 0 && o.size.first % 2 == 0;
  size_t bytes = 2 * sizeof(T);
  return o.size.kernel == 4 && even && aligned(o.x, bytes) && aligned(o.y, bytes) && aligned(o.dy, bytes) &&
         aligned(o.partial, bytes);
}

template <typename T> struct conv_kernels {
  void (*pairs)(conv_operands<T>), (*four)(conv_operands<T>), (*any)(conv_operands<T>);
};
template <typename T, bool DOCUMENTS>
constexpr conv_kernels<T> forward_kernels = {causal_conv_kernel<T, 4, 2, DOCUMENTS>,
                                             causal_conv_kernel<T, 4, 1, DOCUMENTS>,
                                             causal_conv_kernel<T, 0, 1, DOCUMENTS>};
template <typename T, bool DOCUMENTS>
constexpr conv_kernels<T> backward_kernels = {causal_conv_bwd_kernel<T, 4, 2, DOCUMENTS>,
                                              causal_conv_bwd_kernel<T, 4, 1, DOCUMENTS>,
                                              causal_conv_bwd_kernel<T, 0, 1, DOCUMENTS>};

template <typename T>
static void columns_run(const hr_call *call, const conv_operands<T> &o, int64_t strips, const conv_kernels<T> &of) {
  bool two = by_pairs(o);
  dim3 grid((unsigned)strips, (unsigned)divide_up(o.size.channels, two ? 2 * CONV_THREADS : CONV_THREADS));
  launch(two ? of.pairs : o.size.kernel == 4 ? of.four : of.any, grid, CONV_THREADS, 0, call_stream(call), o);
}

static hr_status causal_conv_run(const hr_call *call) {
  return by_dtype(call->in[HR_CAUSAL_X].desc.dtype, [&](auto t) {
    using T = decltype(t);
    conv_operands<T> o = operands_of<T>(call, HR_CAUSAL_X);
    columns_run<T>(call, o, o.size.sequences * divide_up(o.size.length, CONV_ROWS),
                   o.starts ? forward_kernels<T, true> : forward_kernels<T, false>);
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
    columns_run<T>(call, o, strips, o.starts ? backward_kernels<T, true> : backward_kernels<T, false>);
    launch(causal_conv_sums_kernel, (unsigned)divide_up(o.size.channels * (o.size.kernel + 1), SUMS_WIDE),
           dim3(SUMS_WIDE, SUMS_DEEP), 0, call_stream(call), o.size, (const float *)o.sums, strips,
           (float *)call->out[1].data, (float *)call->out[2].data);
    return launched();
  });
}

#define OF_TYPES(F, K, EACH, DOCUMENTS)                                                                                \
  (const void *)F<float, K, EACH, DOCUMENTS>, (const void *)F<bf16, K, EACH, DOCUMENTS>,                               \
      (const void *)F<f16, K, EACH, DOCUMENTS>
#define OF_SHAPES(F)                                                                                                   \
  OF_TYPES(F, 4, 2, false), OF_TYPES(F, 4, 1, false), OF_TYPES(F, 0, 1, false), OF_TYPES(F, 4, 2, true),               \
      OF_TYPES(F, 4, 1, true), OF_TYPES(F, 0, 1, true)

extern "C" const hr_cuda_launcher hr_cuda_causal_conv = {{nullptr, nullptr, causal_conv_run},
                                                         {OF_SHAPES(causal_conv_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_causal_conv_bwd = {
    {nullptr, nullptr, causal_conv_bwd_run},
    {OF_SHAPES(causal_conv_bwd_kernel), (const void *)causal_conv_sums_kernel, WINDOW_FILL_FUNCTIONS}};
