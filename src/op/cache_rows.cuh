/* Attention over a cache on CUDA: what a block does with a few rows of a group, for the kernel of cache.cu and for that
 * of few_chain.cuh.
 *
 * A block takes up to ROWS rows (queries of the heads of one group) over the keys of one part. LANES lanes stand for
 * one key, WIDE elements each; every such group of lanes is a stream of its own, which goes over each STREAMS-th key
 * with a running maximum, sum and result for every row, the next key under way. Which stream a key belongs to follows
 * from its position, so that the order of sums does. Streams are joined in the warp, warps in the block, parts by
 * join_do: few queries would leave most of a GPU idle, so their keys are divided (hr__cache_parts).
 */
#ifndef HR_OP_CACHE_ROWS_CUH
#define HR_OP_CACHE_ROWS_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/cache.h"
}

enum { ATT_Q, ATT_KEYS, ATT_VALUES, ATT_POSITIONS, ATT_COUNTS };

/* Warps of a block: as many as registers and 32 KiB of shared memory allow. */
template <int LANES, int ROWS>
constexpr int ATTENTION_WARPS = ROWS *LANES >= 128 ? 1024 / (ROWS * LANES)
                                : ROWS == 8        ? 8
                                                   : 16;

struct attention_shape {
  int64_t samples, length, context, columns, heads, kv_heads, head_dim;
  int64_t group_heads, rows; /* of a group: its heads x length */
  int64_t window, parts, part_keys;
  float scale;
  bool packed; /* heads may be read in packs */
};

/* A call, as its blocks read it. */
template <typename T> struct cache_read {
  const T *q, *keys, *values;
  const int32_t *positions, *counts;
  T *y;
  float *partials;
  attention_shape shape;
};

template <int LANES, int ROWS> struct attention_room {
  float results[ATTENTION_WARPS<LANES, ROWS>][ROWS][LANES * WIDE], most[ATTENTION_WARPS<LANES, ROWS>][ROWS],
      sums[ATTENTION_WARPS<LANES, ROWS>][ROWS];
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

/* Rows [row * ROWS, + ROWS) of a group over one part of the keys; `group` counts those of all samples. For blocks
 * of just ATTENTION_WARPS warps. */
template <typename T, int LANES, int ROWS>
__device__ inline void attention_rows_do(const cache_read<T> &c, unsigned block_row, unsigned sample_group,
                                         unsigned part, attention_room<LANES, ROWS> &room) {
  constexpr int WARPS = ATTENTION_WARPS<LANES, ROWS>, STREAMS = WARPS * 32 / LANES, WIDTH = LANES * WIDE;
  const attention_shape &s = c.shape;
  int stream = (int)threadIdx.x / LANES, warp = (int)threadIdx.x / 32;
  int64_t first_element = (int64_t)(threadIdx.x % LANES) * WIDE;
  int64_t sample = sample_group / (unsigned)s.kv_heads, group = sample_group % (unsigned)s.kv_heads;
  int64_t start = c.positions[sample], there = hr__cache_rows(start, c.counts[sample], s.length, s.context);

  float query[ROWS][WIDE];
  running<ROWS> state;
  int64_t position[ROWS], begin = s.context, end = 0; /* keys that any row sees */
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    unsigned row = block_row * ROWS + (unsigned)r;
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
    key = load(c.keys, from);
    value = load(c.values, from);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    unsigned row = block_row * ROWS + (unsigned)r, heads = (unsigned)s.group_heads;
    int64_t t = row / heads, head = group * heads + row % heads;
    state.most[r] = -INFINITY;
    state.sum[r] = 0.0f;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      state.result[r][e] = query[r][e] = 0.0f;
    if (position[r] < 0) continue;
    pack<T, WIDE> stored =
        head_load(c.q + (sample * s.length + t) * s.columns + head * s.head_dim, first_element, s.head_dim, s.packed);
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      query[r][e] = to_float(stored.value[e]) * s.scale;
  }
  for (int64_t round = from; round < end; round += STREAMS) { /* the same for all lanes of a warp: they shuffle */
    int64_t j = round + stream;
    pack<T, WIDE> this_key = key, this_value = value;
    if (round + STREAMS < end) {
      key = load(c.keys, round + STREAMS);
      value = load(c.values, round + STREAMS);
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
        room.most[warp][r] = state.most[r];
        room.sums[warp][r] = state.sum[r];
      }
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        room.results[warp][r][first_element + e] = state.result[r][e];
    }
  threads_meet<WARPS * 32>();
  for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += 32 * WARPS) {
    int r = i / WIDTH, d = i % WIDTH;
    unsigned row = block_row * ROWS + (unsigned)r, heads = (unsigned)s.group_heads;
    int64_t t = row / heads, head = group * heads + row % heads;
    if (row >= s.rows || d >= s.head_dim) continue;
    float all = -INFINITY, sum = 0.0f, result = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
      all = fmaxf(all, room.most[w][r]);
    if (all > -INFINITY)
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        float factor = expf(room.most[w][r] - all);
        sum += room.sums[w][r] * factor;
        result += room.results[w][r][d] * factor;
      }
    if (s.parts == 1) {
      c.y[((sample * s.length + t) * s.heads + head) * s.head_dim + d] =
          from_float<T>(sum > 0.0f ? result / sum : 0.0f);
      continue;
    }
    float *to = partial_of(c.partials, s, sample, t, head, part);
    if (d == 0) {
      to[0] = all;
      to[1] = sum;
    }
    to[2 + d] = result;
  }
}

/* Element d of a row's result, of what its parts have made of it. */
template <typename T> __device__ inline void join_do(const cache_read<T> &c, unsigned row, int64_t d) {
  const attention_shape &s = c.shape;
  int64_t head = row % (unsigned)s.heads, t = row / (unsigned)s.heads % (unsigned)s.length,
          sample = row / (unsigned)s.heads / (unsigned)s.length, start = c.positions[sample];
  bool exists = t < hr__cache_rows(start, c.counts[sample], s.length, s.context);
  int64_t used = exists ? (start + t) / s.part_keys + 1 : 0; /* parts that it reaches into */
  float all = -INFINITY, sum = 0.0f, result = 0.0f;
  for (int64_t part = 0; part < used; part++)
    all = fmaxf(all, partial_of(c.partials, s, sample, t, head, part)[0]);
  for (int64_t part = 0; part < used; part++) {
    const float *from = partial_of(c.partials, s, sample, t, head, part);
    float factor = expf(from[0] - all);
    sum += from[1] * factor;
    result += from[2 + d] * factor;
  }
  c.y[row * s.head_dim + d] = from_float<T>(sum > 0.0f ? result / sum : 0.0f);
}

static attention_shape attention_shape_of(const hr_call *call) {
  const hr_cache_args *args = (const hr_cache_args *)call->args;
  const hr_desc &q = call->in[ATT_Q].desc, &keys = call->in[ATT_KEYS].desc;
  attention_shape s = {};
  s.samples = q.dim[0];
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
  return s;
}

template <typename T> static cache_read<T> cache_read_of(const hr_call *call, const attention_shape &shape) {
  return {(const T *)call->in[ATT_Q].data,
          (const T *)call->in[ATT_KEYS].data,
          (const T *)call->in[ATT_VALUES].data,
          (const int32_t *)call->in[ATT_POSITIONS].data,
          (const int32_t *)call->in[ATT_COUNTS].data,
          (T *)call->out[0].data,
          (float *)call->workspace,
          shape};
}

#endif
