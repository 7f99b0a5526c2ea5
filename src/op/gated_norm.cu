/* gated_norm on CUDA: threads of a block have a group of a row in registers, WIDE columns each; groups that do not fit
 * are walked over, and read again for each look. See gated_norm.h. */
#include "op/norm.cuh"
#include "op/window.cuh"
extern "C" {
#include "op/gated_norm.h"
}

enum { SUMS_WIDE = 32, SUMS_DEEP = 8 };

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

/* Gradients of EACH columns as far as they go without the sum over the group. */
template <int EACH> struct gated_slopes {
  float y[EACH], silu[EACH], slope[EACH], pulled[EACH], before[EACH]; /* pulled: w dout */
  float dot;
  template <typename T, typename W>
  __device__ void load(const gated_call<T, W> &c, int64_t y_at, int64_t x_at, int64_t w_at, float rstd, float *dw) {
    float dout[EACH], z[EACH], w[EACH];
    pack_read<EACH>(c.dout + y_at, dout);
    pack_read<EACH>(c.y + y_at, y);
    pack_read<EACH>(c.x + x_at, z);
    pack_read<EACH>(c.w + w_at, w);
#pragma unroll
    for (int e = 0; e < EACH; e++)
      before[e] = 0.0f;
    if (c.partial) pack_read<EACH>(c.partial + x_at, before);
    dot = 0.0f;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float sigmoid = sigmoid_of(z[e]);
      silu[e] = z[e] * sigmoid;
      slope[e] = sigmoid + silu[e] * (1.0f - sigmoid);
      pulled[e] = w[e] * dout[e];
      float a = y[e] * silu[e];
      dot += pulled[e] * a;
      dw[e] += dout[e] * (a * rstd);
    }
  }
  template <typename T, typename W>
  __device__ void store(const gated_call<T, W> &c, int64_t y_at, int64_t x_at, float rstd, float pull) {
    float dy[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float da = rstd * pulled[e] - pull * (y[e] * silu[e]);
      dy[e] = da * silu[e];
      before[e] += da * y[e] * slope[e];
    }
    pack_write<EACH>(c.out + y_at, dy);
    pack_write<EACH>(c.dx + x_at, before);
  }
};

/* Columns of x that are not z have no gradient yet. */
template <typename T, typename W, int EACH>
__device__ inline void others_clear(const gated_call<T, W> &c, int64_t row) {
  const float none[EACH] = {};
  for (int64_t i = (int64_t)threadIdx.x * EACH; i < c.size.columns; i += (int64_t)blockDim.x * EACH)
    if (i < c.size.first || i >= c.size.first + c.size.width) pack_write<EACH>(c.dx + row * c.size.columns + i, none);
}

/* dout may be dy, and the sum so far dx: a thread writes only what it has read. */
template <typename T, typename W, int EACH>
static __global__ void __launch_bounds__(ROW_THREADS) gated_norm_bwd_kernel(gated_call<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  const hr_gated_sizes &s = c.size;
  int64_t group = blockIdx.y, each = s.each, first = blockIdx.x * c.strip, end = min(s.rows, first + c.strip);
  float *sums = c.sums + blockIdx.x * s.width + group * each, dw[EACH] = {};
  columns_of_group<EACH> own(each);
  for (int64_t row = first; row < end; row++) {
    int64_t y_at = row * s.width + group * each, x_at = row * s.columns + s.first + group * each;
    float rstd = c.rstd[row * s.groups + group], dot = 0.0f;
    gated_slopes<EACH> at;
    if (!c.partial && group == 0) others_clear<T, W, EACH>(c, row);
    for (int64_t i = own.column; i < own.end; i += own.step) {
      if (EACH == 1) dw[0] = row == first ? 0.0f : sums[i]; /* each column belongs to one thread */
      at.load(c, y_at + i, x_at + i, group * each + i, rstd, dw);
      if (EACH == 1) sums[i] = dw[0];
      dot += at.dot;
    }
    float pull = row_sum(dot, warps[row % 2]) * rstd * rstd * rstd / (float)each;
    for (int64_t i = own.column; i < own.end; i += own.step) {
      float unused[EACH] = {};
      if (EACH == 1) at.load(c, y_at + i, x_at + i, group * each + i, rstd, unused);
      at.store(c, y_at + i, x_at + i, rstd, pull);
    }
  }
  if (EACH > 1 && own.column < own.end) pack_write<EACH>(sums + own.column, dw);
}

/* Sums of strips: each row of threads adds up every SUMS_DEEP-th strip, then these are added in order. */
static __global__ void __launch_bounds__(SUMS_WIDE *SUMS_DEEP)
    gated_sums_kernel(const float *sums, int64_t strips, int64_t width, float *dw) {
  __shared__ float parts[SUMS_DEEP][SUMS_WIDE];
  int64_t i = blockIdx.x * (int64_t)SUMS_WIDE + threadIdx.x;
  float sum = 0.0f;
  if (i < width)
#pragma unroll 8
    for (int64_t strip = threadIdx.y; strip < strips; strip += SUMS_DEEP)
      sum += sums[strip * width + i];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || i >= width) return;
  for (int deep = 1; deep < SUMS_DEEP; deep++)
    sum += parts[deep][threadIdx.x];
  dw[i] = sum;
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
      launch(gated_norm_bwd_kernel<T, W, WIDE>, grid, row_threads(c.size.each), 0, call_stream(call), c);
    else
      launch(gated_norm_bwd_kernel<T, W, 1>, grid, ANY_THREADS, 0, call_stream(call), c);
    launch(gated_sums_kernel, (unsigned)divide_up(c.size.width, SUMS_WIDE), dim3(SUMS_WIDE, SUMS_DEEP), 0,
           call_stream(call), (const float *)c.sums, strips, c.size.width, (float *)call->out[2].data);
    return launched();
  });
}

#define GATED_OF(F, EACH)                                                                                              \
  (const void *)F<float, float, EACH>, (const void *)F<float, bf16, EACH>, (const void *)F<float, f16, EACH>,          \
      (const void *)F<bf16, float, EACH>, (const void *)F<bf16, bf16, EACH>, (const void *)F<bf16, f16, EACH>,         \
      (const void *)F<f16, float, EACH>, (const void *)F<f16, bf16, EACH>, (const void *)F<f16, f16, EACH>

extern "C" const hr_cuda_launcher hr_cuda_gated_norm = {
    {nullptr, nullptr, gated_norm_run}, {GATED_OF(gated_norm_kernel, WIDE), GATED_OF(gated_norm_kernel, 1)}};

extern "C" const hr_cuda_launcher hr_cuda_gated_norm_bwd = {{nullptr, nullptr, gated_norm_bwd_run},
                                                            {GATED_OF(gated_norm_bwd_kernel, WIDE),
                                                             GATED_OF(gated_norm_bwd_kernel, 1),
                                                             (const void *)gated_sums_kernel, WINDOW_FILL_FUNCTIONS}};
