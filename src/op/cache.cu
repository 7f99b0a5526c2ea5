/* Attention over a cache on CUDA.
 *
 * A block takes up to ROWS rows (queries of the heads of one group) over the keys of one part. LANES lanes stand for
 * one key, WIDE elements each; every such group of lanes is a stream of its own, which goes over each STREAMS-th key
 * with a running maximum, sum and result for every row. Which stream a key belongs to follows from its position, so
 * that the order of sums does. Streams are joined in the block, parts by a kernel of their own: few queries would leave
 * most of a GPU idle, so their keys are divided (hr__cache_parts).
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/cache.h"
}

enum { PUT_KEYS, PUT_VALUES, PUT_K, PUT_V, PUT_POSITIONS, PUT_COUNTS };
enum { ATT_Q, ATT_KEYS, ATT_VALUES, ATT_POSITIONS, ATT_COUNTS };
enum { WARPS = 4, THREADS = 32 * WARPS, PUT_THREADS = 128 };

/* ---- cache_put ---- */

struct put_shape {
  int64_t length, context, columns, width;
};

template <typename T, int N>
static __global__ void __launch_bounds__(PUT_THREADS)
    cache_put_kernel(const T *k, const T *v, T *keys, T *values, const int32_t *positions, const int32_t *counts,
                     put_shape s) {
  int64_t row = blockIdx.x, sample = row / s.length, t = row % s.length, position = positions[sample];
  if (t >= hr__cache_rows(position, counts[sample], s.length, s.context)) return;
  int64_t to = (sample * s.context + position + t) * s.width, from = row * s.columns;
  for (int64_t i = (int64_t)threadIdx.x * N; i < s.width; i += (int64_t)PUT_THREADS * N) {
    pack_store<N>(keys + to + i, pack_load<N>(k + from + i));
    pack_store<N>(values + to + i, pack_load<N>(v + from + i));
  }
}

static hr_status cache_put_run(const hr_call *call) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  const hr_desc &k = call->in[PUT_K].desc;
  put_shape s = {k.dim[1], call->out[0].desc.dim[1], k.dim[2], args->kv_heads * args->head_dim};
  size_t bytes = (size_t)(desc_count(call->out[0].desc)) * (k.dtype == HR_F32 ? 4 : 2);
  for (int i = 0; i < 2; i++) /* in plans they lie in one place */
    if (call->out[i].data != call->in[i].data &&
        cudaMemcpyAsync(call->out[i].data, call->in[i].data, bytes, cudaMemcpyDeviceToDevice, call_stream(call)) !=
            cudaSuccess)
      return HR_FAILURE;
  return by_dtype(k.dtype, [&](auto t) {
    using T = decltype(t);
    const T *from_k = (const T *)call->in[PUT_K].data, *from_v = (const T *)call->in[PUT_V].data;
    if (!from_v) { /* q | k | v */
      from_k += args->heads * args->head_dim;
      from_v = from_k + s.width;
    }
    bool packed =
        s.width % WIDE == 0 && s.columns % WIDE == 0 && wide(from_k, from_v, call->out[0].data, call->out[1].data);
    auto kernel = packed ? cache_put_kernel<T, WIDE> : cache_put_kernel<T, 1>;
    kernel<<<(unsigned)(k.dim[0] * k.dim[1]), PUT_THREADS, 0, call_stream(call)>>>(
        from_k, from_v, (T *)call->out[0].data, (T *)call->out[1].data, (const int32_t *)call->in[PUT_POSITIONS].data,
        (const int32_t *)call->in[PUT_COUNTS].data, s);
    return launched();
  });
}

/* ---- cache_attention ---- */

struct attention_shape {
  int64_t length, context, columns, heads, kv_heads, head_dim;
  int64_t group_heads, rows; /* of a group: its heads x length */
  int64_t window, parts, part_keys;
  float scale;
  bool packed; /* heads may be read in packs */
};

/* What a part has made of a row: the largest score, the sum of weights, and the weighted values behind them. */
__device__ inline float *partial_of(float *partials, const attention_shape &s, int64_t sample, int64_t t, int64_t head,
                                    int64_t part) {
  return partials + (((sample * s.length + t) * s.heads + head) * s.parts + part) * (s.head_dim + 2);
}

/* WIDE elements of a head from `first` on; zeros behind its end. */
template <typename T>
__device__ inline void head_read(const T *from, int64_t first, int64_t head_dim, bool packed, float to[WIDE]) {
  if (packed && first < head_dim) {
    pack_read<WIDE>(from + first, to);
    return;
  }
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    to[e] = first + e < head_dim ? to_float(from[first + e]) : 0.0f;
}

template <int ROWS> struct running { float most[ROWS], sum[ROWS], result[ROWS][WIDE]; };

/* One key for all rows; `seen` has a bit for each row that sees it. */
template <int LANES, int ROWS>
__device__ inline void key_take(running<ROWS> &state, const float query[ROWS][WIDE], const float *key,
                                const float *value, unsigned seen) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float score = 0.0f;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      score += query[r][e] * key[e];
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
      score += __shfl_xor_sync(~0u, score, distance);
    if (!(seen >> r & 1)) continue;
    float most = fmaxf(state.most[r], score), keep = expf(state.most[r] - most), weight = expf(score - most);
    state.most[r] = most;
    state.sum[r] = state.sum[r] * keep + weight;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      state.result[r][e] = state.result[r][e] * keep + weight * value[e];
  }
}

template <typename T, int LANES, int ROWS>
static __global__ void __launch_bounds__(THREADS)
    cache_attention_kernel(const T *q, const T *keys, const T *values, const int32_t *positions, const int32_t *counts,
                           T *y, float *partials, attention_shape s) {
  constexpr int STREAMS = WARPS * 32 / LANES, WIDTH = LANES * WIDE;
  __shared__ float results[STREAMS][ROWS][WIDTH], most[STREAMS][ROWS], sums[STREAMS][ROWS];
  int stream = (int)threadIdx.x / LANES;
  int64_t first_element = (int64_t)(threadIdx.x % LANES) * WIDE;
  int64_t sample = blockIdx.y / s.kv_heads, group = blockIdx.y % s.kv_heads, part = blockIdx.z;
  int64_t start = positions[sample], there = hr__cache_rows(start, counts[sample], s.length, s.context);

  float query[ROWS][WIDE];
  running<ROWS> state;
  int64_t position[ROWS], begin = s.context, end = 0; /* keys that any row sees */
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    int64_t row = (int64_t)blockIdx.x * ROWS + r, t = row / s.group_heads,
            head = group * s.group_heads + row % s.group_heads;
    bool exists = row < s.rows && t < there;
    position[r] = exists ? start + t : -1;
    state.most[r] = -INFINITY;
    state.sum[r] = 0.0f;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      state.result[r][e] = query[r][e] = 0.0f;
    if (!exists) continue;
    head_read(q + (sample * s.length + t) * s.columns + head * s.head_dim, first_element, s.head_dim, s.packed,
              query[r]);
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      query[r][e] *= s.scale;
    int64_t seen_from = s.window > 0 && position[r] + 1 > s.window ? position[r] + 1 - s.window : 0;
    begin = seen_from < begin ? seen_from : begin;
    end = position[r] + 1 > end ? position[r] + 1 : end;
  }
  int64_t part_begin = part * s.part_keys, part_end = part_begin + s.part_keys;
  if (end > part_end) end = part_end;
  int64_t from = part_begin; /* at a whole number of rounds over all streams */
  if (begin > from) from += (begin - from) / STREAMS * STREAMS;

  for (int64_t round = from; round < end; round += STREAMS) { /* the same for all lanes of a warp: they shuffle */
    int64_t j = round + stream;
    bool inside = j < end;
    float key[WIDE], value[WIDE];
    int64_t at = ((sample * s.context + (inside ? j : round)) * s.kv_heads + group) * s.head_dim;
    head_read(keys + at, first_element, s.head_dim, s.packed, key);
    head_read(values + at, first_element, s.head_dim, s.packed, value);
    unsigned seen = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      seen |= (unsigned)(inside && j <= position[r] && (s.window == 0 || j > position[r] - s.window)) << r;
    key_take<LANES, ROWS>(state, query, key, value, seen);
  }

#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (first_element == 0) {
      most[stream][r] = state.most[r];
      sums[stream][r] = state.sum[r];
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      results[stream][r][first_element + e] = state.result[r][e];
  }
  __syncthreads();
  for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += THREADS) {
    int r = i / WIDTH, d = i % WIDTH;
    int64_t row = (int64_t)blockIdx.x * ROWS + r, t = row / s.group_heads,
            head = group * s.group_heads + row % s.group_heads;
    if (row >= s.rows || d >= s.head_dim) continue;
    float all = -INFINITY, sum = 0.0f, result = 0.0f;
    for (int k = 0; k < STREAMS; k++)
      all = fmaxf(all, most[k][r]);
    for (int k = 0; k < STREAMS && all > -INFINITY; k++) {
      float factor = expf(most[k][r] - all);
      sum += sums[k][r] * factor;
      result += results[k][r][d] * factor;
    }
    if (s.parts == 1) {
      y[((sample * s.length + t) * s.heads + head) * s.head_dim + d] = from_float<T>(sum > 0.0f ? result / sum : 0.0f);
      continue;
    }
    float *to = partial_of(partials, s, sample, t, head, part);
    if (d == 0) {
      to[0] = all;
      to[1] = sum;
    }
    to[2 + d] = result;
  }
}

/* A block for each row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    cache_join_kernel(float *partials, const int32_t *positions, const int32_t *counts, T *y, attention_shape s) {
  int64_t head = blockIdx.x % s.heads, t = blockIdx.x / s.heads % s.length, sample = blockIdx.x / s.heads / s.length;
  int64_t start = positions[sample];
  bool exists = t < hr__cache_rows(start, counts[sample], s.length, s.context);
  int64_t used = exists ? (start + t) / s.part_keys + 1 : 0; /* parts that it reaches into */
  float all = -INFINITY;
  for (int64_t part = 0; part < used; part++)
    all = fmaxf(all, partial_of(partials, s, sample, t, head, part)[0]);
  for (int64_t d = threadIdx.x; d < s.head_dim; d += THREADS) {
    float sum = 0.0f, result = 0.0f;
    for (int64_t part = 0; part < used; part++) {
      const float *from = partial_of(partials, s, sample, t, head, part);
      float factor = expf(from[0] - all);
      sum += from[1] * factor;
      result += from[2 + d] * factor;
    }
    y[(int64_t)blockIdx.x * s.head_dim + d] = from_float<T>(sum > 0.0f ? result / sum : 0.0f);
  }
}

template <typename T, int LANES, int ROWS>
static hr_status attention_launch(const hr_call *call, const attention_shape &s) {
  int64_t batch = call->in[ATT_Q].desc.dim[0];
  dim3 grid((unsigned)divide_up(s.rows, ROWS), (unsigned)(batch * s.kv_heads), (unsigned)s.parts);
  const int32_t *positions = (const int32_t *)call->in[ATT_POSITIONS].data;
  const int32_t *counts = (const int32_t *)call->in[ATT_COUNTS].data;
  cache_attention_kernel<T, LANES, ROWS><<<grid, THREADS, 0, call_stream(call)>>>(
      (const T *)call->in[ATT_Q].data, (const T *)call->in[ATT_KEYS].data, (const T *)call->in[ATT_VALUES].data,
      positions, counts, (T *)call->out[0].data, (float *)call->workspace, s);
  if (s.parts > 1)
    cache_join_kernel<T><<<(unsigned)(batch * s.length * s.heads), THREADS, 0, call_stream(call)>>>(
        (float *)call->workspace, positions, counts, (T *)call->out[0].data, s);
  return launched();
}

template <typename T, int LANES> static hr_status attention_rows(const hr_call *call, const attention_shape &s) {
  if (s.rows == 1) return attention_launch<T, LANES, 1>(call, s);
  return s.rows <= 4 ? attention_launch<T, LANES, 4>(call, s) : attention_launch<T, LANES, 8>(call, s);
}

static hr_status cache_attention_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  *prepared = nullptr;
  if (args->head_dim <= 32 * WIDE) return HR_OK;
  return device_state(call)->host.fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                                       "heads of %lld elements are wider than the %d that a GPU generates with",
                                       (long long)args->head_dim, 32 * WIDE);
}

static hr_status cache_attention_run(const hr_call *call) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  const hr_desc &q = call->in[ATT_Q].desc, &keys = call->in[ATT_KEYS].desc;
  attention_shape s = {};
  s.length = q.dim[1];
  s.context = keys.dim[1];
  s.columns = q.dim[2];
  s.heads = args->heads;
  s.kv_heads = args->kv_heads;
  s.head_dim = args->head_dim;
  s.group_heads = args->heads / args->kv_heads;
  s.rows = s.group_heads * s.length;
  s.window = args->window;
  s.parts = hr__cache_parts(s.length, s.context);
  s.part_keys = s.parts > 1 ? (int64_t)HR_CACHE_PART : s.context;
  s.scale = args->scale;
  s.packed = args->head_dim % WIDE == 0 && s.columns % WIDE == 0 &&
             wide(call->in[ATT_Q].data, call->in[ATT_KEYS].data, call->in[ATT_VALUES].data);
  return by_dtype(q.dtype, [&](auto t) {
    using T = decltype(t);
    if (args->head_dim <= 4 * WIDE) return attention_rows<T, 4>(call, s);
    if (args->head_dim <= 8 * WIDE) return attention_rows<T, 8>(call, s);
    return args->head_dim <= 16 * WIDE ? attention_rows<T, 16>(call, s) : attention_rows<T, 32>(call, s);
  });
}

#define PUT(T) (const void *)cache_put_kernel<T, WIDE>, (const void *)cache_put_kernel<T, 1>
#define ATTENTION_ROWS(T, LANES)                                                                                       \
  (const void *)cache_attention_kernel<T, LANES, 1>, (const void *)cache_attention_kernel<T, LANES, 4>,                \
      (const void *)cache_attention_kernel<T, LANES, 8>
#define ATTENTION(T)                                                                                                   \
  ATTENTION_ROWS(T, 4), ATTENTION_ROWS(T, 8), ATTENTION_ROWS(T, 16), ATTENTION_ROWS(T, 32),                            \
      (const void *)cache_join_kernel<T>

extern "C" const hr_cuda_launcher hr_cuda_cache_put = {{nullptr, nullptr, cache_put_run},
                                                       {PUT(float), PUT(bf16), PUT(f16)}};
extern "C" const hr_cuda_launcher hr_cuda_cache_attention = {{cache_attention_prepare, nullptr, cache_attention_run},
                                                             {ATTENTION(float), ATTENTION(bf16), ATTENTION(f16)}};
