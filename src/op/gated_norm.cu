/* gated_norm on CUDA: threads of a block have a group of a row in registers, WIDE columns each; groups that do not fit
 * are walked over, and read again for each look. See gated_norm.h. */
#include "op/norm.cuh"
#include "op/window.cuh"
extern "C" {
#include "op/gated_norm.h"
}

template <typename T, typename W> struct gated_call {
  hr_gated_sizes size;
  const T *dout, *y, *x, *partial; /* partial: NULL where there is none */
  const W *w;
  T *out, *dx; /* out: or dy */
  float *rstd, *sums;
  float eps;
  int64_t strip; /* rows of a block, backward */
};

__device__ inline float sigmoid_of(float z) {
  return __fdividef(1.0f, 1.0f + __expf(-z));
}

/* What a thread has of a group: WIDE columns, or, where EACH is 1, every blockDim-th one. */
template <int EACH> struct columns_of_group {
  int64_t column, end, step;
  __device__ columns_of_group(int64_t each)
      : column((int64_t)threadIdx.x * EACH), end(each), step((int64_t)blockDim.x * EACH) {}
};

template <typename T, typename W, int EACH>
static __global__ void __launch_bounds__(ROW_THREADS) gated_norm_kernel(gated_call<T, W> c) {
  __shared__ float warps[ROW_THREADS / WARP];
  const hr_gated_sizes &s = c.size;
  int64_t row = blockIdx.x, group = blockIdx.y, each = s.each;
  const T *y = c.y + row * s.width + group * each, *z = c.x + row * s.columns + s.first + group * each;
  float held[EACH] = {}, squares = 0.0f;
  columns_of_group<EACH> own(each);
  for (int64_t i = own.column; i < own.end; i += own.step) {
    float from[EACH], gate[EACH];
    pack_read<EACH>(y + i, from);
    pack_read<EACH>(z + i, gate);
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      held[e] = from[e] * (gate[e] * sigmoid_of(gate[e]));
      squares += held[e] * held[e];
    }
  }
  float rstd = 1.0f / sqrtf(row_sum(squares, warps) / (float)each + c.eps);
  if (threadIdx.x == 0) c.rstd[row * s.groups + group] = rstd;
  for (int64_t i = own.column; i < own.end; i += own.step) {
    float w[EACH];
    pack_read<EACH>(c.w + group * each + i, w);
    if (EACH == 1) held[0] = to_float(y[i]) * (to_float(z[i]) * sigmoid_of(to_float(z[i])));
#pragma unroll
    for (int e = 0; e < EACH; e++)
      held[e] = normal<T>(held[e], rstd, w[e], false);
    pack_write<EACH>(c.out + row * s.width + group * each + i, held);
  }
}

/* EACH columns of a row as backward reads them. */
template <typename T, int EACH> struct gated_row {
  pack<T, EACH> dout, y, z, before;
  template <typename W> __device__ void load(const gated_call<T, W> &c, int64_t y_at, int64_t x_at) {
    dout = pack_load<EACH>(c.dout + y_at);
    y = pack_load<EACH>(c.y + y_at);
    z = pack_load<EACH>(c.x + x_at);
    before = {};
    if (c.partial) before = pack_load<EACH>(c.partial + x_at);
  }
};

/* Their gradients as far as they go without the sum over the group, which is of w dout a. */
template <int EACH> struct gated_slopes {
  float y[EACH], silu[EACH], slope[EACH], pulled[EACH]; /* pulled: w dout */
  template <typename T>
  __device__ float make(const gated_row<T, EACH> &row, const float (&w)[EACH], float rstd, float (&dw)[EACH]) {
    float dot = 0.0f;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float z = to_float(row.z.value[e]), dout = to_float(row.dout.value[e]), sigmoid = sigmoid_of(z);
      y[e] = to_float(row.y.value[e]);
      silu[e] = z * sigmoid;
      slope[e] = sigmoid + silu[e] * (1.0f - sigmoid);
      pulled[e] = w[e] * dout;
      float a = y[e] * silu[e];
      dot += pulled[e] * a;
      dw[e] += dout * (a * rstd);
    }
    return dot;
  }
  template <typename T, typename W>
  __device__ void store(const gated_call<T, W> &c, const pack<T, EACH> &before, int64_t y_at, int64_t x_at, float rstd,
                        float pull) {
    float dy[EACH], dx[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float da = rstd * pulled[e] - pull * (y[e] * silu[e]);
      dy[e] = da * silu[e];
      dx[e] = to_float(before.value[e]) + da * y[e] * slope[e];
    }
    pack_write<EACH>(c.out + y_at, dy);
    pack_write<EACH>(c.dx + x_at, dx);
  }
};

/* Columns of x that are not z have no gradient yet. */
template <typename T, typename W, int EACH>
__device__ inline void others_clear(const gated_call<T, W> &c, int64_t row) {
  const float none[EACH] = {};
  for (int64_t i = (int64_t)threadIdx.x * EACH; i < c.size.columns; i += (int64_t)blockDim.x * EACH)
    if (i < c.size.first || i >= c.size.first + c.size.width) pack_write<EACH>(c.dx + row * c.size.columns + i, none);
}

__device__ inline float pull_of(float dot, float rstd, int64_t each) {
  return dot * rstd * rstd * rstd / (float)each;
}

/* dout may be dy, and the sum so far dx: a thread writes only what it has read. A row is read while the one before it
 * is computed, and before that is stored. */
template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) gated_norm_bwd_kernel(gated_call<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  const hr_gated_sizes &s = c.size;
  int64_t group = blockIdx.y, first = blockIdx.x * c.strip, end = min(s.rows, first + c.strip);
  int64_t own = (int64_t)threadIdx.x * WIDE, column = group * s.each + own;
  bool inside = own < s.each;
  float w[WIDE] = {}, dw[WIDE] = {};
  gated_row<T, WIDE> next = {};
  if (inside) {
    pack_read<WIDE>(c.w + column, w);
    next.load(c, first * s.width + column, first * s.columns + s.first + column);
  }
  for (int64_t row = first; row < end; row++) {
    int64_t y_at = row * s.width + column, x_at = row * s.columns + s.first + column;
    gated_row<T, WIDE> here = next;
    if (inside && row + 1 < end) next.load(c, y_at + s.width, x_at + s.columns);
    if (!c.partial && group == 0) others_clear<T, W, WIDE>(c, row);
    float rstd = c.rstd[row * s.groups + group];
    gated_slopes<WIDE> slopes;
    float dot = slopes.make(here, w, rstd, dw), pull = pull_of(row_sum(dot, warps[row % 2]), rstd, s.each);
    if (inside) slopes.store(c, here.before, y_at, x_at, rstd, pull);
  }
  if (inside) pack_write<WIDE>(c.sums + blockIdx.x * s.width + column, dw);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) gated_norm_bwd_any_kernel(gated_call<T, W> c) {
  __shared__ float warps[2][ANY_THREADS / WARP];
  const hr_gated_sizes &s = c.size;
  int64_t group = blockIdx.y, first = blockIdx.x * c.strip, end = min(s.rows, first + c.strip);
  float *sums = c.sums + blockIdx.x * s.width + group * s.each; /* each column belongs to one thread */
  const W *w = c.w + group * s.each;
  for (int64_t row = first; row < end; row++) {
    int64_t y_at = row * s.width + group * s.each, x_at = row * s.columns + s.first + group * s.each;
    float rstd = c.rstd[row * s.groups + group], dot = 0.0f;
    gated_row<T, 1> here;
    gated_slopes<1> slopes;
    if (!c.partial && group == 0) others_clear<T, W, 1>(c, row);
    for (int64_t i = threadIdx.x; i < s.each; i += ANY_THREADS) {
      float dw[] = {row == first ? 0.0f : sums[i]};
      here.load(c, y_at + i, x_at + i);
      dot += slopes.make(here, {to_float(w[i])}, rstd, dw);
      sums[i] = dw[0];
    }
    float pull = pull_of(row_sum(dot, warps[row % 2]), rstd, s.each);
    for (int64_t i = threadIdx.x; i < s.each; i += ANY_THREADS) {
      float unused[] = {0.0f};
      here.load(c, y_at + i, x_at + i);
      slopes.make(here, {to_float(w[i])}, rstd, unused);
      slopes.store(c, here.before, y_at + i, x_at + i, rstd, pull);
    }
  }
}

template <typename T, typename W> static gated_call<T, W> call_of(const hr_call *call, int y) {
  const hr_gated_norm_args *args = (const hr_gated_norm_args *)call->args;
  gated_call<T, W> c = {};
  c.size = hr__gated_sizes(&call->in[y].desc, &call->in[y + HR_GATED_X].desc, args);
  c.y = (const T *)call->in[y].data;
  c.x = (const T *)call->in[y + HR_GATED_X].data;
  c.w = (const W *)call->in[y + HR_GATED_W].data;
  c.out = (T *)call->out[0].data;
  c.eps = args->eps;
  return c;
}

/* Whether groups lie in packs, and a block holds one. */
template <typename T, typename W> static bool packs(const gated_call<T, W> &c) {
  const hr_gated_sizes &s = c.size;
  return row_fits(s.each) && s.columns % WIDE == 0 && s.first % WIDE == 0 &&
         wide(c.dout, c.y, c.x, c.partial, c.w, c.out, c.dx, c.sums);
}

template <typename F> static hr_status by_types(const hr_call *call, int y, F f) {
  return by_dtype(call->in[y].desc.dtype, [&](auto t) {
    return by_dtype(call->in[y + HR_GATED_W].desc.dtype,
                    [&](auto u) { return f(call_of<decltype(t), decltype(u)>(call, y)); });
  });
}

static hr_status gated_norm_run(const hr_call *call) {
  return by_types(call, HR_GATED_Y, [&](auto c) {
    using T = std::remove_pointer_t<decltype(c.out)>;
    using W = std::remove_cv_t<std::remove_pointer_t<decltype(c.w)>>;
    c.rstd = (float *)call->out[1].data;
    dim3 grid((unsigned)c.size.rows, (unsigned)c.size.groups);
    if (packs(c))
      launch(gated_norm_kernel<T, W, WIDE>, grid, row_threads(c.size.each), 0, call_stream(call), c);
    else
      launch(gated_norm_kernel<T, W, 1>, grid, ANY_THREADS, 0, call_stream(call), c);
    return launched();
  });
}

static hr_status gated_norm_bwd_run(const hr_call *call) {
  return by_types(call, HR_GATED_BWD_Y, [&](auto c) {
    using T = std::remove_pointer_t<decltype(c.out)>;
    using W = std::remove_cv_t<std::remove_pointer_t<decltype(c.w)>>;
    c.dout = (const T *)call->in[HR_GATED_DOUT].data;
    c.rstd = (float *)call->in[HR_GATED_RSTD].data;
    c.partial = (const T *)call->in[HR_GATED_PARTIAL].data;
    c.dx = (T *)call->out[1].data;
    c.sums = (float *)call->workspace;
    c.strip = hr__gated_strip(c.size.rows, HR_CUDA);
    int64_t strips = divide_up(c.size.rows, c.strip);
    if (c.partial) window_fill(call, c.dx, c.partial, c.size.rows * c.size.columns);
    dim3 grid((unsigned)strips, (unsigned)c.size.groups);
    if (packs(c))
      launch(gated_norm_bwd_kernel<T, W>, grid, row_threads(c.size.each), 0, call_stream(call), c);
    else
      launch(gated_norm_bwd_any_kernel<T, W>, grid, ANY_THREADS, 0, call_stream(call), c);
    norm_sums<float, 1> sums = {c.sums, strips, c.size.width, {}, {(float *)call->out[2].data}};
    launch(norm_sums_kernel<float, 1>, (unsigned)divide_up(c.size.width, WARP), dim3(WARP, WARP), 0, call_stream(call),
           sums);
    return launched();
  });
}

#define GATED_OF(F, EACH)                                                                                              \
  (const void *)F<float, float, EACH>, (const void *)F<float, bf16, EACH>, (const void *)F<float, f16, EACH>,          \
      (const void *)F<bf16, float, EACH>, (const void *)F<bf16, bf16, EACH>, (const void *)F<bf16, f16, EACH>,         \
      (const void *)F<f16, float, EACH>, (const void *)F<f16, bf16, EACH>, (const void *)F<f16, f16, EACH>

extern "C" const hr_cuda_launcher hr_cuda_gated_norm = {
    {nullptr, nullptr, gated_norm_run}, {GATED_OF(gated_norm_kernel, WIDE), GATED_OF(gated_norm_kernel, 1)}};

extern "C" const hr_cuda_launcher hr_cuda_gated_norm_bwd = {
    {nullptr, nullptr, gated_norm_bwd_run},
    {NORM_PAIRS(gated_norm_bwd_kernel), NORM_PAIRS(gated_norm_bwd_any_kernel), (const void *)norm_sums_kernel<float, 1>,
     WINDOW_FILL_FUNCTIONS}};
