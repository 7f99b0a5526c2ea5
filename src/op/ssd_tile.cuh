/* Tiles of the scan on a GPU: where they lie in shared memory, how they come there, and their products: of 16-bit types
 * by matrix instructions, of f32 by threads. See ssd_any.cuh.
 *
 * A block has TILE_WARPS warps and takes `tile` positions (a multiple of 16) at a time. Rows and columns of tiles are
 * padded to multiples of 16, with zeros, so that products need no edges.
 */
#ifndef HR_OP_SSD_TILE_CUH
#define HR_OP_SSD_TILE_CUH

#include "op/ssd_operands.cuh"

enum { TILE_WARPS = 4, TILE_THREADS = 32 * TILE_WARPS, TILE_EDGE = 16 };

__host__ __device__ inline int tile_padded(int64_t n) {
  return (int)(n + TILE_EDGE - 1) / TILE_EDGE * TILE_EDGE;
}
/* Elements between two rows: 16 bytes times an odd number, so that rows of a matrix lie in different banks. */
template <typename S> __host__ __device__ constexpr int tile_pitch(int columns) {
  return columns + 16 / (int)sizeof(S);
}

/* One tile of a block: positions [first, first + count) of a sequence. */
struct tile_place {
  int64_t sequence, chunk;
  int number, first, count, chunk_first, chunk_end;
};
template <typename T>
__device__ inline tile_place tile_at(const ssd_operands<T> &o, int64_t sequence, int64_t chunk, int number) {
  tile_place p;
  p.sequence = sequence;
  p.chunk = chunk;
  p.number = number;
  p.chunk_first = (int)(chunk * o.size.chunk);
  p.chunk_end = (int)min(o.size.length, (chunk + 1) * o.size.chunk);
  p.first = p.chunk_first + number * o.tile;
  p.count = min(o.tile, p.chunk_end - p.first);
  return p;
}

/* Columns of rows [first, first + count) of a sequence as a tile of `tile` rows; factor (or NULL) of each row. */
template <typename T, typename S, typename F>
__device__ inline void tile_load(S *to, const T *from, int64_t stride, int count, int tile, int columns, F factor) {
  int padded = tile_padded(columns), pitch = tile_pitch<S>(padded);
  for (int i = (int)threadIdx.x; i < tile * padded; i += TILE_THREADS) {
    int row = i / padded, column = i % padded;
    bool there = row < count && column < columns;
    to[row * pitch + column] = from_float<S>(there ? to_float(from[row * stride + column]) * factor(row) : 0.0f);
  }
}
/* The same without factors, 16 bytes at a time where they lie so. */
template <typename T, typename S>
__device__ inline void tile_copy(S *to, const T *from, int64_t stride, int count, int tile, int columns) {
  constexpr int PACK = 16 / (int)sizeof(S);
  if (sizeof(T) == sizeof(S) && columns % TILE_EDGE == 0 && stride % PACK == 0 && (uintptr_t)from % 16 == 0) {
    int packs = columns / PACK, pitch = tile_pitch<S>(columns);
    for (int i = (int)threadIdx.x; i < tile * packs; i += TILE_THREADS) {
      int row = i / packs, column = i % packs * PACK;
      uint4 words = make_uint4(0, 0, 0, 0);
      if (row < count) words = *(const uint4 *)(from + row * stride + column);
      *(uint4 *)(to + row * pitch + column) = words;
    }
  } else {
    tile_load(to, from, stride, count, tile, columns, [](int) { return 1.0f; });
  }
}

/* Sums of d A as f32 and what f32 cannot hold of them, so that exp of a difference is as exact as f32 can be. */
struct decay_line {
  float *high, *low;
  __device__ float above(int i, const decay_line &other, int j) const {
    return (high[i] - other.high[j]) + (low[i] - other.low[j]);
  }
  __device__ float between(int i, const decay_line &other, int j) const { return expf(above(i, other, j)); }
};
template <typename T> __device__ inline decay_line decays_at(const ssd_operands<T> &o, int64_t at) {
  return {o.decays + at, o.decays_low + at};
}

/* d (sums) of the tile's positions; 0 behind them. */
__device__ inline void line_load(float *to, const float *from, int count, int tile) {
  for (int i = (int)threadIdx.x; i < tile; i += TILE_THREADS)
    to[i] = i < count ? from[i] : 0.0f;
}

__device__ inline void decays_load(const decay_line &to, const decay_line &from, int count, int tile) {
  line_load(to.high, from.high, count, tile);
  line_load(to.low, from.low, count, tile);
}

/* each(i, j, sum over k of A(i, k) B(k, j)) for i < m, j < n; m, n and k are multiples of 16. A lies in rows of k, or
 * with TURN_A in rows of m; B in rows of n, or with TURN_B in rows of k. An element (i, j) is the same thread's in
 * every product of the same m and n. */
template <bool TURN_A, bool TURN_B, typename E>
__device__ inline void tile_product(int m, int n, int k, const float *a, const float *b, E each) {
  int lda = tile_pitch<float>(TURN_A ? m : k), ldb = tile_pitch<float>(TURN_B ? k : n);
  for (int at = (int)threadIdx.x; at < m / 4 * n; at += TILE_THREADS) {
    int i = at / n * 4, j = at % n;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int l = 0; l < k; l++) {
      float right = TURN_B ? b[j * ldb + l] : b[l * ldb + j];
#pragma unroll
      for (int r = 0; r < 4; r++)
        sum[r] = fmaf(TURN_A ? a[l * lda + i + r] : a[(i + r) * lda + l], right, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
      each(i + r, j, sum[r]);
  }
}

template <bool TURN_A, bool TURN_B, typename S, typename E>
__device__ inline void tile_product(int m, int n, int k, const S *a, const S *b, E each) {
  int lda = tile_pitch<S>(TURN_A ? m : k), ldb = tile_pitch<S>(TURN_B ? k : n);
  int lane = (int)threadIdx.x % 32, row = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  int across = n / 16, all = m / 16 * across;
  for (int at = (int)threadIdx.x / 32; at < all; at += TILE_WARPS) {
    int i = at / across * 16, j = at % across * 16;
    float sum[2][4] = {};
    for (int l = 0; l < k; l += 16) {
      uint32_t left[4], right[4];
      if constexpr (TURN_A)
        matrices_load_transposed(left, a + (l + high + row) * lda + i + low);
      else
        matrices_load(left, a + (i + low + row) * lda + l + high);
      if constexpr (TURN_B)
        matrices_load(right, b + (j + high + row) * ldb + l + low);
      else
        matrices_load_transposed(right, b + (l + low + row) * ldb + j + high);
      multiply<S>(sum[0], left, right[0], right[1]);
      multiply<S>(sum[1], left, right[2], right[3]);
    }
    int q = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        each(i + q + e / 2 * 8, j + 8 * half + 2 * t + e % 2, sum[half][e]);
  }
}

/* Shared memory of the kernels that go over tiles, in bytes from its beginning. N and P: padded. */
template <typename S> struct tile_rooms {
  int state, dim;               /* N, P */
  size_t own_n, own_p;          /* [tile, N], [tile, P] */
  size_t other_n, other_p;      /* the same of the tiles that stream by */
  size_t weights, slopes;       /* [tile, tile] */
  size_t block;                 /* a state [N, P], where those four lie */
  size_t sum_n, sum_p, scratch; /* f32 [tile, N], [tile, P], [tile, widest] */
  size_t lines;                 /* f32, five of a tile */
  int sum_n_pitch, sum_p_pitch, scratch_pitch;
  size_t bytes;
};

/* Forward needs neither sum_n nor scratch. */
template <typename S>
__host__ __device__ inline tile_rooms<S> tile_rooms_of(const hr_ssd_sizes &size, int tile, bool backward) {
  tile_rooms<S> r = {};
  r.state = tile_padded(size.state);
  r.dim = tile_padded(size.dim);
  size_t n = (size_t)tile * tile_pitch<S>(r.state) * sizeof(S), p = (size_t)tile * tile_pitch<S>(r.dim) * sizeof(S);
  size_t square = (size_t)tile * tile_pitch<S>(tile) * sizeof(S);
  size_t whole = (size_t)r.state * tile_pitch<S>(r.dim) * sizeof(S), stream = n + p + 2 * square;
  int widest = r.state > r.dim ? r.state : r.dim;
  r.own_p = n;
  r.block = r.other_n = n + p;
  r.other_p = r.other_n + n;
  r.weights = r.other_p + p;
  r.slopes = r.weights + square;
  r.sum_n_pitch = r.state + 1;
  r.sum_p_pitch = r.dim + 1;
  r.scratch_pitch = (widest > tile ? widest : tile) + 1;
  r.sum_n = r.block + (whole > stream ? whole : stream);
  r.sum_p = r.sum_n + (backward ? (size_t)tile * r.sum_n_pitch * sizeof(float) : 0);
  r.scratch = r.sum_p + (size_t)tile * r.sum_p_pitch * sizeof(float);
  r.lines = r.scratch + (backward ? (size_t)tile * r.scratch_pitch * sizeof(float) : 0);
  r.bytes = r.lines + 5 * (size_t)tile * sizeof(float);
  return r;
}

#endif
