/* rmsnorm and its backward op on CUDA: a block for each row, or a warp where rows are heads of a wider axis.
 *
 * Rows of up to ROW_MOST elements, a multiple of WIDE, are held in registers, WIDE elements to a thread (N = WIDE), and
 * memory is passed over once. Others (N = 1) are read again for each of the two looks at a row. The sum over a row is
 * made by threads, warps and block in this order, whatever the device.
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/rmsnorm.h"
}

enum { WARP = 32, ROW_THREADS = 1024, ROW_MOST = ROW_THREADS * WIDE, ANY_THREADS = 256 };
enum { HEAD_WARPS = 16, HEAD_MOST = WARP * WIDE };
enum { BWD_DY, BWD_X, BWD_W, BWD_RSTD, BWD_DX_PARTIAL, BWD_DW_PARTIAL };

/* The sum over the warp of each thread's value, in every thread. */
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

/* The sum over the block of each thread's value, in every thread. warps is of this sum alone until the next barrier. */
__device__ inline float row_sum(float value, float *warps) {
  value = warp_sum(value);
  if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = value;
  __syncthreads();
  float sum = 0.0f;
  for (unsigned i = 0; i < blockDim.x / WARP; i++)
    sum += warps[i];
  return sum;
}

/* As many threads as a row has packs, in whole warps; or ANY_THREADS that walk over it. */
static bool row_fits(int64_t columns) {
  return columns % WIDE == 0 && columns <= ROW_MOST;
}
static unsigned row_threads(int64_t columns) {
  return (unsigned)(divide_up(columns / WIDE, WARP) * WARP);
}

/* Rows that are parts of the last axis: many and short. HEAD_WARPS of them to a block. */
static bool row_is_head(const hr_desc &x, int64_t columns) {
  return columns < desc_columns(x) && columns % WIDE == 0 && columns <= HEAD_MOST;
}

/* x -> w * round(x * rstd), rounded to the type of x as the public models do. */
template <typename T> __device__ inline float normal(float x, float rstd, float w) {
  return w * to_float(from_float<T>(x * rstd));
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS)
    rmsnorm_row_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t columns, float eps) {
  __shared__ float warps[ROW_THREADS / WARP];
  int64_t at = blockIdx.x * columns + threadIdx.x * WIDE;
  bool inside = threadIdx.x * WIDE < columns;
  float v[WIDE] = {}, w[WIDE];
  if (inside) {
    pack_read<WIDE>(x + at, v);
    pack_read<WIDE>(weight + threadIdx.x * WIDE, w);
  }
  float squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    squares += v[e] * v[e];
  float rstd = 1.0f / sqrtf(row_sum(squares, warps) / (float)columns + eps);
  if (threadIdx.x == 0) rstds[blockIdx.x] = rstd;
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = normal<T>(v[e], rstd, w[e]);
  pack_write<WIDE>(y + at, v);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS)
    rmsnorm_any_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t columns, float eps) {
  __shared__ float warps[ANY_THREADS / WARP];
  const T *from = x + blockIdx.x * columns;
  T *to = y + blockIdx.x * columns;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += ANY_THREADS) {
    float v = to_float(from[i]);
    squares += v * v;
  }
  float rstd = 1.0f / sqrtf(row_sum(squares, warps) / (float)columns + eps);
  if (threadIdx.x == 0) rstds[blockIdx.x] = rstd;
  for (int64_t i = threadIdx.x; i < columns; i += ANY_THREADS)
    to[i] = from_float<T>(normal<T>(to_float(from[i]), rstd, to_float(weight[i])));
}

template <typename T, typename W>
static __global__ void __launch_bounds__(WARP *HEAD_WARPS)
    rmsnorm_head_kernel(const T *x, const W *weight, T *y, float *rstds, int64_t rows, int64_t columns, float eps) {
  int64_t row = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.y;
  if (row >= rows) return;
  int64_t at = row * columns + threadIdx.x * WIDE;
  bool inside = threadIdx.x * WIDE < columns;
  float v[WIDE] = {}, w[WIDE];
  if (inside) {
    pack_read<WIDE>(x + at, v);
    pack_read<WIDE>(weight + threadIdx.x * WIDE, w);
  }
  float squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    squares += v[e] * v[e];
  float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)columns + eps);
  if (threadIdx.x == 0) rstds[row] = rstd;
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = normal<T>(v[e], rstd, w[e]);
  pack_write<WIDE>(y + at, v);
}

static hr_status rmsnorm_run(const hr_call *call) {
  int64_t columns = desc_columns(call->in[1].desc), rows = desc_count(call->in[0].desc) / columns;
  float eps = ((const hr_rmsnorm_args *)call->args)->eps, *rstds = (float *)call->out[1].data;
  cudaStream_t stream = call_stream(call);
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) {
      using T = decltype(t);
      using W = decltype(u);
      const T *x = (const T *)call->in[0].data;
      const W *w = (const W *)call->in[1].data;
      T *y = (T *)call->out[0].data;
      if (row_is_head(call->in[0].desc, columns) && wide(x, w, y))
        rmsnorm_head_kernel<T, W><<<(unsigned)divide_up(rows, HEAD_WARPS), dim3(WARP, HEAD_WARPS), 0, stream>>>(
            x, w, y, rstds, rows, columns, eps);
      else if (row_fits(columns) && wide(x, w, y))
        rmsnorm_row_kernel<T, W><<<(unsigned)rows, row_threads(columns), 0, stream>>>(x, w, y, rstds, columns, eps);
      else
        rmsnorm_any_kernel<T, W><<<(unsigned)rows, ANY_THREADS, 0, stream>>>(x, w, y, rstds, columns, eps);
      return launched();
    });
  });
}

/* ---- rmsnorm_bwd
 *
 * A block goes over rows_each rows (one where dw is not wanted) and leaves its sum of dw in the workspace,
 * f32 [blocks, columns]; a second kernel adds these up. dx may lie on dy or on the partial sum: a thread writes only
 * what it has read, and after the whole row was read once. */

template <typename T, typename W> struct bwd_call {
  const T *dy, *x, *partial; /* partial: NULL where there is none */
  const W *w;
  const float *rstd;
  T *dx;          /* NULL: not wanted */
  float *dw_sums; /* NULL: not wanted */
  int64_t rows, columns, rows_each;
};

/* What x is multiplied by in dx: with g = dy * w and n = x * rstd, rstd * rstd * mean(g * n). */
__device__ inline float pull_of(float dot, float rstd, int64_t columns) {
  return dot * rstd * rstd * rstd / (float)columns;
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) rmsnorm_bwd_row_kernel(bwd_call<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {};
  if (inside) pack_read<WIDE>(c.w + column, w);
  for (int64_t row = first; row < end; row++) {
    int64_t at = row * c.columns + column;
    float dy[WIDE] = {}, x[WIDE] = {}, before[WIDE] = {}, dot = 0.0f, rstd = c.rstd[row];
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, x);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      dot += dy[e] * w[e] * x[e];
      dw[e] += dy[e] * (x[e] * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(row_sum(dot, warps[row % 2]), rstd, c.columns);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * dy[e] * w[e] - pull * x[e];
    pack_write<WIDE>(c.dx + at, before);
  }
  if (c.dw_sums && inside) pack_write<WIDE>(c.dw_sums + blockIdx.x * c.columns + column, dw);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) rmsnorm_bwd_any_kernel(bwd_call<T, W> c) {
  __shared__ float warps[2][ANY_THREADS / WARP];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  float *dw = c.dw_sums ? c.dw_sums + blockIdx.x * c.columns : nullptr; /* each column belongs to one thread */
  for (int64_t row = first; row < end; row++) {
    const T *dy = c.dy + row * c.columns, *x = c.x + row * c.columns;
    float dot = 0.0f, rstd = c.rstd[row];
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float d = to_float(dy[i]), v = to_float(x[i]);
      dot += d * to_float(c.w[i]) * v;
      if (dw) dw[i] = (row == first ? 0.0f : dw[i]) + d * (v * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(row_sum(dot, warps[row % 2]), rstd, c.columns);
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float before = c.partial ? to_float(c.partial[row * c.columns + i]) : 0.0f;
      float own = rstd * to_float(dy[i]) * to_float(c.w[i]) - pull * to_float(x[i]);
      c.dx[row * c.columns + i] = from_float<T>(before + own);
    }
  }
}

/* Each warp takes every HEAD_WARPS-th row of the block's; their sums of dw are added in the order of the warps. */
template <typename T, typename W>
static __global__ void __launch_bounds__(WARP *HEAD_WARPS) rmsnorm_bwd_head_kernel(bwd_call<T, W> c) {
  __shared__ float sums[HEAD_WARPS][HEAD_MOST];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {};
  if (inside) pack_read<WIDE>(c.w + column, w);
  for (int64_t row = first + threadIdx.y; row < end; row += HEAD_WARPS) {
    int64_t at = row * c.columns + column;
    float dy[WIDE] = {}, x[WIDE] = {}, before[WIDE] = {}, dot = 0.0f, rstd = c.rstd[row];
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, x);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++) {
      dot += dy[e] * w[e] * x[e];
      dw[e] += dy[e] * (x[e] * rstd);
    }
    if (!c.dx) continue;
    float pull = pull_of(warp_sum(dot), rstd, c.columns);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * dy[e] * w[e] - pull * x[e];
    pack_write<WIDE>(c.dx + at, before);
  }
  if (!c.dw_sums) return;
  if (inside)
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      sums[threadIdx.y][column + e] = dw[e];
  __syncthreads();
  unsigned own = threadIdx.y * WARP + threadIdx.x;
  if (own >= c.columns) return;
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < HEAD_WARPS; warp++)
    sum += sums[warp][own];
  c.dw_sums[blockIdx.x * c.columns + own] = sum;
}

/* dw = (partial +) the sum over blocks: 32 columns to a block, 32 lanes that take every 32nd row, then a fixed tree. */
template <typename W>
static __global__ void __launch_bounds__(WARP *WARP)
    rmsnorm_dw_kernel(const float *dw_sums, int64_t blocks, int64_t columns, const W *partial, W *dw) {
  __shared__ float sums[WARP][WARP + 1];
  int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x;
  float sum = 0.0f;
  if (column < columns)
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < blocks; block += WARP)
      sum += dw_sums[block * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  for (unsigned lanes = WARP / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.y < lanes) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + lanes][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns)
    dw[column] = from_float<W>((partial ? to_float(partial[column]) : 0.0f) + sums[0][threadIdx.x]);
}

template <typename T, typename W> static hr_status rmsnorm_bwd_launch(const hr_call *call) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  bwd_call<T, W> c = {};
  c.dy = (const T *)call->in[BWD_DY].data;
  c.x = (const T *)call->in[BWD_X].data;
  c.w = (const W *)call->in[BWD_W].data;
  c.rstd = (const float *)call->in[BWD_RSTD].data;
  c.columns = desc_columns(call->in[BWD_W].desc);
  c.rows = desc_count(call->in[BWD_X].desc) / c.columns;
  if (args->want_dx) {
    c.dx = (T *)call->out[0].data;
    c.partial = (const T *)call->in[BWD_DX_PARTIAL].data;
  }
  if (args->want_dw) c.dw_sums = (float *)call->workspace;
  if (!c.dx && !c.dw_sums) return HR_OK;
  bool packs = wide(c.dy, c.x, c.partial, c.w, c.dx, c.dw_sums);
  bool heads = packs && row_is_head(call->in[BWD_X].desc, c.columns);
  c.rows_each = args->want_dw ? hr__norm_sum_rows(c.rows) : heads ? HEAD_WARPS : 1;
  int64_t blocks = divide_up(c.rows, c.rows_each);
  cudaStream_t stream = call_stream(call);
  if (heads)
    rmsnorm_bwd_head_kernel<T, W><<<(unsigned)blocks, dim3(WARP, HEAD_WARPS), 0, stream>>>(c);
  else if (packs && row_fits(c.columns))
    rmsnorm_bwd_row_kernel<T, W><<<(unsigned)blocks, row_threads(c.columns), 0, stream>>>(c);
  else
    rmsnorm_bwd_any_kernel<T, W><<<(unsigned)blocks, ANY_THREADS, 0, stream>>>(c);
  if (args->want_dw)
    rmsnorm_dw_kernel<W><<<(unsigned)divide_up(c.columns, WARP), dim3(WARP, WARP), 0, stream>>>(
        c.dw_sums, blocks, c.columns, (const W *)call->in[BWD_DW_PARTIAL].data, (W *)call->out[1].data);
  return launched();
}

static hr_status rmsnorm_bwd_run(const hr_call *call) {
  return by_dtype(call->in[BWD_X].desc.dtype, [&](auto t) {
    return by_dtype(call->in[BWD_W].desc.dtype,
                    [&](auto u) { return rmsnorm_bwd_launch<decltype(t), decltype(u)>(call); });
  });
}

static hr_status rmsnorm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  int64_t columns = desc_columns(call->in[BWD_W].desc), rows = desc_count(call->in[BWD_X].desc) / columns;
  size_t bytes = (size_t)(divide_up(rows, hr__norm_sum_rows(rows)) * columns) * sizeof(float);
  *prepared = nullptr;
  if (!((const hr_norm_bwd_args *)call->args)->want_dw || call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed",
                                       call->workspace_bytes, bytes);
}

#define EVERY_PAIR(kernel)                                                                                             \
  (const void *)kernel<float, float>, (const void *)kernel<float, bf16>, (const void *)kernel<float, f16>,             \
      (const void *)kernel<bf16, float>, (const void *)kernel<bf16, bf16>, (const void *)kernel<bf16, f16>,            \
      (const void *)kernel<f16, float>, (const void *)kernel<f16, bf16>, (const void *)kernel<f16, f16>

extern "C" const hr_cuda_launcher hr_cuda_rmsnorm = {
    {nullptr, nullptr, rmsnorm_run},
    {EVERY_PAIR(rmsnorm_row_kernel), EVERY_PAIR(rmsnorm_any_kernel), EVERY_PAIR(rmsnorm_head_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_rmsnorm_bwd = {
    {rmsnorm_bwd_prepare, nullptr, rmsnorm_bwd_run},
    {EVERY_PAIR(rmsnorm_bwd_row_kernel), EVERY_PAIR(rmsnorm_bwd_any_kernel), EVERY_PAIR(rmsnorm_bwd_head_kernel),
     (const void *)rmsnorm_dw_kernel<float>, (const void *)rmsnorm_dw_kernel<bf16>,
     (const void *)rmsnorm_dw_kernel<f16>}};
