/* Attention with plain f32 arithmetic: f32 operands, and 16-bit ones whose head size the matrix instructions do not
 * take. Tiles lie in shared memory as f32, whatever the storage type.
 *
 * A block has 16 x 16 threads (x fastest) and works on a tile of N rows by N columns of scores, N = 16 R:
 *   scores    thread (x, y) has rows y R + i and columns x + 16 j
 *   results   thread (x, y) has rows y R + i and elements 64 c + 4 x + e of them
 * Both read shared memory four floats at a time, and without bank conflicts: rows are DIM + 4 floats apart.
 */
#ifndef HR_OP_ATTENTION_FMA_CUH
#define HR_OP_ATTENTION_FMA_CUH

#include "op/attention_mask.cuh"
#include "op/attention_rows.cuh"

enum { FMA_THREADS = 256, FMA_LANES = 16 };

/* DIM: head size, rounded up to 64, 128 or 256. */
template <int DIM> struct fma_shape {
  static constexpr int N = DIM == 64 ? 64 : DIM == 128 ? 32 : 16; /* what fits shared memory on every GPU */
  static constexpr int DKDV_BLOCKS = DIM == 64 ? 2 : 3;           /* of a multiprocessor, as far as registers go */
  static constexpr int R = N / FMA_LANES, C = DIM / 64;
  static constexpr int PITCH = DIM + 4, SCORES_PITCH = N + 4;
  static constexpr int TILE = N * PITCH, SCORES = N * SCORES_PITCH; /* floats */
  static constexpr size_t FORWARD_BYTES = (2 * TILE + SCORES) * sizeof(float);
  static constexpr size_t BACKWARD_BYTES = (3 * TILE + SCORES) * sizeof(float);
};

/* Rows [first, first + N) of a head; what lies behind `end` or behind the head is zero. */
template <int DIM, typename T>
static __device__ inline void fma_fill(float *to, const T *from, int64_t stride, int first, int end, int dim) {
  using shape = fma_shape<DIM>;
  for (int i = (int)threadIdx.x; i < shape::N * DIM; i += FMA_THREADS) {
    int r = i / DIM, d = i % DIM;
    bool there = first + r < end && d < dim;
    to[r * shape::PITCH + d] = there ? to_float(from[(int64_t)(first + r) * stride + d]) : 0.0f;
  }
}

/* s = rows of a times rows of b. */
template <int DIM>
static __device__ inline void fma_scores(float (&s)[fma_shape<DIM>::R][fma_shape<DIM>::R], const float *a,
                                         const float *b, int dim) {
  using shape = fma_shape<DIM>;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
#pragma unroll
  for (int i = 0; i < shape::R; i++)
#pragma unroll
    for (int j = 0; j < shape::R; j++)
      s[i][j] = 0.0f;
  for (int d = 0; d < dim; d += 4) { /* up to 3 zeros behind the head */
    float4 u[shape::R], w[shape::R];
#pragma unroll
    for (int i = 0; i < shape::R; i++)
      u[i] = *(const float4 *)(a + (y * shape::R + i) * shape::PITCH + d);
#pragma unroll
    for (int j = 0; j < shape::R; j++)
      w[j] = *(const float4 *)(b + (x + FMA_LANES * j) * shape::PITCH + d);
#pragma unroll
    for (int i = 0; i < shape::R; i++)
#pragma unroll
      for (int j = 0; j < shape::R; j++)
        s[i][j] = fmaf(u[i].w, w[j].w, fmaf(u[i].z, w[j].z, fmaf(u[i].y, w[j].y, fmaf(u[i].x, w[j].x, s[i][j]))));
  }
}

template <int DIM>
static __device__ inline void fma_scores_store(float *to, const float (&s)[fma_shape<DIM>::R][fma_shape<DIM>::R]) {
  using shape = fma_shape<DIM>;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
#pragma unroll
  for (int i = 0; i < shape::R; i++)
#pragma unroll
    for (int j = 0; j < shape::R; j++)
      to[(y * shape::R + i) * shape::SCORES_PITCH + x + FMA_LANES * j] = s[i][j];
}

/* The part of the results [N, DIM] that a thread sums. */
template <int DIM> struct fma_sums { float value[fma_shape<DIM>::R][fma_shape<DIM>::C][4]; };

template <int DIM> static __device__ inline void fma_clear(fma_sums<DIM> &sums) {
#pragma unroll
  for (int i = 0; i < fma_shape<DIM>::R; i++)
#pragma unroll
    for (int c = 0; c < fma_shape<DIM>::C; c++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sums.value[i][c][e] = 0.0f;
}

/* sums += scores [N, N] times rows of b */
template <int DIM> static __device__ inline void fma_add(fma_sums<DIM> &sums, const float *scores, const float *b) {
  using shape = fma_shape<DIM>;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
  for (int n = 0; n < shape::N; n += 4) {
    alignas(16) float p[shape::R][4];
#pragma unroll
    for (int i = 0; i < shape::R; i++)
      *(float4 *)p[i] = *(const float4 *)(scores + (y * shape::R + i) * shape::SCORES_PITCH + n);
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
      for (int c = 0; c < shape::C; c++) {
        float4 w = *(const float4 *)(b + (n + step) * shape::PITCH + 64 * c + 4 * x);
#pragma unroll
        for (int i = 0; i < shape::R; i++) {
          sums.value[i][c][0] = fmaf(p[i][step], w.x, sums.value[i][c][0]);
          sums.value[i][c][1] = fmaf(p[i][step], w.y, sums.value[i][c][1]);
          sums.value[i][c][2] = fmaf(p[i][step], w.z, sums.value[i][c][2]);
          sums.value[i][c][3] = fmaf(p[i][step], w.w, sums.value[i][c][3]);
        }
      }
  }
}

/* Rows [first, first + N) of a head = sums, row i of a thread times factor[i]. */
template <int DIM, typename T>
static __device__ inline void fma_store(const fma_sums<DIM> &sums, const float (&factor)[fma_shape<DIM>::R], T *to,
                                        int64_t stride, int first, int length, int dim) {
  using shape = fma_shape<DIM>;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
#pragma unroll
  for (int i = 0; i < shape::R; i++) {
    int row = first + y * shape::R + i;
    if (row >= length) continue;
#pragma unroll
    for (int c = 0; c < shape::C; c++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int d = 64 * c + 4 * x + e;
        if (d < dim) to[(int64_t)row * stride + d] = from_float<T>(sums.value[i][c][e] * factor[i]);
      }
  }
}

/* Which of a thread's scores are kept, rows being queries from `query` on and columns keys from `key` on: bit i R + j
 * is that of s[i][j]. The 16 threads of a row of threads need R x R draws together and make one each. */
template <int DIM>
static __device__ inline uint32_t fma_mask(const attention_mask &mask, int head, int query, int key) {
  constexpr int R = fma_shape<DIM>::R;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
  uint32_t drawn = 0, kept = 0;
  if (x < R * R) drawn = mask.draw(head, query + y * R + x / R, key / HR_DROP_KEYS + x % R);
#pragma unroll
  for (int n = 0; n < R * R; n++)
    kept |= (__shfl_sync(~0u, drawn, n, FMA_LANES) >> mask_bit(x) & 1) << n;
  return kept;
}

/* The same with rows being keys and columns queries: a thread's keys lie in one block, so it draws for each column. */
template <int DIM>
static __device__ inline uint32_t fma_mask_transposed(const attention_mask &mask, int head, int query, int key) {
  constexpr int R = fma_shape<DIM>::R;
  int x = (int)threadIdx.x % FMA_LANES, first = (int)threadIdx.x / FMA_LANES * R;
  uint32_t kept = 0;
#pragma unroll
  for (int j = 0; j < R; j++) {
    uint32_t drawn = mask.draw(head, query + x + FMA_LANES * j, (key + first) / HR_DROP_KEYS);
#pragma unroll
    for (int i = 0; i < R; i++)
      kept |= (drawn >> mask_bit((first + i) % HR_DROP_KEYS) & 1) << (i * R + j);
  }
  return kept;
}

/* A block: one head, N queries. S: sight or document_sight. */
template <typename T, int DIM, typename S>
static __global__ void __launch_bounds__(FMA_THREADS) attention_fma_forward(forward_operands<T> o) {
  using shape = fma_shape<DIM>;
  constexpr int N = shape::N, R = shape::R;
  unsigned char *shared = launch_shared<unsigned char>();
  float *queries = (float *)shared, *keys = queries + shape::TILE, *scores = keys + shape::TILE;
  int length = o.size.length, dim = o.size.head_dim;
  block_place at = place_of_block(o.size, o.size.heads, (length + N - 1) / N, true);
  int kv_head = at.head / (o.size.heads / o.size.kv_heads), first = at.tile * N;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
  const T *k = head_start(o.k, o.size, at.batch, kv_head), *v = head_start(o.v, o.size, at.batch, kv_head);
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int seen = sees.keys_end(first, first + N);

  fma_fill<DIM>(queries, head_start(o.q, o.size, at.batch, at.head), o.q.stride, first, sees.end, dim);
  fma_sums<DIM> sums;
  fma_clear(sums);
  float most[R], total[R];
#pragma unroll
  for (int i = 0; i < R; i++)
    most[i] = -INFINITY, total[i] = 0.0f;

  for (int key = sees.keys_begin(first) / N * N; key < seen; key += N) {
    float s[R][R];
    fma_fill<DIM>(keys, k, o.k.stride, key, sees.end, dim);
    __syncthreads();
    fma_scores<DIM>(s, queries, keys, dim);
#pragma unroll
    for (int i = 0; i < R; i++) {
      int row = first + y * R + i;
      float high = most[i];
#pragma unroll
      for (int j = 0; j < R; j++) {
        s[i][j] = sees.has(row, key + x + FMA_LANES * j) ? s[i][j] * o.size.scale : -INFINITY;
        high = fmaxf(high, s[i][j]);
      }
#pragma unroll
      for (int distance = FMA_LANES / 2; distance > 0; distance /= 2)
        high = fmaxf(high, __shfl_xor_sync(~0u, high, distance));
      float base = high == -INFINITY ? 0.0f : high; /* blind so far: all weights are 0 */
      float keep = expf(most[i] - base), sum = 0.0f;
#pragma unroll
      for (int j = 0; j < R; j++) {
        s[i][j] = expf(s[i][j] - base);
        sum += s[i][j];
      }
#pragma unroll
      for (int distance = FMA_LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
      total[i] = total[i] * keep + sum;
      most[i] = high;
#pragma unroll
      for (int c = 0; c < shape::C; c++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          sums.value[i][c][e] *= keep;
    }
    if (o.size.drop.limit > 0) {
      uint32_t kept = fma_mask<DIM>(mask, at.head, first, key);
#pragma unroll
      for (int n = 0; n < R * R; n++)
        if (!(kept >> n & 1)) s[n / R][n % R] = 0.0f;
    }
    fma_scores_store<DIM>(scores, s);
    __syncthreads(); /* all have read the keys: the values take their place */
    fma_fill<DIM>(keys, v, o.v.stride, key, sees.end, dim);
    __syncthreads();
    fma_add<DIM>(sums, scores, keys);
    __syncthreads();
  }

  float factor[R];
#pragma unroll
  for (int i = 0; i < R; i++) {
    int row = first + y * R + i;
    bool there = row < sees.end;
    factor[i] = there ? o.size.drop.scale / total[i] : 0.0f;
    if (x == 0 && row < length)
      o.lse[((int64_t)at.batch * o.size.heads + at.head) * length + row] = there ? most[i] + logf(total[i]) : 0.0f;
  }
  fma_store<DIM>(sums, factor, head_start(o.y, o.size, at.batch, at.head), o.y.stride, first, length, dim);
}

/* dq. A block: one head, N queries. */
template <typename T, int DIM, typename S>
static __global__ void __launch_bounds__(FMA_THREADS) attention_fma_dq(backward_operands<T> o) {
  using shape = fma_shape<DIM>;
  constexpr int N = shape::N, R = shape::R;
  unsigned char *shared = launch_shared<unsigned char>();
  float *q = (float *)shared, *dy = q + shape::TILE, *keys = dy + shape::TILE, *scores = keys + shape::TILE;
  int length = o.size.length, dim = o.size.head_dim;
  block_place at = place_of_block(o.size, o.size.heads, (length + N - 1) / N, true);
  int kv_head = at.head / (o.size.heads / o.size.kv_heads), first = at.tile * N;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
  float scale2 = o.size.scale * LOG2_E;
  const T *k = head_start(o.k, o.size, at.batch, kv_head), *v = head_start(o.v, o.size, at.batch, kv_head);
  const query_facts *facts = o.facts + ((int64_t)at.batch * o.size.heads + at.head) * length;
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int seen = sees.keys_end(first, first + N);

  fma_fill<DIM>(q, head_start(o.q, o.size, at.batch, at.head), o.q.stride, first, sees.end, dim);
  fma_fill<DIM>(dy, head_start(o.dy, o.size, at.batch, at.head), o.dy.stride, first, sees.end, dim);
  fma_sums<DIM> sums;
  fma_clear(sums);
  query_facts fact[R];
#pragma unroll
  for (int i = 0; i < R; i++)
    fact[i] = first + y * R + i < sees.end ? facts[first + y * R + i] : query_facts{0.0f, 0.0f};

  for (int key = sees.keys_begin(first) / N * N; key < seen; key += N) {
    float s[R][R], ds[R][R];
    fma_fill<DIM>(keys, v, o.v.stride, key, sees.end, dim);
    __syncthreads();
    fma_scores<DIM>(ds, dy, keys, dim);
    __syncthreads();
    fma_fill<DIM>(keys, k, o.k.stride, key, sees.end, dim);
    __syncthreads();
    fma_scores<DIM>(s, q, keys, dim);
    uint32_t kept = ~0u;
    if (o.size.drop.limit > 0) kept = fma_mask<DIM>(mask, at.head, first, key);
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
      for (int j = 0; j < R; j++) {
        bool visible = sees.has(first + y * R + i, key + x + FMA_LANES * j);
        float p = visible ? exp2f(s[i][j] * scale2 - fact[i].lse2) : 0.0f;
        float dp = kept >> (i * R + j) & 1 ? ds[i][j] * o.size.drop.scale : 0.0f;
        ds[i][j] = p * (dp - fact[i].delta);
      }
    fma_scores_store<DIM>(scores, ds);
    __syncthreads();
    fma_add<DIM>(sums, scores, keys);
    __syncthreads();
  }
  float factor[R];
#pragma unroll
  for (int i = 0; i < R; i++)
    factor[i] = o.size.scale;
  fma_store<DIM>(sums, factor, head_start(o.dq, o.size, at.batch, at.head), o.dq.stride, first, length, dim);
}

/* dk and dv. A block: one key/value head, N keys; it sums over the query heads of the group in order. Scores are
 * transposed: rows are keys, columns are queries. */
template <typename T, int DIM, typename S>
static __global__ void __launch_bounds__(FMA_THREADS, fma_shape<DIM>::DKDV_BLOCKS)
    attention_fma_dkdv(backward_operands<T> o) {
  using shape = fma_shape<DIM>;
  constexpr int N = shape::N, R = shape::R;
  unsigned char *shared = launch_shared<unsigned char>();
  float *k = (float *)shared, *v = k + shape::TILE, *queries = v + shape::TILE, *scores = queries + shape::TILE;
  int length = o.size.length, dim = o.size.head_dim, group = o.size.heads / o.size.kv_heads;
  block_place at = place_of_block(o.size, o.size.kv_heads, (length + N - 1) / N, false);
  int first = at.tile * N;
  int x = (int)threadIdx.x % FMA_LANES, y = (int)threadIdx.x / FMA_LANES;
  float scale2 = o.size.scale * LOG2_E;
  S sees(o.size, at.batch);
  attention_mask mask(o.size, at.batch);
  int seen = sees.queries_end(first, first + N);

  fma_fill<DIM>(k, head_start(o.k, o.size, at.batch, at.head), o.k.stride, first, sees.end, dim);
  fma_fill<DIM>(v, head_start(o.v, o.size, at.batch, at.head), o.v.stride, first, sees.end, dim);
  fma_sums<DIM> dk, dv;
  fma_clear(dk);
  fma_clear(dv);

  for (int member = 0; member < group; member++) {
    int head = at.head * group + member;
    const T *q = head_start(o.q, o.size, at.batch, head), *dy = head_start(o.dy, o.size, at.batch, head);
    const query_facts *facts = o.facts + ((int64_t)at.batch * o.size.heads + head) * length;
    for (int query = sees.queries_begin(first) / N * N; query < seen; query += N) {
      float s[R][R], ds[R][R];
      fma_fill<DIM>(queries, q, o.q.stride, query, sees.end, dim);
      __syncthreads();
      fma_scores<DIM>(s, k, queries, dim);
      __syncthreads();
      fma_fill<DIM>(queries, dy, o.dy.stride, query, sees.end, dim);
      __syncthreads();
      fma_scores<DIM>(ds, v, queries, dim);
      uint32_t kept = ~0u;
      if (o.size.drop.limit > 0) kept = fma_mask_transposed<DIM>(mask, head, query, first);
#pragma unroll
      for (int j = 0; j < R; j++) {
        int column = query + x + FMA_LANES * j;
        query_facts fact = column < sees.end ? facts[column] : query_facts{0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < R; i++) {
          float p = sees.has(column, first + y * R + i) ? exp2f(s[i][j] * scale2 - fact.lse2) : 0.0f;
          float by = kept >> (i * R + j) & 1 ? o.size.drop.scale : 0.0f;
          s[i][j] = p * by;
          ds[i][j] = p * (ds[i][j] * by - fact.delta);
        }
      }
      fma_scores_store<DIM>(scores, s);
      __syncthreads();
      fma_add<DIM>(dv, scores, queries);
      __syncthreads();
      fma_fill<DIM>(queries, q, o.q.stride, query, sees.end, dim);
      fma_scores_store<DIM>(scores, ds);
      __syncthreads();
      fma_add<DIM>(dk, scores, queries);
      __syncthreads();
    }
  }
  float one[R], factor[R];
#pragma unroll
  for (int i = 0; i < R; i++)
    one[i] = 1.0f, factor[i] = o.size.scale;
  fma_store<DIM>(dk, factor, head_start(o.dk, o.size, at.batch, at.head), o.dk.stride, first, length, dim);
  fma_store<DIM>(dv, one, head_start(o.dv, o.size, at.batch, at.head), o.dv.stride, first, length, dim);
}

#endif
