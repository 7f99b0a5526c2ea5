/* What the CUDA kernels of attention share: where rows lie, and the two numbers per query that backward needs.
 *
 * A row is one head at one position: head_dim neighbouring elements. From one position to the next are `stride`
 * elements, so that heads of a packed operand are read where they lie. Positions and heads are ints (attention.cu sees
 * to it that they fit), offsets are 64 bits wide.
 */
#ifndef HR_OP_ATTENTION_ROWS_CUH
#define HR_OP_ATTENTION_ROWS_CUH

#include "dev/cuda/launch.cuh"

template <typename T> struct head_rows {
  T *data;
  int64_t stride;
};

struct attention_sizes {
  int batch, length, heads, kv_heads, head_dim;
  float scale;
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

/* The block's place in a grid of heads x tiles: tiles with the most work (that is, the most visible keys or queries)
 * come first, so that the short ones level out the end. `heads` counts heads of all batches together. */
struct block_place {
  int batch, head, tile;
};
static __device__ inline block_place place_of_block(const attention_sizes &size, int heads, int tiles,
                                                    bool last_is_heavy) {
  int pairs = size.batch * heads, pair = (int)(blockIdx.x % (unsigned)pairs), tile = (int)(blockIdx.x / (unsigned)pairs);
  return {pair / heads, pair % heads, last_is_heavy ? tiles - 1 - tile : tile};
}

/* Lanes that sum one row together: a power of two, so that they can halve. */
enum { FACTS_THREADS = 256, FACTS_LANES = 8 };

/* y, dy [B, T, heads, D] and lse [B, heads, T] -> facts [B, heads, T]. One group of lanes per row; in packs of 16 bytes
 * where `packed` says that rows begin and end at such. */
template <typename T>
static __global__ void __launch_bounds__(FACTS_THREADS)
    attention_facts(attention_sizes size, const T *y, const T *dy, const float *lse, query_facts *facts, bool packed) {
  constexpr int WIDTH = 16 / sizeof(T);
  int64_t rows = (int64_t)size.batch * size.length * size.heads;
  int64_t row = ((int64_t)blockIdx.x * FACTS_THREADS + threadIdx.x) / FACTS_LANES;
  int lane = (int)threadIdx.x % FACTS_LANES, dim = size.head_dim;
  float sum = 0.0f;
  if (row < rows) {
    const T *a = y + row * dim, *b = dy + row * dim;
    if (packed) {
      for (int d = lane * WIDTH; d < dim; d += FACTS_LANES * WIDTH) {
        pack<T, WIDTH> x = *(const pack<T, WIDTH> *)(a + d), z = *(const pack<T, WIDTH> *)(b + d);
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
          sum = fmaf(to_float(x.value[e]), to_float(z.value[e]), sum);
      }
    } else {
      for (int d = lane; d < dim; d += FACTS_LANES)
        sum = fmaf(to_float(a[d]), to_float(b[d]), sum);
    }
  }
#pragma unroll
  for (int distance = FACTS_LANES / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(~0u, sum, distance);
  if (row < rows && lane == 0) {
    int64_t head = row % size.heads, position = row / size.heads % size.length, batch = row / size.heads / size.length;
    int64_t at = (batch * size.heads + head) * size.length + position;
    facts[at] = {lse[at] * LOG2_E, sum};
  }
}

#endif
