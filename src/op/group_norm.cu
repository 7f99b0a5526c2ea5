/* group_norm and its backward op on CUDA: a block for each piece, one for each row between; op/group_norm_kernel.c has
 * the formulas. Sums are made by threads, warps and block in this order, whatever the device; indices are 64 bits wide.
 */
#include <type_traits>

#include "op/norm.cuh"
extern "C" {
#include "op/group_norm.h"
}

enum { GROUP_THREADS = 256 };

template <typename T, typename W> struct group_call {
  hr_group_sizes s;
  const T *x, *dy, *partial; /* partial: NULL where there is none */
  const W *w, *b;
  const float *statistics; /* of backward */
  T *to;                   /* y or dx */
  float *left, *pieces, *planes, *row;
  W *dw, *db; /* NULL: not wanted */
  const W *dw_partial, *db_partial;
  float eps;
  bool gelu;
};

struct piece {
  int64_t row, channel, at, count;
};

__device__ inline piece piece_here(const hr_group_sizes &s) {
  int64_t plane = blockIdx.x / s.pieces_each, first = blockIdx.x % s.pieces_each * HR_GROUP_PIECE;
  piece p;
  p.row = plane / s.planes_each;
  p.channel = plane % s.channels;
  p.at = plane * s.places + first;
  p.count = min((int64_t)HR_GROUP_PIECE, s.places - first);
  return p;
}

/* The normal distribution's part below z, within 8e-8, and its density but for a factor: by Abramowitz and Stegun's
 * formula 7.1.26, which needs one exponential for both. */
struct normal_at {
  float below, bell; /* bell: exp(-z^2 / 2) */
};
__device__ inline normal_at normal_of(float z) {
  float t = __fdividef(1.0f, 1.0f + 0.231641888f * fabsf(z)), bell = near_power_of_two(-0.721347520f * z * z);
  float part = t * (0.127414796f + t * (-0.142248368f + t * (0.710706871f + t * (-0.726576014f + t * 0.530702715f))));
  float tail = part * bell;
  return {z >= 0.0f ? 1.0f - tail : tail, bell};
}
__device__ inline float gelu_of(float z) {
  return z * normal_of(z).below;
}
__device__ inline float slope_of_gelu(float z) {
  normal_at n = normal_of(z);
  return n.below + 0.398942280f * z * n.bell;
}

/* Packs of a piece that a thread goes through, GROUP_THREADS apart: function(element of x), with V behind it. */
template <int V, typename F> __device__ inline void each_pack(const piece &p, const F &function) {
#pragma unroll 4
  for (int64_t i = threadIdx.x * V; i < p.count; i += GROUP_THREADS * V)
    function(p.at + i);
}

/* V: elements that are read at once; pieces then begin at multiples of them and have whole packs. */
template <typename T, typename W, int V>
static __global__ void __launch_bounds__(GROUP_THREADS) group_moments_kernel(group_call<T, W> c) {
  __shared__ float warps[2][GROUP_THREADS / WARP];
  piece p = piece_here(c.s);
  float sum = 0.0f, squares = 0.0f;
  each_pack<V>(p, [&](int64_t at) {
    float x[V];
    pack_read<V>(c.x + at, x);
#pragma unroll
    for (int e = 0; e < V; e++)
      sum += x[e];
  });
  float mean = row_sum(sum, warps[0]) / (float)p.count;
  each_pack<V>(p, [&](int64_t at) {
    float x[V];
    pack_read<V>(c.x + at, x);
#pragma unroll
    for (int e = 0; e < V; e++) {
      float v = x[e] - mean;
      squares += v * v;
    }
  });
  squares = row_sum(squares, warps[1]);
  if (threadIdx.x != 0) return;
  c.pieces[2 * (int64_t)blockIdx.x] = mean;
  c.pieces[2 * (int64_t)blockIdx.x + 1] = squares;
}

struct moments {
  double n, mean, squares;
};

__device__ inline moments moments_joined(moments a, moments b) {
  if (b.n == 0) return a;
  if (a.n == 0) return b;
  double n = a.n + b.n, apart = b.mean - a.mean;
  return {n, a.mean + apart * b.n / n, a.squares + b.squares + apart * apart * (a.n * b.n / n)};
}

/* A block for each row: a thread joins every GROUP_THREADS-th piece, then a fixed tree joins the threads. */
template <typename T, typename W>
static __global__ void __launch_bounds__(GROUP_THREADS) group_statistics_kernel(group_call<T, W> c) {
  __shared__ moments of[GROUP_THREADS];
  int64_t each = c.s.planes_each * c.s.pieces_each, first = blockIdx.x * each;
  moments m = {0, 0, 0};
  for (int64_t i = threadIdx.x; i < each; i += GROUP_THREADS) {
    int64_t begin = (first + i) % c.s.pieces_each * HR_GROUP_PIECE;
    double count = (double)min((int64_t)HR_GROUP_PIECE, c.s.places - begin);
    m = moments_joined(m, {count, (double)c.pieces[2 * (first + i)], (double)c.pieces[2 * (first + i) + 1]});
  }
  of[threadIdx.x] = m;
  for (unsigned lanes = GROUP_THREADS / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.x < lanes) of[threadIdx.x] = moments_joined(of[threadIdx.x], of[threadIdx.x + lanes]);
  }
  if (threadIdx.x != 0) return;
  c.left[2 * (int64_t)blockIdx.x] = (float)of[0].mean;
  c.left[2 * (int64_t)blockIdx.x + 1] = (float)(1 / sqrt(of[0].squares / of[0].n + (double)c.eps));
}

template <typename T, typename W, int V>
static __global__ void __launch_bounds__(GROUP_THREADS) group_apply_kernel(group_call<T, W> c) {
  piece p = piece_here(c.s);
  float mean = c.left[2 * p.row], scale = c.left[2 * p.row + 1] * to_float(c.w[p.channel]);
  float shift = to_float(c.b[p.channel]);
  each_pack<V>(p, [&](int64_t at) {
    float x[V];
    pack_read<V>(c.x + at, x);
#pragma unroll
    for (int e = 0; e < V; e++) {
      float z = (x[e] - mean) * scale + shift;
      x[e] = c.gelu ? gelu_of(z) : z;
    }
    pack_write<V>(c.to + at, x);
  });
}

/* ---- backward ---- */

template <typename T, typename W, int V>
static __global__ void __launch_bounds__(GROUP_THREADS) group_sums_kernel(group_call<T, W> c) {
  __shared__ float2 warps[GROUP_THREADS / WARP];
  piece p = piece_here(c.s);
  float mean = c.statistics[2 * p.row], rstd = c.statistics[2 * p.row + 1];
  float w = to_float(c.w[p.channel]), b = to_float(c.b[p.channel]);
  float2 sums = {0.0f, 0.0f};
  each_pack<V>(p, [&](int64_t at) {
    float x[V], dy[V];
    pack_read<V>(c.x + at, x);
    pack_read<V>(c.dy + at, dy);
#pragma unroll
    for (int e = 0; e < V; e++) {
      float n = (x[e] - mean) * rstd, g = dy[e];
      if (c.gelu) g *= slope_of_gelu(n * w + b);
      sums.x += g;
      sums.y += g * n;
    }
  });
  sums = row_sum(sums, warps);
  if (threadIdx.x != 0) return;
  c.pieces[2 * (int64_t)blockIdx.x] = sums.x;
  c.pieces[2 * (int64_t)blockIdx.x + 1] = sums.y;
}

/* The sums of a plane, made of those of its pieces: a thread each. */
template <typename T, typename W>
static __global__ void __launch_bounds__(GROUP_THREADS) group_planes_kernel(group_call<T, W> c) {
  int64_t plane = blockIdx.x * (int64_t)GROUP_THREADS + threadIdx.x;
  if (plane >= c.s.planes) return;
  double g = 0, gn = 0;
  for (int64_t i = plane * c.s.pieces_each; i < (plane + 1) * c.s.pieces_each; i++) {
    g += (double)c.pieces[2 * i];
    gn += (double)c.pieces[2 * i + 1];
  }
  c.planes[2 * plane] = (float)g;
  c.planes[2 * plane + 1] = (float)gn;
}

/* Threads up to `rows`: means of a row; those behind them, one for each channel: its dw and db. */
template <typename T, typename W>
static __global__ void __launch_bounds__(GROUP_THREADS) group_rows_kernel(group_call<T, W> c) {
  int64_t number = blockIdx.x * (int64_t)GROUP_THREADS + threadIdx.x;
  double g = 0, gn = 0;
  if (number < c.s.rows) {
    for (int64_t plane = number * c.s.planes_each; plane < (number + 1) * c.s.planes_each; plane++) {
      double w = (double)to_float(c.w[plane % c.s.channels]);
      g += w * (double)c.planes[2 * plane];
      gn += w * (double)c.planes[2 * plane + 1];
    }
    double elements = (double)(c.s.planes_each * c.s.places);
    c.row[2 * number] = (float)(g / elements);
    c.row[2 * number + 1] = (float)(gn / elements);
    return;
  }
  int64_t channel = number - c.s.rows;
  if (channel >= c.s.channels) return;
  for (int64_t plane = channel; plane < c.s.planes; plane += c.s.channels) {
    g += (double)c.planes[2 * plane];
    gn += (double)c.planes[2 * plane + 1];
  }
  if (c.dw) c.dw[channel] = from_float<W>((float)(gn + (c.dw_partial ? (double)to_float(c.dw_partial[channel]) : 0)));
  if (c.db) c.db[channel] = from_float<W>((float)(g + (c.db_partial ? (double)to_float(c.db_partial[channel]) : 0)));
}

/* dx may lie on dy, x or the partial sum: a thread writes only what it has read. */
template <typename T, typename W, int V>
static __global__ void __launch_bounds__(GROUP_THREADS) group_dx_kernel(group_call<T, W> c) {
  piece p = piece_here(c.s);
  float mean = c.statistics[2 * p.row], rstd = c.statistics[2 * p.row + 1];
  float w = to_float(c.w[p.channel]), b = to_float(c.b[p.channel]);
  float g_mean = c.row[2 * p.row], gn_mean = c.row[2 * p.row + 1];
  each_pack<V>(p, [&](int64_t at) {
    float x[V], dy[V], before[V] = {};
    pack_read<V>(c.x + at, x);
    pack_read<V>(c.dy + at, dy);
    if (c.partial) pack_read<V>(c.partial + at, before);
#pragma unroll
    for (int e = 0; e < V; e++) {
      float n = (x[e] - mean) * rstd, g = dy[e];
      if (c.gelu) g *= slope_of_gelu(n * w + b);
      x[e] = before[e] + rstd * (g * w - g_mean - n * gn_mean);
    }
    pack_write<V>(c.to + at, x);
  });
}

template <typename T> constexpr int GROUP_WIDE = 16 / (int)sizeof(T);

/* function(V as a constant): packs where every channel begins at a multiple of one. */
template <typename T, typename... Pointers, typename F>
static void by_packs(const hr_group_sizes &s, const F &function, Pointers... pointers) {
  if (s.places % GROUP_WIDE<T> == 0 && wide(pointers...))
    function(std::integral_constant<int, GROUP_WIDE<T>>());
  else
    function(std::integral_constant<int, 1>());
}

template <typename T, typename W> static hr_status group_norm_launch(const hr_call *call) {
  const hr_group_norm_args *args = (const hr_group_norm_args *)call->args;
  cudaStream_t stream = call_stream(call);
  group_call<T, W> c = {};
  c.s = hr__group_sizes(&call->in[0].desc, args->groups);
  c.x = (const T *)call->in[0].data;
  c.w = (const W *)call->in[1].data;
  c.b = (const W *)call->in[2].data;
  c.to = (T *)call->out[0].data;
  c.left = (float *)call->out[1].data;
  c.pieces = (float *)call->workspace;
  c.eps = args->eps;
  c.gelu = args->gelu;
  unsigned pieces = (unsigned)(c.s.planes * c.s.pieces_each);
  auto both = [&](auto v) {
    launch(group_moments_kernel<T, W, decltype(v)::value>, pieces, GROUP_THREADS, 0, stream, c);
    launch(group_statistics_kernel<T, W>, (unsigned)c.s.rows, GROUP_THREADS, 0, stream, c);
    launch(group_apply_kernel<T, W, decltype(v)::value>, pieces, GROUP_THREADS, 0, stream, c);
  };
  by_packs<T>(c.s, both, c.x, c.to);
  return launched();
}

template <typename T, typename W> static hr_status group_norm_bwd_launch(const hr_call *call) {
  const hr_group_norm_bwd_args *args = (const hr_group_norm_bwd_args *)call->args;
  cudaStream_t stream = call_stream(call);
  group_call<T, W> c = {};
  c.s = hr__group_sizes(&call->in[HR_GROUP_X].desc, args->norm.groups);
  c.dy = (const T *)call->in[HR_GROUP_DY].data;
  c.x = (const T *)call->in[HR_GROUP_X].data;
  c.partial = (const T *)call->in[HR_GROUP_DX_PARTIAL].data;
  c.w = (const W *)call->in[HR_GROUP_W].data;
  c.b = (const W *)call->in[HR_GROUP_B].data;
  c.statistics = (const float *)call->in[HR_GROUP_STATISTICS].data;
  c.to = (T *)call->out[0].data;
  if (args->want_dw) c.dw = (W *)call->out[1].data;
  if (args->want_db) c.db = (W *)call->out[2].data;
  c.dw_partial = (const W *)call->in[HR_GROUP_DW_PARTIAL].data;
  c.db_partial = (const W *)call->in[HR_GROUP_DB_PARTIAL].data;
  c.pieces = (float *)call->workspace;
  c.planes = c.pieces + 2 * c.s.planes * c.s.pieces_each;
  c.row = c.planes + 2 * c.s.planes;
  c.gelu = args->norm.gelu;
  unsigned pieces = (unsigned)(c.s.planes * c.s.pieces_each);
  auto all = [&](auto v) {
    launch(group_sums_kernel<T, W, decltype(v)::value>, pieces, GROUP_THREADS, 0, stream, c);
    launch(group_planes_kernel<T, W>, (unsigned)divide_up(c.s.planes, GROUP_THREADS), GROUP_THREADS, 0, stream, c);
    launch(group_rows_kernel<T, W>, (unsigned)divide_up(c.s.rows + c.s.channels, GROUP_THREADS), GROUP_THREADS, 0,
           stream, c);
    if (args->want_dx) launch(group_dx_kernel<T, W, decltype(v)::value>, pieces, GROUP_THREADS, 0, stream, c);
  };
  by_packs<T>(c.s, all, c.x, c.dy, c.partial, args->want_dx ? c.to : nullptr);
  return launched();
}

/* The plan gave the call room, and there are no more pieces than a grid has blocks. */
static hr_status room_check(const hr_call *call, const hr_group_sizes &s, bool backward, hr_error *err) {
  const hr_cuda_host &host = device_state(call)->host;
  size_t bytes = (size_t)hr__group_floats(&s, backward) * sizeof(float);
  if (call->workspace_bytes < bytes)
    return host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed", call->workspace_bytes,
                     bytes);
  if (s.planes * s.pieces_each < INT32_MAX) return HR_OK;
  return host.fail(err, HR_UNSUPPORTED, NULL, "take fewer samples at a time", "%lld channels to be normalised at once",
                   (long long)s.planes);
}

static hr_status group_norm_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  const hr_group_norm_args *args = (const hr_group_norm_args *)call->args;
  return room_check(call, hr__group_sizes(&call->in[0].desc, args->groups), false, err);
}

static hr_status group_norm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  const hr_group_norm_bwd_args *args = (const hr_group_norm_bwd_args *)call->args;
  return room_check(call, hr__group_sizes(&call->in[HR_GROUP_X].desc, args->norm.groups), true, err);
}

static hr_status group_norm_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    return by_dtype(call->in[1].desc.dtype, [&](auto u) { return group_norm_launch<decltype(t), decltype(u)>(call); });
  });
}

static hr_status group_norm_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_GROUP_X].desc.dtype, [&](auto t) {
    return by_dtype(call->in[HR_GROUP_W].desc.dtype,
                    [&](auto u) { return group_norm_bwd_launch<decltype(t), decltype(u)>(call); });
  });
}

#define GROUP_PACKS(kernel, T, W) (const void *)kernel<T, W, GROUP_WIDE<T>>, (const void *)kernel<T, W, 1>
#define GROUP_TYPE(kernel, T)     GROUP_PACKS(kernel, T, float), GROUP_PACKS(kernel, T, bf16), GROUP_PACKS(kernel, T, f16)
#define GROUP_FUNCTIONS(kernel)   GROUP_TYPE(kernel, float), GROUP_TYPE(kernel, bf16), GROUP_TYPE(kernel, f16)

extern "C" const hr_cuda_launcher hr_cuda_group_norm = {
    {group_norm_prepare, nullptr, group_norm_run},
    {GROUP_FUNCTIONS(group_moments_kernel), NORM_PAIRS(group_statistics_kernel), GROUP_FUNCTIONS(group_apply_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_group_norm_bwd = {
    {group_norm_bwd_prepare, nullptr, group_norm_bwd_run},
    {GROUP_FUNCTIONS(group_sums_kernel), NORM_PAIRS(group_planes_kernel), NORM_PAIRS(group_rows_kernel),
     GROUP_FUNCTIONS(group_dx_kernel)}};
