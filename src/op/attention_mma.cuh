/* Attention of 16-bit types with matrix instructions (mma.sync m16n8k16, f32 sums): scores never leave registers.
 *
 * Fragments. With g = lane / 4 and t = lane % 4, a lane holds of C [16,8] = A [16,16] B [16,8]:
 *   A   a[0] (g, 2t..2t+1)      a[1] (g + 8, 2t..2t+1)      a[2] (g, 2t+8..2t+9)      a[3] (g + 8, 2t+8..2t+9)
 *   B   b[0] (2t..2t+1, g)      b[1] (2t+8..2t+9, g)
 *   C   c[0], c[1] (g, 2t..2t+1)     c[2], c[3] (g + 8, 2t..2t+1)
 * So two neighbouring C are one A: of C tiles n and n + 1, A = (c0c1 of n, c2c3 of n, c0c1 of n + 1, c2c3 of n + 1).
 *
 * ldmatrix gives a lane of an 8 x 8 matrix the elements (g, 2t..2t+1), transposed (2t..2t+1, g). Lane l names row l % 8
 * of matrix l / 8, and register i is of matrix i.
 *
 * In shared memory a row is DIM + 8 elements long: 16 bytes times an odd number, so that the eight rows of a matrix lie
 * in different banks. DIM is head_dim rounded up; the elements between are zero.
 */
#ifndef HR_OP_ATTENTION_MMA_CUH
#define HR_OP_ATTENTION_MMA_CUH

#include "dev/cuda/pair.cuh"
#include "op/attention_mask.cuh"
#include "op/attention_rows.cuh"

/* How the work is cut for a head size; every number fits registers and shared memory of all GPUs from sm_80 on.
 * A warp owns 16 x ..._M rows: queries in forward and dq, keys in dkdv; ..._N: columns of a tile, of which scores are
 * made ..._PART at a time; ..._BLOCKS: of a multiprocessor at least. What is read from shared memory feeds M products:
 * with M = 1 reading takes longer than multiplying. Where heads are wider dkdv stays at 1, since short sequences with
 * few key/value heads would give too few blocks. */
template <int DIM> struct mma_shape;
template <> struct mma_shape<32> {
  static constexpr int FORWARD_M = 2, FORWARD_N = 64, FORWARD_PART = 32, FORWARD_BLOCKS = 4, DQ_M = 2, DQ_N = 64,
                       DQ_PART = 32, DQ_BLOCKS = 3, DKDV_M = 2, DKDV_N = 64, DKDV_PART = 32, DKDV_BLOCKS = 2;
};
template <> struct mma_shape<64> {
  static constexpr int FORWARD_M = 2, FORWARD_N = 64, FORWARD_PART = 64, FORWARD_BLOCKS = 1, DQ_M = 2, DQ_N = 32,
                       DQ_PART = 32, DQ_BLOCKS = 1, DKDV_M = 1, DKDV_N = 64, DKDV_PART = 64, DKDV_BLOCKS = 1;
};
template <> struct mma_shape<128> {
  static constexpr int FORWARD_M = 1, FORWARD_N = 64, FORWARD_PART = 64, FORWARD_BLOCKS = 1, DQ_M = 1, DQ_N = 32,
                       DQ_PART = 32, DQ_BLOCKS = 1, DKDV_M = 1, DKDV_N = 32, DKDV_PART = 32, DKDV_BLOCKS = 1;
};

enum { MMA_WARPS = 4, MMA_THREADS = 32 * MMA_WARPS, MMA_PAD = 8 };

template <int DIM> constexpr int mma_pitch = DIM + MMA_PAD;

/* Bytes of shared memory: the rows a block owns (`owned` tiles of them), and two stages of two tiles that stream by. */
template <int DIM> constexpr size_t mma_shared(int owned, int m, int n, size_t facts) {
  return (size_t)(owned * 16 * m * MMA_WARPS + 4 * n) * mma_pitch<DIM> * 2 + facts;
}
template <int DIM>
constexpr size_t mma_forward_bytes = mma_shared<DIM>(1, mma_shape<DIM>::FORWARD_M, mma_shape<DIM>::FORWARD_N, 0);
template <int DIM> constexpr size_t mma_dq_bytes = mma_shared<DIM>(2, mma_shape<DIM>::DQ_M, mma_shape<DIM>::DQ_N, 0);
template <int DIM>
constexpr size_t mma_dkdv_bytes = mma_shared<DIM>(2, mma_shape<DIM>::DKDV_M, mma_shape<DIM>::DKDV_N,
                                                  2 * mma_shape<DIM>::DKDV_N * sizeof(query_facts));

/* ---- tiles and fragments ---- */

/* Rows [first, first + ROWS) of a head into a tile; what lies behind `end` or behind the head is zero. head_dim is a
 * multiple of 8, and rows begin at multiples of 16 bytes. */
template <int DIM, int ROWS, typename T>
static __device__ inline void tile_start(T *tile, const T *from, int64_t stride, int first, int end, int dim) {
  constexpr int PIECES = DIM / 8, STEP = MMA_THREADS / PIECES; /* a thread copies the same columns of each row */
  static_assert(ROWS % STEP == 0, "every thread copies as many pieces");
  int r = (int)threadIdx.x / PIECES, d = (int)threadIdx.x % PIECES * 8;
  const T *at = from + (int64_t)(first + r) * stride + d;
  T *to = tile + r * mma_pitch<DIM> + d;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP, at += STEP * stride) {
    bool there = first + r + i < end && d < dim;
    copy_start<16>(to + i * mma_pitch<DIM>, there ? at : from, there);
  }
}

/* A = tile[row .., column ..] */
template <int DIM, typename T>
static __device__ inline void fragment_a(uint32_t (&a)[4], const T *tile, int row, int column) {
  int lane = (int)threadIdx.x % 32;
  row += lane % 16;
  column += lane / 16 * 8;
  matrices_load(a, tile + row * mma_pitch<DIM> + column);
}
/* Two B side by side, of the transpose of a tile: B[k][n] = tile[row + n][column + k]. b[0], b[1]: n < 8; b[2], b[3]:
 * n >= 8. */
template <int DIM, typename T>
static __device__ inline void fragment_b_of_rows(uint32_t (&b)[4], const T *tile, int row, int column) {
  int lane = (int)threadIdx.x % 32;
  row += lane % 8 + lane / 16 * 8;
  column += lane / 8 % 2 * 8;
  matrices_load(b, tile + row * mma_pitch<DIM> + column);
}
/* Two B side by side: B[k][n] = tile[row + k][column + n]. */
template <int DIM, typename T>
static __device__ inline void fragment_b(uint32_t (&b)[4], const T *tile, int row, int column) {
  int lane = (int)threadIdx.x % 32;
  row += lane % 16;
  column += lane / 16 * 8;
  matrices_load_transposed(b, tile + row * mma_pitch<DIM> + column);
}

/* The A of all of a warp's rows, 16 M of them from `row` of a tile on: HELD in registers for the whole kernel where
 * there is room, else read again for every tile. */
template <typename T, int DIM, int M, bool HELD> struct owned_rows {
  const T *tile;
  int row;
  uint32_t held[HELD ? DIM / 16 : 1][HELD ? M : 1][4];

  __device__ inline void begin(const T *from, int first) {
    tile = from;
    row = first;
    if constexpr (HELD) {
#pragma unroll
      for (int k = 0; k < DIM / 16; k++)
#pragma unroll
        for (int m = 0; m < M; m++)
          fragment_a<DIM>(held[k][m], tile, row + 16 * m, 16 * k);
    }
  }
  __device__ inline void get(uint32_t (&a)[4], int k, int m) const {
    if constexpr (HELD) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        a[i] = held[k][m][i];
    } else {
      fragment_a<DIM>(a, tile, row + 16 * m, 16 * k);
    }
  }
};

/* Scores of a warp: [16 M, 8 N], element e of C tile (m, n) at row 16 m + g + 8 (e / 2), column 8 n + 2 t + e % 2. */
template <int M, int N> using mma_tiles = float[M][N][4];

template <int M, int N> static __device__ inline void tiles_clear(mma_tiles<M, N> &c) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        c[m][n][e] = 0.0f;
}

/* s = owned rows times the rows of a tile of 8 N rows */
template <typename T, int DIM, int M, int N, bool HELD>
static __device__ inline void scores_make(mma_tiles<M, N> &s, const owned_rows<T, DIM, M, HELD> &rows, const T *tile) {
  tiles_clear<M, N>(s);
#pragma unroll
  for (int k = 0; k < DIM / 16; k++) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
      rows.get(a[m], k, m);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      fragment_b_of_rows<DIM>(b, tile, 8 * n, 16 * k);
#pragma unroll
      for (int m = 0; m < M; m++) {
        multiply<T>(s[m][n], a[m], b[0], b[1]);
        multiply<T>(s[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/* Scores that are not visible become -inf, which is a weight of 0 in base 2 whatever is subtracted. Row 0 of the warp's
 * scores is at position `row`, column 0 at `column`; visible(row, column) says what is. */
template <int M, int N, typename F>
static __device__ inline void scores_hide(mma_tiles<M, N> &s, int row, int column, const F &visible) {
  int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (!visible(row + g + 16 * m + 8 * (e / 2), column + 2 * t + 8 * n + e % 2)) s[m][n][e] = -INFINITY;
}

/* sums [16 M, DIM] += s [16 M, 8 N], rounded to T, times a tile [8 N, DIM] */
template <typename T, int DIM, int M, int N>
static __device__ inline void sums_add(mma_tiles<M, DIM / 8> &sums, const mma_tiles<M, N> &s, const T *tile) {
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; m++) {
      a[m][0] = pair_of(T(), s[m][k][0], s[m][k][1]);
      a[m][1] = pair_of(T(), s[m][k][2], s[m][k][3]);
      a[m][2] = pair_of(T(), s[m][k + 1][0], s[m][k + 1][1]);
      a[m][3] = pair_of(T(), s[m][k + 1][2], s[m][k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < DIM / 8; n += 2) {
      uint32_t b[4];
      fragment_b<DIM>(b, tile, 8 * k, 8 * n);
#pragma unroll
      for (int m = 0; m < M; m++) {
        multiply<T>(sums[m][n], a[m], b[0], b[1]);
        multiply<T>(sums[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/* Weights of a row are 2^(score - base), scores being in base 2. base is the largest score that the row had when it was
 * set last: its largest need not be known before weights are made, as those up to 2^REBASE lose nothing. When a lane's
 * sum of a row says that they grow beyond that, which is seldom, they are made again. Until a row has seen a key its
 * base is -inf. */
static constexpr float REBASE = 8.0f;

/* Turns scores into weights; sum: of this lane's columns. BLIND: rows without a base are there. */
template <bool BLIND, int M, int N>
static __device__ inline void weights_make(mma_tiles<M, N> &s, const float (&base)[M][2], float (&sum)[M][2],
                                           float scale2) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float from = BLIND && base[m][half] == -INFINITY ? 0.0f : base[m][half];
      sum[m][half] = 0.0f;
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          s[m][n][e] = near_power_of_two(fmaf(s[m][n][e], scale2, -from));
          sum[m][half] += s[m][n][e];
        }
    }
}

/* Whether all rows of the warp have weights that are small enough. */
template <int M> static __device__ inline bool weights_fit(const float (&sum)[M][2]) {
  bool fit = true;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      fit = fit && sum[m][half] <= (float)(1 << (int)REBASE);
  return !__any_sync(~0u, !fit);
}

/* Takes the scores into the bases of their rows; what was summed so far follows. Whether all rows have one. */
template <int M, int N, int D>
static __device__ inline bool rows_rebase(const mma_tiles<M, N> &s, float (&base)[M][2], float (&total)[M][2],
                                          mma_tiles<M, D> &sums, float scale2) {
  bool begun = true;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float high = -INFINITY;
#pragma unroll
      for (int n = 0; n < N; n++)
        high = fmaxf(high, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
      float next = fmaxf(base[m][half], high * scale2);
      begun = begun && next > -INFINITY;
      if (next == -INFINITY) continue;
      float keep = near_power_of_two(base[m][half] - next);
      base[m][half] = next;
      total[m][half] *= keep;
#pragma unroll
      for (int n = 0; n < D; n++)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; e++)
          sums[m][n][e] *= keep;
    }
  return !__any_sync(~0u, !begun);
}

/* Rows [first, first + 16 M) of a head = sums, row (m, half) times factor[m][half]. They go through the warp's own rows
 * of a tile, which nobody else reads any more, so that memory is written in pieces of 16 bytes. */
template <typename T, int DIM, int M>
static __device__ inline void sums_store(const mma_tiles<M, DIM / 8> &sums, const float (&factor)[M][2], T *own, T *to,
                                         int64_t stride, int first, int length, int dim) {
  constexpr int PIECES = DIM / 8;
  int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *(uint32_t *)(own + (16 * m + g + 8 * half) * mma_pitch<DIM> + 8 * n + 2 * t) =
            pair_of(T(), sums[m][n][2 * half] * factor[m][half], sums[m][n][2 * half + 1] * factor[m][half]);
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * M * PIECES; i += 32) {
    int r = i / PIECES, d = i % PIECES * 8;
    if (first + r < length && d < dim)
      *(uint4 *)(to + (int64_t)(first + r) * stride + d) = *(const uint4 *)(own + r * mma_pitch<DIM> + d);
  }
}

/* ---- kernels; S: sight, causal_sight or document_sight; DROPS: with dropout ---- */

/* A block: one head, 64 M queries, M x 16 of them a warp's. */
template <typename T, int DIM, typename S, bool DROPS>
static __global__ void __launch_bounds__(MMA_THREADS, mma_shape<DIM>::FORWARD_BLOCKS)
    attention_mma_forward(forward_operands<T> o) {
  constexpr int M = mma_shape<DIM>::FORWARD_M, KEYS = mma_shape<DIM>::FORWARD_N, PART = mma_shape<DIM>::FORWARD_PART,
                N = PART / 8;
  constexpr int QUERIES = 16 * M * MMA_WARPS, STAGE = KEYS * mma_pitch<DIM>;
  unsigned char *shared = launch_shared<unsigned char>();
  T *q_tile = (T *)shared, *k_tiles = q_tile + QUERIES * mma_pitch<DIM>, *v_tiles = k_tiles + 2 * STAGE;
  int length = o.size.length, dim = o.size.head_dim;
  block_place at = place_of_block(o.size, o.size.heads, (length + QUERIES - 1) / QUERIES, true);
  int kv_head = at.head / (o.size.heads / o.size.kv_heads), first = at.tile * QUERIES;
  int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
  int own = 16 * M * warp; /* the warp's first row of the tile */
  const T *k = head_start(o.k, o.size, at.batch, kv_head), *v = head_start(o.v, o.size, at.batch, kv_head);
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int begin = sees.keys_begin(first) / KEYS * KEYS, seen = sees.keys_end(first, first + QUERIES);

  tile_start<DIM, QUERIES>(q_tile, head_start(o.q, o.size, at.batch, at.head), o.q.stride, first, sees.end, dim);
  tile_start<DIM, KEYS>(k_tiles, k, o.k.stride, begin, sees.end, dim);
  tile_start<DIM, KEYS>(v_tiles, v, o.v.stride, begin, sees.end, dim);
  copies_wait();
  __syncthreads();

  owned_rows<T, DIM, M, DIM * M <= 128> rows;
  rows.begin(q_tile, own);
  mma_tiles<M, DIM / 8> sums;
  tiles_clear<M, DIM / 8>(sums);
  float base[M][2], total[M][2],
      scale2 = o.size.scale * LOG2_E; /* scale > 0: the largest product is the largest score */
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      base[m][half] = -INFINITY, total[m][half] = 0.0f;
  bool begun = false; /* all rows of the warp have a base */

  int row = first + own;
  for (int key = begin, stage = 0; key < seen; key += KEYS, stage ^= 1) {
    if (key + KEYS < seen) { /* the other stage was read before the last barrier */
      tile_start<DIM, KEYS>(k_tiles + (stage ^ 1) * STAGE, k, o.k.stride, key + KEYS, sees.end, dim);
      tile_start<DIM, KEYS>(v_tiles + (stage ^ 1) * STAGE, v, o.v.stride, key + KEYS, sees.end, dim);
    }
#pragma unroll 1
    for (int part = key; part < key + KEYS; part += PART) {
      const int at_part = stage * STAGE + (part - key) * mma_pitch<DIM>;
      if (sees.none(row, row + 16 * M, part, part + PART)) continue;
      mma_tiles<M, N> s;
      float sum[M][2];
      auto scores = [&]() {
        scores_make<T, DIM, M, N>(s, rows, k_tiles + at_part);
        if (!sees.all(row, row + 16 * M, part, part + PART))
          scores_hide<M, N>(s, row, part, [&](int i, int j) { return sees.has(i, j); });
      };
      scores();
      bool fit = false;
      if (begun) {
        weights_make<false>(s, base, sum, scale2);
        fit = weights_fit<M>(sum);
        if (!fit) scores();
      }
      if (!fit) {
        begun = rows_rebase<M, N, DIM / 8>(s, base, total, sums, scale2);
        weights_make<S::MAY_BE_BLIND>(s, base, sum, scale2);
      }
#pragma unroll
      for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          total[m][half] += sum[m][half]; /* of this lane's columns; the four lanes of a row meet below */
      if constexpr (DROPS) {
#pragma unroll
        for (int m = 0; m < M; m++) {
          uint32_t word[N / 2];
          mask_make<N>(word, mask, at.head, row + 16 * m, part);
#pragma unroll
          for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
              if (!mask_keeps(word[n / 2], n, e)) s[m][n][e] = 0.0f;
        }
      }
      sums_add<T, DIM, M, N>(sums, s, v_tiles + at_part);
    }
    copies_wait();
    __syncthreads();
  }

#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int query = row + 16 * m + g + 8 * half;
      bool there = query < sees.end;
      float sum = total[m][half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (t == 0 && query < length)
        o.lse[((int64_t)at.batch * o.size.heads + at.head) * length + query] =
            there ? base[m][half] / LOG2_E + logf(sum) : 0.0f;
      total[m][half] = there ? o.size.drop.scale / sum : 0.0f;
    }
  sums_store<T, DIM, M>(sums, total, q_tile + own * mma_pitch<DIM>, head_start(o.y, o.size, at.batch, at.head),
                        o.y.stride, row, length, dim);
}

/* dq. A block: one head, 64 M queries. */
template <typename T, int DIM, typename S, bool DROPS>
static __global__ void __launch_bounds__(MMA_THREADS, mma_shape<DIM>::DQ_BLOCKS)
    attention_mma_dq(backward_operands<T> o) {
  constexpr int M = mma_shape<DIM>::DQ_M, KEYS = mma_shape<DIM>::DQ_N, PART = mma_shape<DIM>::DQ_PART, N = PART / 8;
  constexpr int QUERIES = 16 * M * MMA_WARPS, OWNED = QUERIES * mma_pitch<DIM>, STAGE = KEYS * mma_pitch<DIM>;
  unsigned char *shared = launch_shared<unsigned char>();
  T *q_tile = (T *)shared, *dy_tile = q_tile + OWNED, *k_tiles = dy_tile + OWNED, *v_tiles = k_tiles + 2 * STAGE;
  int length = o.size.length, dim = o.size.head_dim;
  block_place at = place_of_block(o.size, o.size.heads, (length + QUERIES - 1) / QUERIES, true);
  int kv_head = at.head / (o.size.heads / o.size.kv_heads), first = at.tile * QUERIES;
  int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
  int own = 16 * M * warp;
  const T *k = head_start(o.k, o.size, at.batch, kv_head), *v = head_start(o.v, o.size, at.batch, kv_head);
  const query_facts *facts = o.facts + ((int64_t)at.batch * o.size.heads + at.head) * length;
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int begin = sees.keys_begin(first) / KEYS * KEYS, seen = sees.keys_end(first, first + QUERIES);

  tile_start<DIM, QUERIES>(q_tile, head_start(o.q, o.size, at.batch, at.head), o.q.stride, first, sees.end, dim);
  tile_start<DIM, QUERIES>(dy_tile, head_start(o.dy, o.size, at.batch, at.head), o.dy.stride, first, sees.end, dim);
  tile_start<DIM, KEYS>(k_tiles, k, o.k.stride, begin, sees.end, dim);
  tile_start<DIM, KEYS>(v_tiles, v, o.v.stride, begin, sees.end, dim);
  query_facts fact[M][2];
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int query = first + own + 16 * m + g + 8 * half;
      fact[m][half] = query < sees.end ? facts[query] : query_facts{0.0f, 0.0f};
    }
  copies_wait();
  __syncthreads();

  owned_rows<T, DIM, M, DIM * M <= 128> q_rows;
  owned_rows<T, DIM, M, DIM * M <= 64> dy_rows; /* registers for more of both would not do */
  q_rows.begin(q_tile, own);
  dy_rows.begin(dy_tile, own);
  mma_tiles<M, DIM / 8> sums;
  tiles_clear<M, DIM / 8>(sums);
  float scale2 = o.size.scale * LOG2_E;

  int row = first + own;
  for (int key = begin, stage = 0; key < seen; key += KEYS, stage ^= 1) {
    if (key + KEYS < seen) {
      tile_start<DIM, KEYS>(k_tiles + (stage ^ 1) * STAGE, k, o.k.stride, key + KEYS, sees.end, dim);
      tile_start<DIM, KEYS>(v_tiles + (stage ^ 1) * STAGE, v, o.v.stride, key + KEYS, sees.end, dim);
    }
#pragma unroll 1
    for (int part = key; part < key + KEYS; part += PART) {
      if (sees.none(row, row + 16 * M, part, part + PART)) continue;
      const T *k_tile = k_tiles + stage * STAGE + (part - key) * mma_pitch<DIM>;
      const T *v_tile = v_tiles + stage * STAGE + (part - key) * mma_pitch<DIM>;
      mma_tiles<M, N> s, ds;
      scores_make<T, DIM, M, N>(s, q_rows, k_tile);
      scores_make<T, DIM, M, N>(ds, dy_rows, v_tile);
      if (!sees.all(row, row + 16 * M, part, part + PART))
        scores_hide<M, N>(s, row, part, [&](int i, int j) { return sees.has(i, j); });
#pragma unroll
      for (int m = 0; m < M; m++) {
        [[maybe_unused]] uint32_t word[N / 2];
        if constexpr (DROPS) mask_make<N>(word, mask, at.head, row + 16 * m, part);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            float p = near_power_of_two(fmaf(s[m][n][e], scale2, -fact[m][e / 2].lse2));
            if constexpr (DROPS) ds[m][n][e] = mask_keeps(word[n / 2], n, e) ? ds[m][n][e] * o.size.drop.scale : 0.0f;
            ds[m][n][e] = p * (ds[m][n][e] - fact[m][e / 2].delta);
          }
      }
      sums_add<T, DIM, M, N>(sums, ds, k_tile);
    }
    copies_wait();
    __syncthreads();
  }

  float factor[M][2];
#pragma unroll
  for (int m = 0; m < M; m++)
    factor[m][0] = factor[m][1] = o.size.scale;
  sums_store<T, DIM, M>(sums, factor, q_tile + own * mma_pitch<DIM>, head_start(o.dq, o.size, at.batch, at.head),
                        o.dq.stride, row, length, dim);
}

/* dk and dv. A block: one key/value head, 64 M keys; it sums over the query heads of the group in order, for each over
 * the tiles of queries that see its keys. Scores are transposed (rows are keys, columns are queries), so that they
 * are the left side of both products. */
template <typename T, int DIM, typename S, bool DROPS>
static __global__ void __launch_bounds__(MMA_THREADS, mma_shape<DIM>::DKDV_BLOCKS)
    attention_mma_dkdv(backward_operands<T> o) {
  constexpr int M = mma_shape<DIM>::DKDV_M, QUERIES = mma_shape<DIM>::DKDV_N, PART = mma_shape<DIM>::DKDV_PART,
                N = PART / 8;
  constexpr int KEYS = 16 * M * MMA_WARPS, OWNED = KEYS * mma_pitch<DIM>, STAGE = QUERIES * mma_pitch<DIM>;
  static_assert(KEYS % QUERIES == 0, "tiles of queries begin at the diagonal");
  static_assert(QUERIES <= MMA_THREADS, "one thread copies the facts of one query");
  unsigned char *shared = launch_shared<unsigned char>();
  T *k_tile = (T *)shared, *v_tile = k_tile + OWNED, *q_tiles = v_tile + OWNED, *dy_tiles = q_tiles + 2 * STAGE;
  query_facts *fact_tiles = (query_facts *)(dy_tiles + 2 * STAGE);
  int length = o.size.length, dim = o.size.head_dim, group = o.size.heads / o.size.kv_heads;
  block_place at = place_of_block(o.size, o.size.kv_heads, (length + KEYS - 1) / KEYS, false);
  int first = at.tile * KEYS;
  int warp = (int)threadIdx.x / 32, t = (int)threadIdx.x % 4;
  int own = 16 * M * warp;
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int begin = sees.queries_begin(first) / QUERIES * QUERIES, seen = sees.queries_end(first, first + KEYS);

  auto queries_start = [&](int member, int query, int stage) {
    int head = at.head * group + member;
    tile_start<DIM, QUERIES>(q_tiles + stage * STAGE, head_start(o.q, o.size, at.batch, head), o.q.stride, query,
                             sees.end, dim);
    tile_start<DIM, QUERIES>(dy_tiles + stage * STAGE, head_start(o.dy, o.size, at.batch, head), o.dy.stride, query,
                             sees.end, dim);
    int i = (int)threadIdx.x;
    const query_facts *facts = o.facts + ((int64_t)at.batch * o.size.heads + head) * length;
    if (i < QUERIES)
      copy_start<8>(fact_tiles + stage * QUERIES + i, facts + (query + i < sees.end ? query + i : 0),
                    query + i < sees.end);
  };

  tile_start<DIM, KEYS>(k_tile, head_start(o.k, o.size, at.batch, at.head), o.k.stride, first, sees.end, dim);
  tile_start<DIM, KEYS>(v_tile, head_start(o.v, o.size, at.batch, at.head), o.v.stride, first, sees.end, dim);
  queries_start(0, begin, 0);
  copies_wait();
  __syncthreads();

  owned_rows<T, DIM, M, DIM * M <= 64> k_rows, v_rows;
  k_rows.begin(k_tile, own);
  v_rows.begin(v_tile, own);
  mma_tiles<M, DIM / 8> dk, dv;
  tiles_clear<M, DIM / 8>(dk);
  tiles_clear<M, DIM / 8>(dv);
  float scale2 = o.size.scale * LOG2_E;

  int row = first + own;
  for (int member = begin < seen ? 0 : group, query = begin, stage = 0; member < group; stage ^= 1) {
    int next_member = query + QUERIES < seen ? member : member + 1;
    int next_query = query + QUERIES < seen ? query + QUERIES : begin;
    if (next_member < group) queries_start(next_member, next_query, stage ^ 1);
#pragma unroll 1
    for (int part = query; part < query + QUERIES; part += PART) {
      if (sees.none(part, part + PART, row, row + 16 * M)) continue;
      const T *q_tile = q_tiles + stage * STAGE + (part - query) * mma_pitch<DIM>;
      const T *dy_tile = dy_tiles + stage * STAGE + (part - query) * mma_pitch<DIM>;
      const query_facts *facts = fact_tiles + stage * QUERIES + part - query;
      mma_tiles<M, N> s, ds;
      scores_make<T, DIM, M, N>(s, k_rows, q_tile);
      scores_make<T, DIM, M, N>(ds, v_rows, dy_tile);
      if (!sees.all(part, part + PART, row, row + 16 * M))
        scores_hide<M, N>(s, row, part, [&](int i, int j) { return sees.has(j, i); });
      [[maybe_unused]] uint32_t word[M][4][2];
      if constexpr (DROPS) {
#pragma unroll
        for (int m = 0; m < M; m++)
          mask_make_transposed<N>(word[m], mask, at.head * group + member, part, row + 16 * m);
      }
#pragma unroll
      for (int n = 0; n < N; n++) {
        float4 fact = *(const float4 *)(facts + 8 * n + 2 * t); /* lse2 and delta of two queries */
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            float p = near_power_of_two(fmaf(s[m][n][e], scale2, e % 2 ? -fact.z : -fact.x));
            float by = 1.0f;
            if constexpr (DROPS) by = mask_keeps_transposed(word[m], n, e) ? o.size.drop.scale : 0.0f;
            s[m][n][e] = DROPS ? p * by : p;
            ds[m][n][e] = p * ((DROPS ? ds[m][n][e] * by : ds[m][n][e]) - (e % 2 ? fact.w : fact.y));
          }
      }
      sums_add<T, DIM, M, N>(dv, s, dy_tile);
      sums_add<T, DIM, M, N>(dk, ds, q_tile);
    }
    copies_wait();
    __syncthreads();
    member = next_member;
    query = next_query;
  }

  float one[M][2], factor[M][2];
#pragma unroll
  for (int m = 0; m < M; m++)
    one[m][0] = one[m][1] = 1.0f, factor[m][0] = factor[m][1] = o.size.scale;
  sums_store<T, DIM, M>(dk, factor, k_tile + own * mma_pitch<DIM>, head_start(o.dk, o.size, at.batch, at.head),
                        o.dk.stride, row, length, dim);
  sums_store<T, DIM, M>(dv, one, v_tile + own * mma_pitch<DIM>, head_start(o.dv, o.size, at.batch, at.head),
                        o.dv.stride, row, length, dim);
}

#endif
