/* What the kernels of group_norm.cu and group_statistics.cu share: pieces of channels (op/group_norm.h), each with a
 * block of threads, and moments of them. */
#ifndef HR_OP_GROUP_PIECES_CUH
#define HR_OP_GROUP_PIECES_CUH

#include <type_traits>

#include "op/norm.cuh"
extern "C" {
#include "op/group_norm.h"
}

enum { GROUP_THREADS = 256 };

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

/* Packs of a piece that a thread goes through, GROUP_THREADS apart: function(element of x), with V behind it. */
template <int V, typename F> __device__ inline void each_pack(const piece &p, const F &function) {
#pragma unroll 4
  for (int64_t i = threadIdx.x * V; i < p.count; i += GROUP_THREADS * V)
    function(p.at + i);
}

/* V: elements that are read at once; pieces then begin at multiples of them and have whole packs. */
template <typename T, int V>
static __global__ void __launch_bounds__(GROUP_THREADS)
    group_moments_kernel(hr_group_sizes s, const T *from, float *pieces) {
  __shared__ float warps[2][GROUP_THREADS / WARP];
  piece p = piece_here(s);
  float sum = 0.0f, squares = 0.0f;
  each_pack<V>(p, [&](int64_t at) {
    float x[V];
    pack_read<V>(from + at, x);
#pragma unroll
    for (int e = 0; e < V; e++)
      sum += x[e];
  });
  float mean = row_sum(sum, warps[0]) / (float)p.count;
  each_pack<V>(p, [&](int64_t at) {
    float x[V];
    pack_read<V>(from + at, x);
#pragma unroll
    for (int e = 0; e < V; e++) {
      float v = x[e] - mean;
      squares += v * v;
    }
  });
  squares = row_sum(squares, warps[1]);
  if (threadIdx.x != 0) return;
  pieces[2 * (int64_t)blockIdx.x] = mean;
  pieces[2 * (int64_t)blockIdx.x + 1] = squares;
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

/* Moments of a row, to all threads of a block: a thread joins every GROUP_THREADS-th piece, then a fixed tree joins the
 * threads. `of`: shared memory, one for each thread. */
__device__ inline moments row_moments(const hr_group_sizes &s, const float *pieces, moments *of) {
  int64_t each = s.planes_each * s.pieces_each, first = blockIdx.x * each;
  moments m = {0, 0, 0};
  for (int64_t i = threadIdx.x; i < each; i += GROUP_THREADS) {
    int64_t begin = (first + i) % s.pieces_each * HR_GROUP_PIECE;
    double count = (double)min((int64_t)HR_GROUP_PIECE, s.places - begin);
    m = moments_joined(m, {count, (double)pieces[2 * (first + i)], (double)pieces[2 * (first + i) + 1]});
  }
  of[threadIdx.x] = m;
  for (unsigned lanes = GROUP_THREADS / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.x < lanes) of[threadIdx.x] = moments_joined(of[threadIdx.x], of[threadIdx.x + lanes]);
  }
  __syncthreads();
  return of[0];
}

/* To statistics of row number blockIdx.x; by one thread. */
__device__ inline void statistics_write(float *to, moments m, float eps) {
  to[2 * (int64_t)blockIdx.x] = (float)m.mean;
  to[2 * (int64_t)blockIdx.x + 1] = (float)(1 / sqrt(m.squares / m.n + (double)eps));
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

/* The plan gave the call room, and there are no more pieces than a grid has blocks. */
static hr_status room_check(const hr_call *call, const hr_group_sizes &s, size_t bytes, hr_error *err) {
  const hr_cuda_host &host = device_state(call)->host;
  if (call->workspace_bytes < bytes)
    return host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed", call->workspace_bytes,
                     bytes);
  if (s.planes * s.pieces_each < INT32_MAX) return HR_OK;
  return host.fail(err, HR_UNSUPPORTED, NULL, "take fewer samples at a time", "%lld channels to be normalised at once",
                   (long long)s.planes);
}

#define GROUP_MOMENTS_OF(T)                                                                                            \
  (const void *)group_moments_kernel<T, GROUP_WIDE<T>>, (const void *)group_moments_kernel<T, 1>
#define GROUP_MOMENTS GROUP_MOMENTS_OF(float), GROUP_MOMENTS_OF(bf16), GROUP_MOMENTS_OF(f16)

#endif
