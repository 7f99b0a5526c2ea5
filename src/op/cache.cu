/* Attention over a cache on CUDA.
 *
 * A block takes up to ROWS rows (queries of the heads of one group) over the keys of one part. LANES lanes stand for
 * one key, WIDE elements each; every such group of lanes is a stream of its own, which goes over each STREAMS-th key
 * with a running maximum, sum and result for every row, the next key under way. Which stream a key belongs to follows
 * from its position, so that the order of sums does. Streams are joined in the warp, warps in the block, parts by a
 * kernel of their own: few queries would leave most of a GPU idle, so their keys are divided (hr__cache_parts).
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/cache.h"
}

enum { ATT_Q, ATT_KEYS, ATT_VALUES, ATT_POSITIONS, ATT_COUNTS };
enum { JOIN_THREADS = 128, PUT_THREADS = 128 };

/* Warps of a block: as many as registers and 32 KiB of shared memory allow. */
template <int LANES, int ROWS>
constexpr int ATTENTION_WARPS = ROWS *LANES >= 128 ? 1024 / (ROWS * LANES)
                                : ROWS == 8        ? 8
                                                   : 16;

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
  const hr_desc &k = call->in[HR_PUT_K].desc;
  put_shape s = {k.dim[1], call->out[0].desc.dim[1], k.dim[2], args->kv_heads * args->head_dim};
  size_t bytes = (size_t)(desc_count(call->out[0].desc)) * (k.dtype == HR_F32 ? 4 : 2);
  for (int i = 0; i < 2; i++) /* in plans they lie in one place */
    if (call->out[i].data != call->in[i].data &&
        cudaMemcpyAsync(call->out[i].data, call->in[i].data, bytes, cudaMemcpyDeviceToDevice, call_stream(call)) !=
            cudaSuccess)
      return HR_FAILURE;
  return by_dtype(k.dtype, [&](auto t) {
    using T = decltype(t);
    const T *from_k = (const T *)call->in[HR_PUT_K].data, *from_v = (const T *)call->in[HR_PUT_V].data;
    if (!from_v) { /* q | k | v */
      from_k += args->heads * args->head_dim;
      from_v = from_k + s.width;
    }
    bool packed =
        s.width % WIDE == 0 && s.columns % WIDE == 0 && wide(from_k, from_v, call->out[0].data, call->out[1].data);
    auto kernel = packed ? cache_put_kernel<T, WIDE> : cache_put_kernel<T, 1>;
    launch(kernel, (unsigned)(k.dim[0] * k.dim[1]), PUT_THREADS, 0, call_stream(call), from_k, from_v,
           (T *)call->out[0].data, (T *)call->out[1].data, (const int32_t *)call->in[HR_PUT_POSITIONS].data,
           (const int32_t *)call->in[HR_PUT_COUNTS].data, s);
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
__device__ inline pack<T, WIDE> head_load(const T *from, int64_t first, int64_t head_dim, bool packed) {
  if (packed && first < head_dim) return pack_load<WIDE>(from + first);
  pack<T, WIDE> block;
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    block.value[e] = first + e < head_dim ? from[first + e] : from_float<T>(0.0f);
  return block;
}

template <int ROWS> struct running { float most[ROWS], sum[ROWS], result[ROWS][WIDE]; };

/* One key for all rows; `seen` has a bit for each row that sees it. */
template <typename T, int LANES, int ROWS>
__device__ inline void key_take(running<ROWS> &state, const float query[ROWS][WIDE], const pack<T, WIDE> &key,
                                const pack<T, WIDE> &value, unsigned seen) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float score = 0.0f;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      score += query[r][e] * to_float(key.value[e]);
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
      score += __shfl_xor_sync(~0u, score, distance);
    if (!(seen >> r & 1)) continue;
    float most = fmaxf(state.most[r], score), keep = expf(state.most[r] - most), weight = expf(score - most);
    state.most[r] = most;
    state.sum[r] = state.sum[r] * keep + weight;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      state.result[r][e] = state.result[r][e] * keep + weight * to_float(value.value[e]);
  }
}

/* Joins the streams of a warp: every one has the result of all then. */
template <int LANES, int ROWS> __device__ inline void streams_join(running<ROWS> &state) {
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
      float other = __shfl_xor_sync(~0u, state.most[r], distance), most = fmaxf(state.most[r], other);
      float keep = most > -INFINITY ? expf(state.most[r] - most) : 0.0f;
      state.most[r] = most;
      state.sum[r] *= keep;
      state.sum[r] += __shfl_xor_sync(~0u, state.sum[r], distance);
#pragma unroll
      for (int e = 0; e < WIDE; e++) {
        state.result[r][e] *= keep;
        state.result[r][e] += __shfl_xor_sync(~0u, state.result[r][e], distance);
      }
    }
}

template <typename T, int LANES, int ROWS>
static __global__ void __launch_bounds__(32 * ATTENTION_WARPS<LANES, ROWS>)
    cache_attention_kernel(const T *q, const T *keys, const T *values, const int32_t *positions, const int32_t *counts,
                           T *y, float *partials, attention_shape s) {
  constexpr int WARPS = ATTENTION_WARPS<LANES, ROWS>, STREAMS = WARPS * 32 / LANES, WIDTH = LANES * WIDE;
  __shared__ float results[WARPS][ROWS][WIDTH], most[WARPS][ROWS], sums[WARPS][ROWS];
  next_may_begin();
  int stream = (int)threadIdx.x / LANES, warp = (int)threadIdx.x / 32;
  int64_t first_element = (int64_t)(threadIdx.x % LANES) * WIDE;
  int64_t sample = blockIdx.y / (unsigned)s.kv_heads, group = blockIdx.y % (unsigned)s.kv_heads, part = blockIdx.z;
  front_wait();
  int64_t start = positions[sample], there = hr__cache_rows(start, counts[sample], s.length, s.context);

  float query[ROWS][WIDE];
  running<ROWS> state;
  int64_t position[ROWS], begin = s.context, end = 0; /* keys that any row sees */
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    unsigned row = blockIdx.x * ROWS + (unsigned)r;
    int64_t t = row / (unsigned)s.group_heads;
    bool exists = row < s.rows && t < there;
    position[r] = exists ? start + t : -1;
    if (!exists) continue;
    int64_t seen_from = s.window > 0 && position[r] + 1 > s.window ? position[r] + 1 - s.window : 0;
    begin = seen_from < begin ? seen_from : begin;
    end = position[r] + 1 > end ? position[r] + 1 : end;
  }
  int64_t part_begin = part * s.part_keys, part_end = part_begin + s.part_keys;
  if (end > part_end) end = part_end;
  int64_t from = part_begin; /* at a whole number of rounds over all streams */
  if (begin > from) from += (begin - from) / STREAMS * STREAMS;

  auto place = [&](int64_t j) { return ((sample * s.context + j) * s.kv_heads + group) * s.head_dim; };
  auto load = [&](const T *cache, int64_t round) { /* streams behind the end read what another one reads */
                                                   int64_t j = round + stream < end ? round + stream : round;
                                                   return head_load(cache + place(j), first_element, s.head_dim,
                                                                    s.packed);
  };
  pack<T, WIDE> key, value; /* asked for before the queries: all come at once */
  if (from < end) {
    key = load(keys, from);
    value = load(values, from);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    unsigned row = blockIdx.x * ROWS + (unsigned)r, heads = (unsigned)s.group_heads;
    int64_t t = row / heads, head = group * heads + row % heads;
    state.most[r] = -INFINITY;
    state.sum[r] = 0.0f;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      state.result[r][e] = query[r][e] = 0.0f;
    if (position[r] < 0) continue;
    pack<T, WIDE> stored =
        head_load(q + (sample * s.length + t) * s.columns + head * s.head_dim, first_element, s.head_dim, s.packed);
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      query[r][e] = to_float(stored.value[e]) * s.scale;
  }
  for (int64_t round = from; round < end; round += STREAMS) { /* the same for all lanes of a warp: they shuffle */
    int64_t j = round + stream;
    pack<T, WIDE> this_key = key, this_value = value;
    if (round + STREAMS < end) {
      key = load(keys, round + STREAMS);
      value = load(values, round + STREAMS);
    }
    unsigned seen = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      seen |= (unsigned)(j < end && j <= position[r] && (s.window == 0 || j > position[r] - s.window)) << r;
    key_take<T, LANES, ROWS>(state, query, this_key, this_value, seen);
  }

  streams_join<LANES, ROWS>(state);
  if (threadIdx.x % 32 < LANES)
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (first_element == 0) {
        most[warp][r] = state.most[r];
        sums[warp][r] = state.sum[r];
      }
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        results[warp][r][first_element + e] = state.result[r][e];
    }
  __syncthreads();
  for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += 32 * WARPS) {
    int r = i / WIDTH, d = i % WIDTH;
    unsigned row = blockIdx.x * ROWS + (unsigned)r, heads = (unsigned)s.group_heads;
    int64_t t = row / heads, head = group * heads + row % heads;
    if (row >= s.rows || d >= s.head_dim) continue;
    float all = -INFINITY, sum = 0.0f, result = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
      all = fmaxf(all, most[w][r]);
    if (all > -INFINITY)
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        float factor = expf(most[w][r] - all);
        sum += sums[w][r] * factor;
        result += results[w][r][d] * factor;
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
static __global__ void __launch_bounds__(JOIN_THREADS)
    cache_join_kernel(float *partials, const int32_t *positions, const int32_t *counts, T *y, attention_shape s) {
  next_may_begin();
  front_wait();
  int64_t head = blockIdx.x % s.heads, t = blockIdx.x / s.heads % s.length, sample = blockIdx.x / s.heads / s.length;
  int64_t start = positions[sample];
  bool exists = t < hr__cache_rows(start, counts[sample], s.length, s.context);
  int64_t used = exists ? (start + t) / s.part_keys + 1 : 0; /* parts that it reaches into */
  float all = -INFINITY;
  for (int64_t part = 0; part < used; part++)
    all = fmaxf(all, partial_of(partials, s, sample, t, head, part)[0]);
  for (int64_t d = threadIdx.x; d < s.head_dim; d += JOIN_THREADS) {
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
  T *y = (T *)call->out[0].data;
  float *partials = (float *)call->workspace;
  hr_status status =
      launch_early(call, cache_attention_kernel<T, LANES, ROWS>, grid, dim3(32 * ATTENTION_WARPS<LANES, ROWS>), 0,
                   (const T *)call->in[ATT_Q].data, (const T *)call->in[ATT_KEYS].data,
                   (const T *)call->in[ATT_VALUES].data, positions, counts, y, partials, s);
  if (status != HR_OK || s.parts == 1) return status;
  return launch_early(call, cache_join_kernel<T>, dim3((unsigned)(batch * s.length * s.heads)), dim3(JOIN_THREADS), 0,
                      partials, positions, counts, y, s);
}

template <typename T, int LANES> static hr_status attention_rows(const hr_call *call, const attention_shape &s) {
  /* A row to a block where all of them find room at once: with as many warps, the bits of four. */
  int64_t rows = call->in[ATT_Q].desc.dim[0] * s.kv_heads * s.parts * s.rows;
  bool alone = s.rows <= 4 && rows <= device_state(call)->multiprocessors &&
               ATTENTION_WARPS<LANES, 1> == ATTENTION_WARPS<LANES, 4>;
  if (s.rows == 1 || alone) return attention_launch<T, LANES, 1>(call, s);
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
