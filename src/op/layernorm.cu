/* layernorm and its backward op on CUDA: a block for each row.
 *
 * Rows of up to ROW_MOST elements, a multiple of WIDE, are held in registers, WIDE elements to a thread, and memory is
 * passed over once. Others are read again for each look at a row. The sums over a row are made by threads, warps and
 * block in this order, whatever the device.
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/layernorm.h"
}

enum { WARP = 32, ROW_THREADS = 1024, ROW_MOST = ROW_THREADS * WIDE, ANY_THREADS = 256 };
enum { BWD_DY, BWD_X, BWD_W, BWD_STATISTICS, BWD_DX_PARTIAL, BWD_DW_PARTIAL, BWD_DB_PARTIAL };

/* Sums over the block of each thread's two values, in every thread. warps is of this sum alone until the next barrier.
 */
__device__ inline float2 row_sums(float2 value, float2 *warps) {
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    value.x += __shfl_xor_sync(~0u, value.x, distance);
    value.y += __shfl_xor_sync(~0u, value.y, distance);
  }
  if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = value;
  __syncthreads();
  float2 sum = {0.0f, 0.0f};
  for (unsigned i = 0; i < blockDim.x / WARP; i++) {
    sum.x += warps[i].x;
    sum.y += warps[i].y;
  }
  return sum;
}

/* The same of one value. */
__device__ inline float row_sum(float value, float *warps) {
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
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

template <typename T, typename W> struct forward_call {
  const T *x;
  const W *w, *b;
  T *y;
  float *statistics;
  int64_t columns;
  float eps;
};

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_row_kernel(forward_call<T, W> c) {
  __shared__ float warps[2][ROW_THREADS / WARP]; /* one for each sum */
  int64_t column = threadIdx.x * WIDE, at = blockIdx.x * c.columns + column;
  bool inside = column < c.columns;
  float v[WIDE] = {}, w[WIDE], b[WIDE];
  if (inside) {
    pack_read<WIDE>(c.x + at, v);
    pack_read<WIDE>(c.w + column, w);
    pack_read<WIDE>(c.b + column, b);
  }
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    sum += v[e];
  float mean = row_sum(sum, warps[0]) / (float)c.columns;
  if (inside)
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      squares += (v[e] - mean) * (v[e] - mean);
  float rstd = 1.0f / sqrtf(row_sum(squares, warps[1]) / (float)c.columns + c.eps);
  if (threadIdx.x == 0) {
    c.statistics[2 * (int64_t)blockIdx.x] = mean;
    c.statistics[2 * (int64_t)blockIdx.x + 1] = rstd;
  }
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    v[e] = (v[e] - mean) * rstd * w[e] + b[e];
  pack_write<WIDE>(c.y + at, v);
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) layernorm_any_kernel(forward_call<T, W> c) {
  __shared__ float warps[2][ANY_THREADS / WARP];
  const T *from = c.x + blockIdx.x * c.columns;
  T *to = c.y + blockIdx.x * c.columns;
  float sum = 0.0f, squares = 0.0f;
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS)
    sum += to_float(from[i]);
  float mean = row_sum(sum, warps[0]) / (float)c.columns;
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
    float v = to_float(from[i]) - mean;
    squares += v * v;
  }
  float rstd = 1.0f / sqrtf(row_sum(squares, warps[1]) / (float)c.columns + c.eps);
  if (threadIdx.x == 0) {
    c.statistics[2 * (int64_t)blockIdx.x] = mean;
    c.statistics[2 * (int64_t)blockIdx.x + 1] = rstd;
  }
  for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS)
    to[i] = from_float<T>((to_float(from[i]) - mean) * rstd * to_float(c.w[i]) + to_float(c.b[i]));
}

template <typename T, typename W> static hr_status layernorm_launch(const hr_call *call) {
  forward_call<T, W> c = {};
  c.x = (const T *)call->in[0].data;
  c.w = (const W *)call->in[1].data;
  c.b = (const W *)call->in[2].data;
  c.y = (T *)call->out[0].data;
  c.statistics = (float *)call->out[1].data;
  c.columns = desc_columns(call->in[0].desc);
  c.eps = ((const hr_layernorm_args *)call->args)->eps;
  unsigned rows = (unsigned)desc_rows(call->in[0].desc);
  if (row_fits(c.columns) && wide(c.x, c.w, c.b, c.y))
    layernorm_row_kernel<T, W><<<rows, row_threads(c.columns), 0, call_stream(call)>>>(c);
  else
    layernorm_any_kernel<T, W><<<rows, ANY_THREADS, 0, call_stream(call)>>>(c);
  return launched();
}

static hr_status layernorm_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) { return layernorm_launch<decltype(t), decltype(u)>(call); });
  });
}

/* ---- layernorm_bwd
 *
 * A block goes over rows_each rows (one where neither dw nor db is wanted) and leaves its sums of dw and db in the
 * workspace, f32 [blocks, 2, columns]; a second kernel adds these up. dx may lie on dy or on the partial sum: a thread
 * writes only what it has read, and after the whole row was read once. */

template <typename T, typename W> struct bwd_call {
  const T *dy, *x, *partial; /* partial: NULL where there is none */
  const W *w;
  const float *statistics;
  T *dx;       /* NULL: not wanted */
  float *sums; /* NULL: neither dw nor db is wanted */
  int64_t rows, columns, rows_each;
};

template <typename T, typename W>
static __global__ void __launch_bounds__(ROW_THREADS) layernorm_bwd_row_kernel(bwd_call<T, W> c) {
  __shared__ float2 warps[2][ROW_THREADS / WARP]; /* by turns: one barrier a row is enough */
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  int64_t column = threadIdx.x * WIDE;
  bool inside = column < c.columns;
  float w[WIDE] = {}, dw[WIDE] = {}, db[WIDE] = {};
  if (inside) pack_read<WIDE>(c.w + column, w);
  for (int64_t row = first; row < end; row++) {
    int64_t at = row * c.columns + column;
    float mean = c.statistics[2 * row], rstd = c.statistics[2 * row + 1];
    float dy[WIDE] = {}, n[WIDE] = {}, before[WIDE] = {};
    float2 dots = {0.0f, 0.0f};
    if (inside) {
      pack_read<WIDE>(c.dy + at, dy);
      pack_read<WIDE>(c.x + at, n);
      if (c.partial) pack_read<WIDE>(c.partial + at, before);
#pragma unroll
      for (int e = 0; e < WIDE; e++) {
        n[e] = (n[e] - mean) * rstd;
        dots.x += dy[e] * w[e];
        dots.y += dy[e] * w[e] * n[e];
        dw[e] += dy[e] * n[e];
        db[e] += dy[e];
      }
    }
    if (!c.dx) continue;
    float2 sums = row_sums(dots, warps[row % 2]);
    if (!inside) continue;
    float g_mean = sums.x / (float)c.columns, gn_mean = sums.y / (float)c.columns;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      before[e] += rstd * (dy[e] * w[e] - g_mean - n[e] * gn_mean);
    pack_write<WIDE>(c.dx + at, before);
  }
  if (c.sums && inside) {
    float *sums = c.sums + 2 * blockIdx.x * c.columns + column;
    pack_write<WIDE>(sums, dw);
    pack_write<WIDE>(sums + c.columns, db);
  }
}

template <typename T, typename W>
static __global__ void __launch_bounds__(ANY_THREADS) layernorm_bwd_any_kernel(bwd_call<T, W> c) {
  __shared__ float2 warps[2][ANY_THREADS / WARP];
  int64_t first = blockIdx.x * c.rows_each, end = min(c.rows, first + c.rows_each);
  float *dw = c.sums ? c.sums + 2 * blockIdx.x * c.columns : nullptr; /* each column belongs to one thread */
  for (int64_t row = first; row < end; row++) {
    const T *dy = c.dy + row * c.columns, *x = c.x + row * c.columns;
    float mean = c.statistics[2 * row], rstd = c.statistics[2 * row + 1];
    float2 dots = {0.0f, 0.0f};
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float d = to_float(dy[i]), n = (to_float(x[i]) - mean) * rstd, g = d * to_float(c.w[i]);
      dots.x += g;
      dots.y += g * n;
      if (!dw) continue;
      dw[i] = (row == first ? 0.0f : dw[i]) + d * n;
      dw[c.columns + i] = (row == first ? 0.0f : dw[c.columns + i]) + d;
    }
    if (!c.dx) continue;
    float2 sums = row_sums(dots, warps[row % 2]);
    float g_mean = sums.x / (float)c.columns, gn_mean = sums.y / (float)c.columns;
    for (int64_t i = threadIdx.x; i < c.columns; i += ANY_THREADS) {
      float before = c.partial ? to_float(c.partial[row * c.columns + i]) : 0.0f;
      float n = (to_float(x[i]) - mean) * rstd;
      float own = rstd * (to_float(dy[i]) * to_float(c.w[i]) - g_mean - n * gn_mean);
      c.dx[row * c.columns + i] = from_float<T>(before + own);
    }
  }
}

/* dw and db, what blockIdx.y says: (partial +) the sum over blocks. 32 columns to a block, 32 lanes that take every
 * 32nd row, then a fixed tree. */
template <typename W> struct sums_call {
  const float *sums;
  int64_t blocks, columns;
  const W *partial[2]; /* NULL where there is none */
  W *to[2];            /* NULL: not wanted */
};
template <typename W> static __global__ void __launch_bounds__(WARP *WARP) layernorm_sums_kernel(sums_call<W> c) {
  __shared__ float sums[WARP][WARP + 1];
  int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x;
  W *to = blockIdx.y ? c.to[1] : c.to[0];
  const W *partial = blockIdx.y ? c.partial[1] : c.partial[0];
  if (!to) return; /* the whole block */
  float sum = 0.0f;
  if (column < c.columns)
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < c.blocks; block += WARP)
      sum += c.sums[(2 * block + blockIdx.y) * c.columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  for (unsigned lanes = WARP / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.y < lanes) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + lanes][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < c.columns)
    to[column] = from_float<W>((partial ? to_float(partial[column]) : 0.0f) + sums[0][threadIdx.x]);
}

template <typename T, typename W> static hr_status layernorm_bwd_launch(const hr_call *call) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  bwd_call<T, W> c = {};
  c.dy = (const T *)call->in[BWD_DY].data;
  c.x = (const T *)call->in[BWD_X].data;
  c.w = (const W *)call->in[BWD_W].data;
  c.statistics = (const float *)call->in[BWD_STATISTICS].data;
  c.rows = desc_rows(call->in[BWD_X].desc);
  c.columns = desc_columns(call->in[BWD_X].desc);
  c.rows_each = 1;
  if (args->want_dx) {
    c.dx = (T *)call->out[0].data;
    c.partial = (const T *)call->in[BWD_DX_PARTIAL].data;
  }
  if (args->want_dw || args->want_db) {
    c.sums = (float *)call->workspace;
    c.rows_each = hr__norm_sum_rows(c.rows);
  }
  if (!c.dx && !c.sums) return HR_OK;
  int64_t blocks = divide_up(c.rows, c.rows_each);
  cudaStream_t stream = call_stream(call);
  if (row_fits(c.columns) && wide(c.dy, c.x, c.partial, c.w, c.dx, c.sums))
    layernorm_bwd_row_kernel<T, W><<<(unsigned)blocks, row_threads(c.columns), 0, stream>>>(c);
  else
    layernorm_bwd_any_kernel<T, W><<<(unsigned)blocks, ANY_THREADS, 0, stream>>>(c);
  if (c.sums) {
    sums_call<W> s = {};
    s.sums = c.sums;
    s.blocks = blocks;
    s.columns = c.columns;
    if (args->want_dw) s.to[0] = (W *)call->out[1].data;
    if (args->want_db) s.to[1] = (W *)call->out[2].data;
    s.partial[0] = (const W *)call->in[BWD_DW_PARTIAL].data;
    s.partial[1] = (const W *)call->in[BWD_DB_PARTIAL].data;
    dim3 grid((unsigned)divide_up(c.columns, WARP), 2);
    layernorm_sums_kernel<W><<<grid, dim3(WARP, WARP), 0, stream>>>(s);
  }
  return launched();
}

static hr_status layernorm_bwd_run(const hr_call *call) {
  return by_dtype(call->in[BWD_X].desc.dtype, [&](auto t) {
    return by_dtype(call->in[BWD_W].desc.dtype,
                    [&](auto u) { return layernorm_bwd_launch<decltype(t), decltype(u)>(call); });
  });
}

static hr_status layernorm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_norm_bwd_args *args = (const hr_norm_bwd_args *)call->args;
  int64_t rows = desc_rows(call->in[BWD_X].desc), columns = desc_columns(call->in[BWD_X].desc);
  size_t bytes = (size_t)(divide_up(rows, hr__norm_sum_rows(rows)) * 2 * columns) * sizeof(float);
  *prepared = nullptr;
  if (!(args->want_dw || args->want_db) || call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed",
                                       call->workspace_bytes, bytes);
}

#define EVERY_PAIR(kernel)                                                                                             \
  (const void *)kernel<float, float>, (const void *)kernel<float, bf16>, (const void *)kernel<float, f16>,             \
      (const void *)kernel<bf16, float>, (const void *)kernel<bf16, bf16>, (const void *)kernel<bf16, f16>,            \
      (const void *)kernel<f16, float>, (const void *)kernel<f16, bf16>, (const void *)kernel<f16, f16>

extern "C" const hr_cuda_launcher hr_cuda_layernorm = {
    {nullptr, nullptr, layernorm_run}, {EVERY_PAIR(layernorm_row_kernel), EVERY_PAIR(layernorm_any_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_layernorm_bwd = {
    {layernorm_bwd_prepare, nullptr, layernorm_bwd_run},
    {EVERY_PAIR(layernorm_bwd_row_kernel), EVERY_PAIR(layernorm_bwd_any_kernel),
     (const void *)layernorm_sums_kernel<float>, (const void *)layernorm_sums_kernel<bf16>,
     (const void *)layernorm_sums_kernel<f16>}};
