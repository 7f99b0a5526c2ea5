/* Caps that the planner and the CUDA plug-in agree on. Plain C without CUDA: op files include it to declare workspace.
 */
#ifndef HR_DEV_CUDA_LIMITS_H
#define HR_DEV_CUDA_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dev/dtype.h"

/* Most scratch of one cuBLASLt product: its heuristic is asked for algorithms that need no more than this. */
static const size_t HR_CUBLASLT_WORKSPACE = (size_t)32 << 20;

/* Sums over whole tensors: one f64 partial for every so many elements of a tensor (the rest counts as one more). */
static const int64_t HR_CUDA_SUM_CHUNK = 32 * 1024;

/* Scratch of cuDNN's attention (dev/cuda/cudnn.h); what asks for more is not used. Backward in a fixed order
 * keeps the gradients of all scores in 16 bits; 0: they are too many for that to be wanted. Grouped heads have dk and
 * dv of every query head before these are summed. */
static inline size_t hr__cudnn_attention_cap(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads,
                                             int64_t head_dim, bool backward) {
  const size_t slack = (size_t)16 << 20, scores_limit = (size_t)512 << 20;
  if (!backward) return slack;
  size_t padded = (size_t)(length + 127) / 128 * 128, rows = (size_t)batch * (size_t)heads * padded;
  size_t scores = rows * padded * 2;
  if (scores > scores_limit) return 0;
  size_t bytes = slack + scores + rows * 2 * sizeof(float);
  return kv_heads < heads ? bytes + 2 * rows * (size_t)head_dim * sizeof(float) : bytes;
}

/* cuBLASLt gives f32 sums of any operands, and 16-bit results in the type of 16-bit operands. Any other result is
 * computed in f32 and rounded. */
static inline bool hr__lt_staged(hr_dtype in, hr_dtype out) {
  return out != HR_F32 && out != in;
}

/* Scratch of a product with a result of m x n. Algorithms keep f32 partial sums there, one set for each part into which
 * they split k; at most 16 sets, and no more than the cap. A staged result lies behind. */
static inline size_t hr__lt_bytes(int64_t m, int64_t n, hr_dtype in, hr_dtype out) {
  size_t grain = (size_t)64 << 10, sums = (size_t)m * (size_t)n * sizeof(float), scratch = HR_CUBLASLT_WORKSPACE;
  if (sums < scratch / 16) scratch = (16 * sums + grain - 1) / grain * grain;
  return scratch + (hr__lt_staged(in, out) ? (sums + 255) / 256 * 256 : 0);
}

#endif
