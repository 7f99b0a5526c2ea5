/* group_statistics and its backward op on CUDA: a block for each piece and one for each row; op/group_norm_kernel.c has
 * the formulas. */
#include "op/group_pieces.cuh"

struct statistics_call {
  hr_group_sizes s;
  const float *before, *dy, *of_all, *of_own; /* before: NULL for none; the others of backward */
  float *all, *own, *to_before, *pieces, *row;
  double count; /* elements of a row that came before */
  float eps;
};

static __global__ void __launch_bounds__(GROUP_THREADS) group_joined_kernel(statistics_call c) {
  __shared__ moments of[GROUP_THREADS];
  moments own = row_moments(c.s, c.pieces, of), all = own;
  if (threadIdx.x != 0) return;
  if (c.before) {
    const float *before = c.before + 2 * (int64_t)blockIdx.x;
    double variance = fmax(0.0, 1 / ((double)before[1] * (double)before[1]) - (double)c.eps);
    all = moments_joined({c.count, (double)before[0], c.count * variance}, own);
  }
  statistics_write(c.all, all, c.eps);
  statistics_write(c.own, own, c.eps);
}

/* A thread for each row: what dx is made of, and the gradient of the statistics before. */
static __global__ void __launch_bounds__(GROUP_THREADS) group_joined_bwd_kernel(statistics_call c) {
  int64_t row = blockIdx.x * (int64_t)GROUP_THREADS + threadIdx.x;
  if (row >= c.s.rows) return;
  double rstd = (double)c.of_all[2 * row + 1], mean = (double)c.dy[2 * row];
  double variance = -0.5 * rstd * rstd * rstd * (double)c.dy[2 * row + 1];
  double count = (double)(c.s.planes_each * c.s.places), share = count / (count + c.count), apart = 0;
  if (c.before) {
    double was = (double)c.before[2 * row + 1];
    apart = (double)c.of_own[2 * row] - (double)c.before[2 * row];
    c.to_before[2 * row] = (float)((1 - share) * (mean - 2 * share * apart * variance));
    c.to_before[2 * row + 1] = (float)((1 - share) * variance * -2 / (was * was * was));
  }
  c.row[2 * row] = (float)(share * (mean + 2 * (1 - share) * apart * variance) / count);
  c.row[2 * row + 1] = (float)(2 * share * variance / count);
}

/* dx may lie on x or the partial sum: a thread writes only what it has read. */
template <typename T, int V>
static __global__ void __launch_bounds__(GROUP_THREADS)
    group_joined_dx_kernel(statistics_call c, const T *from, const T *partial, T *to) {
  piece p = piece_here(c.s);
  float a = c.row[2 * p.row], b = c.row[2 * p.row + 1], mean = c.of_own[2 * p.row];
  each_pack<V>(p, [&](int64_t at) {
    float x[V], before[V] = {};
    pack_read<V>(from + at, x);
    if (partial) pack_read<V>(partial + at, before);
#pragma unroll
    for (int e = 0; e < V; e++)
      x[e] = before[e] + (a + b * (x[e] - mean));
    pack_write<V>(to + at, x);
  });
}

static statistics_call call_of(const hr_call *call, int x, int before) {
  const hr_group_statistics_args *args = (const hr_group_statistics_args *)call->args;
  statistics_call c = {};
  c.s = hr__group_sizes(&call->in[x].desc, args->groups);
  c.before = (const float *)call->in[before].data;
  c.count = (double)args->before;
  c.eps = args->eps;
  c.pieces = c.row = (float *)call->workspace;
  return c;
}

template <typename T> static hr_status group_statistics_launch(const hr_call *call) {
  statistics_call c = call_of(call, 0, 1);
  cudaStream_t stream = call_stream(call);
  const T *x = (const T *)call->in[0].data;
  c.all = (float *)call->out[0].data;
  c.own = (float *)call->out[1].data;
  auto of_pieces = [&](auto v) {
    launch(group_moments_kernel<T, decltype(v)::value>, (unsigned)(c.s.planes * c.s.pieces_each), GROUP_THREADS, 0,
           stream, c.s, x, c.pieces);
  };
  by_packs<T>(c.s, of_pieces, x);
  launch(group_joined_kernel, (unsigned)c.s.rows, GROUP_THREADS, 0, stream, c);
  return launched();
}

template <typename T> static hr_status group_statistics_bwd_launch(const hr_call *call) {
  statistics_call c = call_of(call, HR_STATS_X, HR_STATS_BEFORE);
  cudaStream_t stream = call_stream(call);
  const T *x = (const T *)call->in[HR_STATS_X].data, *partial = (const T *)call->in[HR_STATS_DX_PARTIAL].data;
  T *to = (T *)call->out[0].data;
  c.dy = (const float *)call->in[HR_STATS_DY].data;
  c.of_all = (const float *)call->in[HR_STATS_ALL].data;
  c.of_own = (const float *)call->in[HR_STATS_OWN].data;
  c.to_before = (float *)call->out[1].data;
  launch(group_joined_bwd_kernel, (unsigned)divide_up(c.s.rows, GROUP_THREADS), GROUP_THREADS, 0, stream, c);
  auto of_pieces = [&](auto v) {
    launch(group_joined_dx_kernel<T, decltype(v)::value>, (unsigned)(c.s.planes * c.s.pieces_each), GROUP_THREADS, 0,
           stream, c, x, partial, to);
  };
  by_packs<T>(c.s, of_pieces, x, partial, to);
  return launched();
}

static hr_status group_statistics_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  hr_group_sizes s = call_of(call, 0, 1).s;
  return room_check(call, s, (size_t)hr__group_floats(&s, false) * sizeof(float), err);
}

static hr_status group_statistics_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  hr_group_sizes s = call_of(call, HR_STATS_X, HR_STATS_BEFORE).s;
  return room_check(call, s, 2 * (size_t)s.rows * sizeof(float), err);
}

static hr_status group_statistics_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) { return group_statistics_launch<decltype(t)>(call); });
}

static hr_status group_statistics_bwd_run(const hr_call *call) {
  return by_dtype(call->in[HR_STATS_X].desc.dtype,
                  [&](auto t) { return group_statistics_bwd_launch<decltype(t)>(call); });
}

#define JOINED_DX(T) (const void *)group_joined_dx_kernel<T, GROUP_WIDE<T>>, (const void *)group_joined_dx_kernel<T, 1>

extern "C" const hr_cuda_launcher hr_cuda_group_statistics = {{group_statistics_prepare, nullptr, group_statistics_run},
                                                              {GROUP_MOMENTS, (const void *)group_joined_kernel}};

extern "C" const hr_cuda_launcher hr_cuda_group_statistics_bwd = {
    {group_statistics_bwd_prepare, nullptr, group_statistics_bwd_run},
    {(const void *)group_joined_bwd_kernel, JOINED_DX(float), JOINED_DX(bf16), JOINED_DX(f16)}};
