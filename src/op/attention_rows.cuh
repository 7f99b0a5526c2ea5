/* What the CUDA kernels of attention share: where rows lie, what a query sees, and the two numbers per query that
 * backward needs.
 *
 * A row is one head at one position: head_dim neighbouring elements. From one position to the next are `stride`
 * elements, so that heads of a packed operand are read where they lie. Positions and heads are ints (attention.cu sees
 * to it that they fit), offsets are 64 bits wide.
 */
#ifndef HR_OP_ATTENTION_ROWS_CUH
#define HR_OP_ATTENTION_ROWS_CUH

#include <limits.h>

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/attention_drop.h"
}

template <typename T> struct head_rows {
  T *data;
  int64_t stride;
};

/* Farther than any position; two of them together still fit an int. */
enum { FAR_AWAY = INT_MAX / 4 };

/* What is dropped, and the factor of what is kept; limit 0: nothing is, and it is 1. */
struct attention_dropping {
  const hr_control *control;
  uint64_t stream_key, use;
  int64_t first; /* number of the sample in row 0 of the batch */
  uint32_t limit;
  float scale;
};

struct attention_sizes {
  int batch, length, heads, kv_heads, head_dim;
  float scale;
  int ahead, behind;  /* the query at i sees the keys j with i - behind < j <= i + ahead */
  const int *lengths; /* [B]; NULL: all of `length` */
  const int *starts;  /* [B, T]: where documents begin; NULL: a sequence is one */
  attention_dropping drop;
};

template <typename T> struct forward_operands {
  attention_sizes size;
  head_rows<const T> q, k, v;
  head_rows<T> y;
  float *lse; /* [B, heads, T] */
};

/* Of one query: its log-sum-exp in base 2, and delta = dy . y, which the softmax's gradient subtracts. */
struct query_facts {
  float lse2, delta;
};

template <typename T> struct backward_operands {
  attention_sizes size;
  head_rows<const T> q, k, v, dy;
  head_rows<T> dq, dk, dv;
  const query_facts *facts; /* [B, heads, T] */
};

static constexpr float LOG2_E = 1.4426950408889634f;

/* Row 0 of a head. */
template <typename T>
static __device__ inline T *head_start(head_rows<T> rows, const attention_sizes &size, int batch, int head) {
  return rows.data + (int64_t)batch * size.length * rows.stride + (int64_t)head * size.head_dim;
}

/* Which keys the queries of one sequence see. Positions from `end` on are not there: rows of them that a kernel loads
 * are zero, and what it computes for such queries is not used. Ranges are [begin, end). */
struct sight {
  static constexpr bool MAY_BE_BLIND = true; /* a query may see no key of a tile before it sees any */
  int end, ahead, behind;

  __device__ inline sight(const attention_sizes &size, int batch)
      : end(size.lengths ? max(0, min(size.lengths[batch], size.length)) : size.length), ahead(size.ahead),
        behind(size.behind) {}

  /* query - behind < key <= query + ahead, in one comparison */
  __device__ inline bool has(int query, int key) const {
    return key < end && (unsigned)(key - query + behind - 1) < (unsigned)(ahead + behind);
  }
  /* Whether no query of a range sees a key of the other, and whether every one sees all of them. */
  __device__ inline bool none(int query, int query_end, int key, int key_end) const {
    return query >= end || key >= end || key >= query_end + ahead || key_end <= query - behind + 1;
  }
  __device__ inline bool all(int query, int query_end, int key, int key_end) const {
    return key_end <= end && key_end <= query + ahead + 1 && key >= query_end - behind;
  }
  /* What holds all keys that queries of a range see, and all queries that see keys of a range. */
  __device__ inline int keys_begin(int query) const { return max(0, query - behind + 1); }
  __device__ inline int keys_end(int query, int query_end) const {
    return query < end ? min(end, query_end + ahead) : 0;
  }
  __device__ inline int queries_begin(int key) const { return max(0, key - ahead); }
  __device__ inline int queries_end(int key, int key_end) const {
    return key < end ? min(end, key_end - 1 + behind) : 0;
  }
};

/* The same of causal attention over whole sequences, which is nearly all there is: kernels that are short of registers
 * are compiled for it once more. */
struct causal_sight {
  static constexpr bool MAY_BE_BLIND = false;
  int end;

  __device__ inline causal_sight(const attention_sizes &size, int) : end(size.length) {}
  __device__ inline bool has(int query, int key) const { return key <= query; }
  __device__ inline bool none(int, int query_end, int key, int) const { return key >= query_end; }
  __device__ inline bool all(int query, int, int, int key_end) const { return key_end <= query + 1; }
  __device__ inline int keys_begin(int) const { return 0; }
  __device__ inline int keys_end(int, int query_end) const { return min(end, query_end); }
  __device__ inline int queries_begin(int key) const { return key; }
  __device__ inline int queries_end(int, int) const { return end; }
};

/* The same of several documents in a sequence, with or without a window. Where they begin ascends along the sequence,
 * so that the first query of a range looks back farthest. */
struct document_sight {
  static constexpr bool MAY_BE_BLIND = true;
  int end, behind;
  const int *starts; /* of the sequence */

  __device__ inline document_sight(const attention_sizes &size, int batch)
      : end(size.length), behind(size.behind), starts(size.starts + (int64_t)batch * size.length) {}

  /* The first key that a query sees; queries that are not there are as the last one. */
  __device__ inline int first(int query) const {
    int there = min(query, end - 1);
    return max(__ldg(starts + there), there - behind + 1);
  }
  __device__ inline bool has(int query, int key) const { return key <= query && key >= first(query); }
  __device__ inline bool none(int query, int query_end, int key, int key_end) const {
    return query >= end || key >= query_end || key_end <= first(query);
  }
  __device__ inline bool all(int query, int query_end, int key, int key_end) const {
    return key_end <= query + 1 && key >= first(query_end - 1);
  }
  __device__ inline int keys_begin(int query) const { return max(0, first(query)); }
  __device__ inline int keys_end(int query, int query_end) const { return query < end ? min(end, query_end) : 0; }
  __device__ inline int queries_begin(int key) const { return key; }
  /* Up to the first query whose document, or window, begins behind the keys. */
  __device__ inline int queries_end(int key, int key_end) const {
    if (key >= end) return 0;
    int low = min(end, key_end), high = end;
    while (low < high) {
      int middle = (low + high) / 2;
      if (first(middle) < key_end)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

/* The block's place in a grid of heads x tiles: tiles with the most work (that is, the most visible keys or queries)
 * come first, so that the short ones level out the end. `heads` counts heads of all batches together. */
struct block_place {
  int batch, head, tile;
};
static __device__ inline block_place place_of_block(const attention_sizes &size, int heads, int tiles,
                                                    bool last_is_heavy) {
  int pairs = size.batch * heads, pair = (int)(blockIdx.x % (unsigned)pairs),
      tile = (int)(blockIdx.x / (unsigned)pairs);
  return {pair / heads, pair % heads, last_is_heavy ? tiles - 1 - tile : tile};
}

enum { FACTS_THREADS = 256, FACTS_LANES = 8 };

/* How many lanes sum one row together, as a power of two: no more than have a pack of a small head. */
static inline int facts_lanes(int head_dim, size_t element) {
  int power = 0;
  while (1 << power < FACTS_LANES && (size_t)16 << power < (size_t)head_dim * element)
    power++;
  return power;
}

/* y, dy [B, T, heads, D] and lse [B, heads, T] -> facts [B, heads, T]. 2^power lanes per row; in packs of 16 bytes
 * where `packed` says that rows begin and end at such. */
template <typename T>
static __global__ void __launch_bounds__(FACTS_THREADS)
    attention_facts(attention_sizes size, const T *y, const T *dy, const float *lse, query_facts *facts, int power,
                    bool packed) {
  constexpr int WIDTH = 16 / sizeof(T);
  int64_t rows = (int64_t)size.batch * size.length * size.heads;
  int64_t row = ((int64_t)blockIdx.x * FACTS_THREADS + threadIdx.x) >> power;
  int lanes = 1 << power, lane = (int)threadIdx.x & (lanes - 1), dim = size.head_dim;
  float sum = 0.0f;
  if (row < rows) {
    const T *a = y + row * dim, *b = dy + row * dim;
    if (packed) {
      for (int d = lane * WIDTH; d < dim; d += lanes * WIDTH) {
        pack<T, WIDTH> x = *(const pack<T, WIDTH> *)(a + d), z = *(const pack<T, WIDTH> *)(b + d);
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
          sum = fmaf(to_float(x.value[e]), to_float(z.value[e]), sum);
      }
    } else {
      for (int d = lane; d < dim; d += lanes)
        sum = fmaf(to_float(a[d]), to_float(b[d]), sum);
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(~0u, sum, distance);
  if (row < rows && lane == 0) {
    int64_t head, position; /* the latter over all sequences */
    if (rows <= UINT32_MAX) /* 64 bits take far longer to divide */
      head = (uint32_t)row % (uint32_t)size.heads, position = (uint32_t)row / (uint32_t)size.heads;
    else
      head = row % size.heads, position = row / size.heads;
    int64_t batch = position <= UINT32_MAX ? (uint32_t)position / (uint32_t)size.length : position / size.length;
    int64_t at = (batch * size.heads + head) * size.length + (position - batch * size.length);
    facts[at] = {lse[at] * LOG2_E, sum};
  }
}

#endif
