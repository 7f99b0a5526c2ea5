/* Lengths around the library's attention: it takes them from 1 to T, and leaves rows behind them as they come. */
#ifndef HR_OP_ATTENTION_LENGTHS_CUH
#define HR_OP_ATTENTION_LENGTHS_CUH

#include "dev/cuda/cudnn.h"
#include "op/attention_rows.cuh"

enum { LENGTHS_THREADS = 128, CLEAR_PARTS = 8, CLEARED = 3 };

/* to[b]: what the library is told. A sequence of which nothing is there has one position, whose results are cleared. */
static __global__ void lengths_limit(const int *lengths, int *to, int batch, int length) {
  int b = (int)(blockIdx.x * LENGTHS_THREADS + threadIdx.x);
  if (b < batch) to[b] = max(1, min(lengths[b], length));
}

/* Columns of 16-bit rows, in pieces of 16 bytes; data NULL: none. */
struct cleared_rows {
  uint4 *data;
  int64_t stride; /* pieces from a row to the next */
  int pieces;
};
struct clearing {
  const int *lengths;
  int length, heads;
  cleared_rows rows[CLEARED];
  float *lse; /* [B, heads, T], or NULL */
};

/* Zeros for positions behind the length of their sequence. A block: each CLEAR_PARTS-th of those of one sequence. */
static __global__ void __launch_bounds__(LENGTHS_THREADS) rows_clear(const __grid_constant__ clearing c) {
  int batch = (int)(blockIdx.x / CLEAR_PARTS), part = (int)(blockIdx.x % CLEAR_PARTS);
  int end = max(0, min(c.lengths[batch], c.length));
  for (int row = end + part; row < c.length; row += CLEAR_PARTS) {
#pragma unroll
    for (int i = 0; i < CLEARED; i++)
      for (int p = (int)threadIdx.x; c.rows[i].data && p < c.rows[i].pieces; p += LENGTHS_THREADS)
        c.rows[i].data[((int64_t)batch * c.length + row) * c.rows[i].stride + p] = make_uint4(0, 0, 0, 0);
    for (int head = (int)threadIdx.x; c.lse && head < c.heads; head += LENGTHS_THREADS)
      c.lse[((int64_t)batch * c.heads + head) * c.length + row] = 0.0f;
  }
}

static void lengths_tell(const hr_call *call, const attention_sizes &size) {
  launch(lengths_limit, (unsigned)divide_up(size.batch, LENGTHS_THREADS), LENGTHS_THREADS, 0, call_stream(call),
         size.lengths, hr__cudnn_lengths(call, size.batch), size.batch, size.length);
}

template <typename T> static cleared_rows cleared_of(const head_rows<T> &rows, int heads, const attention_sizes &size) {
  int64_t piece = 16 / (int64_t)sizeof(T);
  return {(uint4 *)rows.data, rows.stride / piece, (int)(heads * size.head_dim / piece)};
}

static void behind_clear(const hr_call *call, const attention_sizes &size, clearing c) {
  c.lengths = size.lengths;
  c.length = size.length;
  c.heads = size.heads;
  launch(rows_clear, (unsigned)(size.batch * CLEAR_PARTS), LENGTHS_THREADS, 0, call_stream(call), c);
}

#endif
