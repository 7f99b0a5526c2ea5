/* embedding and its gradient on CUDA.
 *
 * The gradient adds up rows of dy by token. Positions are sorted by (token, position), so that the rows of a token are
 * neighbours and in order; then a block for each place where a token begins adds them and writes its row of dW once.
 * The sort is stable, counts with ballots instead of atomics, and its work does not depend on the vocabulary.
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/embedding.h"
}

enum { WARP = 32, ROW_THREADS = 256 };

/* Block i: row of token i, in units as large as rows and addresses allow. */
template <typename U>
static __global__ void __launch_bounds__(ROW_THREADS)
    embedding_kernel(const int32_t *tokens, const U *weight, U *y, int64_t rows, int64_t units) {
  int64_t token = tokens[blockIdx.x];
  bool known = token >= 0 && token < rows;
  for (int64_t i = threadIdx.x; i < units; i += ROW_THREADS)
    y[blockIdx.x * units + i] = known ? weight[token * units + i] : U();
}

template <typename U> static bool embedding_try(const hr_call *call, int64_t row_bytes) {
  int64_t count = desc_count(call->in[0].desc), rows = call->in[1].desc.dim[0], size = (int64_t)sizeof(U);
  const void *weight = call->in[1].data;
  void *y = call->out[0].data;
  if (row_bytes % size != 0 || !aligned(weight, sizeof(U)) || !aligned(y, sizeof(U))) return false;
  launch(embedding_kernel<U>, (unsigned)count, ROW_THREADS, 0, call_stream(call), (const int32_t *)call->in[0].data,
         (const U *)weight, (U *)y, rows, row_bytes / size);
  return true;
}

static hr_status embedding_run(const hr_call *call) {
  const hr_desc &weight = call->in[1].desc;
  int64_t row_bytes = weight.dim[1] * (weight.dtype == HR_F32 ? 4 : 2);
  if (!embedding_try<uint4>(call, row_bytes) && !embedding_try<uint32_t>(call, row_bytes))
    embedding_try<uint16_t>(call, row_bytes);
  return launched();
}

/* ---- embedding_dw ---- */

enum { SORT_THREADS = 1024, SORT_WARPS = SORT_THREADS / WARP, DIGIT_BITS = 6, DIGITS = 1 << DIGIT_BITS };
enum { DW_ROWS = 8 }; /* rows of dy in flight */

/* Token in the upper half, position in the lower; tokens outside of the table, and padding, get the first number behind
 * it. */
__device__ inline uint64_t entry_of(const int32_t *tokens, int64_t rows, int64_t padded, int64_t position) {
  int64_t token = tokens[position];
  uint64_t key = (uint64_t)(token >= 0 && token < rows && token + 1 != padded ? token : rows);
  return key << 32 | (uint64_t)position;
}

/* Turns counts [digit][warp] into the places where each warp's entries of a digit begin. A thread has two neighbours.
 */
__device__ inline void places_scan(int32_t (*place)[SORT_WARPS], int32_t *totals) {
  static_assert(DIGITS * SORT_WARPS == 2 * SORT_THREADS, "two counts to a thread");
  int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  int32_t *own = &place[0][0] + 2 * threadIdx.x, left = own[0], sum = left + own[1], before = sum;
#pragma unroll
  for (int distance = 1; distance < WARP; distance *= 2) {
    int32_t other = __shfl_up_sync(~0u, before, distance);
    if (lane >= distance) before += other;
  }
  if (lane == WARP - 1) totals[warp] = before;
  __syncthreads();
  before -= sum;
  for (int i = 0; i < warp; i++)
    before += totals[i];
  own[0] = before;
  own[1] = before + left;
}

/* One block sorts all positions, DIGIT_BITS of the token in each pass, lowest first. A warp has a run of neighbouring
 * entries. Pass 0 writes a, pass 1 from a to b, and so on. */
static __global__ void __launch_bounds__(SORT_THREADS)
    tokens_sort_kernel(const int32_t *tokens, int64_t count, int64_t rows, int64_t padded, uint64_t *a, uint64_t *b,
                       int passes) {
  __shared__ int32_t place[DIGITS][SORT_WARPS];
  __shared__ int32_t totals[SORT_WARPS];
  int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  int64_t each = (count + SORT_THREADS - 1) / SORT_THREADS * WARP;
  int64_t first = min(count, warp * each), end = min(count, first + each);

  for (int pass = 0; pass < passes; pass++) {
    const uint64_t *from = pass % 2 ? a : b;
    uint64_t *to = pass % 2 ? b : a;
    int shift = 32 + pass * DIGIT_BITS;
    for (int d = lane; d < DIGITS; d += WARP)
      place[d][warp] = 0;
    __syncwarp();
#pragma unroll 4
    for (int64_t at = first; at < end; at += WARP) {
      int64_t i = at + lane;
      int digit = DIGITS; /* none: behind the end */
      if (i < end) digit = (int)((pass ? from[i] : entry_of(tokens, rows, padded, i)) >> shift) & (DIGITS - 1);
      unsigned mates = __match_any_sync(~0u, digit);
      if (i < end && lane == __ffs((int)mates) - 1) place[digit][warp] += __popc(mates);
      __syncwarp();
    }
    __syncthreads();
    places_scan(place, totals);
    __syncthreads();
#pragma unroll 4
    for (int64_t at = first; at < end; at += WARP) {
      int64_t i = at + lane;
      uint64_t entry = 0;
      int digit = DIGITS;
      if (i < end) {
        entry = pass ? from[i] : entry_of(tokens, rows, padded, i);
        digit = (int)(entry >> shift) & (DIGITS - 1);
      }
      unsigned mates = __match_any_sync(~0u, digit);
      int32_t begin = i < end ? place[digit][warp] : 0;
      __syncwarp();
      if (i < end) to[begin + __popc(mates & ((1u << lane) - 1))] = entry;
      if (i < end && lane == __ffs((int)mates) - 1) place[digit][warp] = begin + __popc(mates);
      __syncwarp();
    }
    __syncthreads();
  }
}

/* Elements [at, at + WIDE) of a row with `columns`, 0 behind its end. packed: whole packs at aligned addresses. */
template <typename T>
__device__ inline void row_read(const T *row, int64_t at, int64_t columns, bool packed, float *to) {
  if (packed) {
    pack_read<WIDE>(row + at, to);
    return;
  }
#pragma unroll
  for (int e = 0; e < WIDE; e++)
    to[e] = at + e < columns ? to_float(row[at + e]) : 0.0f;
}

/* Block s: where sorted[s] is the first of its token, that token's row of dW. dW may lie on the partial sum. */
template <typename T, typename P>
static __global__ void __launch_bounds__(ROW_THREADS)
    embedding_dw_kernel(const uint64_t *sorted, int64_t count, int64_t rows, const T *dy, const P *partial, P *dw,
                        int64_t columns, bool packed) {
  int64_t begin = blockIdx.x, token = (int64_t)(sorted[begin] >> 32);
  if (token >= rows || (begin > 0 && (int64_t)(sorted[begin - 1] >> 32) == token)) return;
  for (int64_t at = threadIdx.x * WIDE; at < columns; at += blockDim.x * WIDE) {
    float sum[WIDE] = {};
    if (partial) row_read(partial + token * columns, at, columns, packed, sum);
    for (int64_t s = begin; s < count && (int64_t)(sorted[s] >> 32) == token; s += DW_ROWS) {
      float add[DW_ROWS][WIDE];
#pragma unroll
      for (int k = 0; k < DW_ROWS; k++) {
        uint64_t entry = s + k < count ? sorted[s + k] : ~0ull;
        bool own = (int64_t)(entry >> 32) == token;
        int64_t position = (int64_t)(entry & 0xffffffffu);
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          add[k][e] = 0.0f;
        if (own) row_read(dy + position * columns, at, columns, packed, add[k]);
      }
#pragma unroll
      for (int k = 0; k < DW_ROWS; k++)
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          sum[e] += add[k][e];
    }
    P *to = dw + token * columns + at;
    if (packed) {
      pack_write<WIDE>(to, sum);
    } else {
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        if (at + e < columns) to[e] = from_float<P>(sum[e]);
    }
  }
}

/* Rows that no token names are those of the partial sum, or 0. */
static cudaError_t others_write(const hr_call *call) {
  const hr_desc &desc = call->out[0].desc;
  const void *partial = call->in[2].data;
  void *dw = call->out[0].data;
  size_t bytes = (size_t)desc_count(desc) * (desc.dtype == HR_F32 ? 4 : 2);
  if (partial == dw) return cudaSuccess;
  if (partial) return cudaMemcpyAsync(dw, partial, bytes, cudaMemcpyDeviceToDevice, call_stream(call));
  return cudaMemsetAsync(dw, 0, bytes, call_stream(call));
}

template <typename T, typename P> static void embedding_dw_launch(const hr_call *call, const uint64_t *sorted) {
  int64_t count = desc_count(call->in[0].desc), rows = call->out[0].desc.dim[0], columns = call->out[0].desc.dim[1];
  const T *dy = (const T *)call->in[1].data;
  const P *partial = (const P *)call->in[2].data;
  P *dw = (P *)call->out[0].data;
  bool packed = columns % WIDE == 0 && wide(dy, partial, dw);
  int64_t threads = divide_up(divide_up(columns, WIDE), WARP) * WARP;
  if (threads > ROW_THREADS) threads = ROW_THREADS;
  launch(embedding_dw_kernel<T, P>, (unsigned)count, (unsigned)threads, 0, call_stream(call), sorted, count, rows, dy,
         partial, dw, columns, packed);
}

static hr_status embedding_dw_run(const hr_call *call) {
  int64_t count = desc_count(call->in[0].desc), rows = call->out[0].desc.dim[0];
  uint64_t *a = (uint64_t *)call->workspace, *b = a + count;
  int passes = 1; /* tokens and the number behind them: rows itself is the largest */
  while (rows >> (passes * DIGIT_BITS) != 0)
    passes++;
  if (others_write(call) != cudaSuccess) return HR_FAILURE;
  const hr_embedding_dw_args *args = (const hr_embedding_dw_args *)call->args;
  launch(tokens_sort_kernel, 1, SORT_THREADS, 0, call_stream(call), (const int32_t *)call->in[0].data, count, rows,
         args->padded, a, b, passes);
  return by_dtype(call->in[1].desc.dtype, [&](auto t) {
    return by_dtype(call->out[0].desc.dtype, [&](auto p) {
      embedding_dw_launch<decltype(t), decltype(p)>(call, passes % 2 ? a : b);
      return launched();
    });
  });
}

static hr_status embedding_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  size_t bytes = hr__embedding_sort_bytes(desc_count(call->in[0].desc));
  *prepared = nullptr;
  if (call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed",
                                       call->workspace_bytes, bytes);
}

extern "C" const hr_cuda_launcher hr_cuda_embedding = {{nullptr, nullptr, embedding_run},
                                                       {(const void *)embedding_kernel<uint4>,
                                                        (const void *)embedding_kernel<uint32_t>,
                                                        (const void *)embedding_kernel<uint16_t>}};

extern "C" const hr_cuda_launcher hr_cuda_embedding_dw = {
    {embedding_dw_prepare, nullptr, embedding_dw_run},
    {(const void *)tokens_sort_kernel, (const void *)embedding_dw_kernel<float, float>,
     (const void *)embedding_dw_kernel<float, bf16>, (const void *)embedding_dw_kernel<float, f16>,
     (const void *)embedding_dw_kernel<bf16, float>, (const void *)embedding_dw_kernel<bf16, bf16>,
     (const void *)embedding_dw_kernel<bf16, f16>, (const void *)embedding_dw_kernel<f16, float>,
     (const void *)embedding_dw_kernel<f16, bf16>, (const void *)embedding_dw_kernel<f16, f16>}};
