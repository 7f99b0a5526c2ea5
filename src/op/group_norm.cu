/* group_norm and its backward op on CUDA: a block for each piece, one for each row between; op/group_norm_kernel.c has
 * the formulas. Sums are made by threads, warps and block in this order, whatever the device; indices are 64 bits wide.
 */
#include "op/group_pieces.cuh"

template <typename T, typename W> struct group_call {
  hr_group_sizes s;
  const T *x, *dy, *partial; /* partial: NULL where there is none */
  const W *w, *b;
  const float *statistics; /* of backward, and those given; NULL: there are none */
  T *to;                   /* y or dx */
  float *left, *pieces, *planes, *row;
  float *to_statistics; /* of backward, where they were given; or NULL */
  W *dw, *db;           /* NULL: not wanted */
  const W *dw_partial, *db_partial;
  float eps;
  bool gelu;
};

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

/* A block for each row. */
template <typename T, typename W>
static __global__ void __launch_bounds__(GROUP_THREADS) group_statistics_kernel(group_call<T, W> c) {
  __shared__ moments of[GROUP_THREADS];
  moments m = row_moments(c.s, c.pieces, of);
  if (threadIdx.x == 0) statistics_write(c.left, m, c.eps);
}

/* Statistics that were given, a thread for each number. */
template <typename T, typename W>
static __global__ void __launch_bounds__(GROUP_THREADS) group_given_kernel(group_call<T, W> c) {
  int64_t i = blockIdx.x * (int64_t)GROUP_THREADS + threadIdx.x;
  if (i < 2 * c.s.rows) c.left[i] = c.statistics[i];
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
    double elements = (double)(c.s.planes_each * c.s.places), rstd = (double)c.statistics[2 * number + 1];
    bool given = c.to_statistics != NULL;
    c.row[2 * number] = given ? 0.0f : (float)(g / elements);
    c.row[2 * number + 1] = given ? 0.0f : (float)(gn / elements);
    if (given) c.to_statistics[2 * number] = (float)(-rstd * g);
    if (given) c.to_statistics[2 * number + 1] = (float)(gn / rstd);
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

template <typename T, typename W> static hr_status group_norm_launch(const hr_call *call) {
  const hr_group_norm_args *args = (const hr_group_norm_args *)call->args;
  cudaStream_t stream = call_stream(call);
  group_call<T, W> c = {};
  c.s = hr__group_sizes(&call->in[0].desc, args->groups);
  c.x = (const T *)call->in[0].data;
  c.w = (const W *)call->in[1].data;
  c.b = (const W *)call->in[2].data;
  c.statistics = (const float *)call->in[3].data;
  c.to = (T *)call->out[0].data;
  c.left = (float *)call->out[1].data;
  c.pieces = (float *)call->workspace;
  c.eps = args->eps;
  c.gelu = args->gelu;
  unsigned pieces = (unsigned)(c.s.planes * c.s.pieces_each);
  auto both = [&](auto v) {
    if (c.statistics) {
      launch(group_given_kernel<T, W>, (unsigned)divide_up(2 * c.s.rows, GROUP_THREADS), GROUP_THREADS, 0, stream, c);
    } else {
      launch(group_moments_kernel<T, decltype(v)::value>, pieces, GROUP_THREADS, 0, stream, c.s, c.x, c.pieces);
      launch(group_statistics_kernel<T, W>, (unsigned)c.s.rows, GROUP_THREADS, 0, stream, c);
    }
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
  if (args->given) c.to_statistics = (float *)call->out[3].data;
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

static hr_status group_norm_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  const hr_group_norm_args *args = (const hr_group_norm_args *)call->args;
  hr_group_sizes s = hr__group_sizes(&call->in[0].desc, args->groups);
  return room_check(call, s, (size_t)hr__group_floats(&s, false) * sizeof(float), err);
}

static hr_status group_norm_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  const hr_group_norm_bwd_args *args = (const hr_group_norm_bwd_args *)call->args;
  hr_group_sizes s = hr__group_sizes(&call->in[HR_GROUP_X].desc, args->norm.groups);
  return room_check(call, s, (size_t)hr__group_floats(&s, true) * sizeof(float), err);
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

extern "C" const hr_cuda_launcher hr_cuda_group_norm = {{group_norm_prepare, nullptr, group_norm_run},
                                                        {GROUP_MOMENTS, NORM_PAIRS(group_statistics_kernel),
                                                         NORM_PAIRS(group_given_kernel),
                                                         GROUP_FUNCTIONS(group_apply_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_group_norm_bwd = {
    {group_norm_bwd_prepare, nullptr, group_norm_bwd_run},
    {GROUP_FUNCTIONS(group_sums_kernel), NORM_PAIRS(group_planes_kernel), NORM_PAIRS(group_rows_kernel),
     GROUP_FUNCTIONS(group_dx_kernel)}};
