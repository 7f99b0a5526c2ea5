/* ssd: the state-space scan of Mamba-2, chunk by chunk, and its backward op.
 *
 * For every head of every sequence, with a state h [N, P] that begins as 0,
 *
 *   h_t = exp(d_t A) h_(t-1) + d_t B_t x_t^T        y_t = C_t h_t + D x_t
 *
 * where A = -exp(A_log) and d = softplus(step + bias), held between two limits. x has P channels for each of H heads; B
 * and C have N numbers for each of G groups of heads, which share them.
 *
 * Where there are starts (of documents packed into one sequence, as op/attention.h has them), h_(t-1) is 0 for the
 * first position of each document.
 *
 * Within a tile of positions the scan is three products of matrices; between tiles the state goes on. What backward
 * needs beside the operands are the states at the beginning of every chunk. Nothing has the size of L x L.
 *
 * x, B and C lie side by side in the rows of one operand, as the convolution before the scan leaves them; steps are
 * some columns of rows that hold more. Their gradient is added to those columns of the sum so far, in place.
 */
#ifndef HR_OP_SSD_H
#define HR_OP_SSD_H

#include "graph/builder.h"

enum { HR_SSD_CHUNK_MOST = 256 };

typedef struct hr_ssd_args {
  int64_t heads, head_dim, groups, state; /* H, P, G, N */
  int64_t chunk;                          /* positions, at most HR_SSD_CHUNK_MOST */
  int64_t step_first;                     /* column that the steps begin at */
  float step_least, step_most;            /* limits of d; INFINITY: no upper one */
} hr_ssd_args;

enum { HR_SSD_MIXED, HR_SSD_STEPS, HR_SSD_A_LOG, HR_SSD_BIAS, HR_SSD_D, HR_SSD_STARTS, HR_SSD_OPERANDS };
/* mixed [..., L, H P + 2 G N], steps [..., L, columns], A_log [H], bias [H], D [H], starts? i32 [..., L]
 *    -> y [..., L, H P], states f32 [..., chunks, H N P]: before each chunk, even where a document begins with it */
extern const hr_op hr_op_ssd;

enum {
  HR_SSD_DY,
  HR_SSD_BWD_MIXED,
  HR_SSD_BWD_STEPS,
  HR_SSD_BWD_A_LOG,
  HR_SSD_BWD_BIAS,
  HR_SSD_BWD_D,
  HR_SSD_BWD_STARTS,
  HR_SSD_BWD_STATES,
  HR_SSD_BWD_PARTIAL,
  HR_SSD_BWD_OPERANDS
};
/* dy, mixed, steps, A_log, bias, D, starts?, states, sum of dsteps so far?
 *    -> dmixed, dsteps [..., L, columns], gradients of A_log, bias and D: f32 [3, H] */
extern const hr_op hr_op_ssd_bwd;

/* Starts may be HR_NONE. */
hr_id hr__ssd(hr_builder *b, hr_id mixed, hr_id steps, hr_id a_log, hr_id bias, hr_id d, hr_id starts,
              const hr_ssd_args *args);

/* What kernels work with. */
typedef struct hr_ssd_sizes {
  int64_t sequences, length, chunk, chunks;
  int64_t heads, dim, groups, state;  /* H, P, G, N */
  int64_t mixed, steps, y;            /* columns of rows */
  int64_t b_first, c_first;           /* columns of the first group's B and C */
  int64_t state_floats, chunk_floats; /* N P, and that of all heads */
} hr_ssd_sizes;

static inline hr_ssd_sizes hr__ssd_sizes(const hr_desc *mixed, const hr_desc *steps, const hr_ssd_args *args) {
  hr_ssd_sizes s;
  s.sequences = 1;
  s.length = mixed->dim[mixed->rank - 2];
  s.chunk = args->chunk;
  s.heads = args->heads;
  s.dim = args->head_dim;
  s.groups = args->groups;
  s.state = args->state;
  s.mixed = mixed->dim[mixed->rank - 1];
  s.steps = steps->dim[steps->rank - 1];
  s.y = args->heads * args->head_dim;
  for (int d = 0; d < mixed->rank - 2; d++)
    s.sequences *= mixed->dim[d];
  s.chunks = (s.length + s.chunk - 1) / s.chunk;
  s.b_first = s.y;
  s.c_first = s.y + s.groups * s.state;
  s.state_floats = s.state * s.dim;
  s.chunk_floats = s.heads * s.state_floats;
  return s;
}

#endif
