/* How head_loss cuts its rows and lays out its workspace on CUDA; plain C, for the planner and for the kernels.
 *
 * Logits of a chunk are f32, rows `ld` floats apart. Their gradient takes their place, in the type of x: a narrower row
 * begins where the row of logits did.
 */
#ifndef HR_OP_HEAD_LOSS_CUDA_H
#define HR_OP_HEAD_LOSS_CUDA_H

#include "dev/cuda/limits.h"

typedef struct hr_head_cuda {
  int64_t rows, width, vocabulary;
  int64_t chunk_rows, chunks; /* the last chunk may be shorter */
  int64_t ld;
  size_t losses;  /* bytes from the start of the workspace: f64 [rows] */
  size_t scratch; /* of the products */
  size_t bytes;
} hr_head_cuda;

enum {
  HR_HEAD_CUDA_LOGITS = 256 << 20, /* bytes of a chunk's logits; twice that where every chunk also passes over dW */
  HR_HEAD_CUDA_GRAIN = 128,        /* rows: chunks are multiples, and no smaller */
  HR_HEAD_CUDA_LINE = 64           /* floats: rows of logits begin at multiples */
};

static inline int64_t hr__head_cuda_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

static inline size_t hr__head_cuda_larger(size_t a, size_t b) {
  return a > b ? a : b;
}

/* As few chunks as the bytes allow, of about the same size. wanted: rows of a chunk, 0 to choose. */
static inline int64_t hr__head_cuda_chunk(int64_t rows, int64_t ld, bool want_dw, int64_t wanted) {
  int64_t bytes = (int64_t)HR_HEAD_CUDA_LOGITS * (want_dw ? 2 : 1);
  int64_t most = bytes / 4 / ld / HR_HEAD_CUDA_GRAIN * HR_HEAD_CUDA_GRAIN;
  if (most < HR_HEAD_CUDA_GRAIN) most = HR_HEAD_CUDA_GRAIN;
  int64_t chunks = (rows + most - 1) / most;
  int64_t chunk = wanted > 0 ? wanted : hr__head_cuda_up((rows + chunks - 1) / chunks, HR_HEAD_CUDA_GRAIN);
  return chunk < rows ? chunk : rows;
}

/* dtype: of x and W. want_dw with dw_dtype: whether and in which type dW is made; dx has the type of x. */
static inline hr_head_cuda hr__head_cuda_of(int64_t rows, int64_t width, int64_t vocabulary, int64_t wanted,
                                            hr_dtype dtype, bool want_dx, bool want_dw, hr_dtype dw_dtype) {
  hr_head_cuda h;
  h.rows = rows;
  h.width = width;
  h.vocabulary = vocabulary;
  h.ld = hr__head_cuda_up(vocabulary, HR_HEAD_CUDA_LINE);
  h.chunk_rows = hr__head_cuda_chunk(rows, h.ld, want_dw, wanted);
  h.chunks = (rows + h.chunk_rows - 1) / h.chunk_rows;
  size_t scratch = hr__lt_bytes(h.chunk_rows, vocabulary, dtype, HR_F32);
  if (want_dx) scratch = hr__head_cuda_larger(scratch, hr__lt_bytes(h.chunk_rows, width, dtype, dtype));
  if (want_dw) scratch = hr__head_cuda_larger(scratch, hr__lt_bytes(vocabulary, width, dtype, dw_dtype));
  h.losses = (size_t)h.chunk_rows * (size_t)h.ld * 4; /* a multiple of 256 */
  h.scratch = h.losses + (size_t)hr__head_cuda_up(rows * 8, 256);
  h.bytes = h.scratch + scratch;
  return h;
}

#endif
