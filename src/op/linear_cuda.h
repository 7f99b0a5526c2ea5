/* How linear_db lays out its workspace on CUDA; plain C, for the planner and for the kernels.
 *
 * Blocks of rows leave their sums, which are summed in turn:
 *
 *   sums f32 [blocks, columns]      none where there is one block
 */
#ifndef HR_OP_LINEAR_CUDA_H
#define HR_OP_LINEAR_CUDA_H

#include "dev/dtype.h"

enum { HR_DB_ROWS = 256, /* or more, for ... */ HR_DB_BLOCKS = 1024 /* at most */ };

typedef struct hr_linear_db_cuda {
  int64_t blocks, block_rows;
} hr_linear_db_cuda;

static inline hr_linear_db_cuda hr__linear_db_cuda_of(const hr_desc *dy) {
  int64_t rows = 1, each = HR_DB_ROWS;
  for (int i = 0; i + 1 < dy->rank; i++)
    rows *= dy->dim[i];
  if (rows > each * HR_DB_BLOCKS) each = (rows + HR_DB_BLOCKS - 1) / HR_DB_BLOCKS;
  hr_linear_db_cuda c = {(rows + each - 1) / each, each};
  return c;
}

static inline size_t hr__linear_db_bytes(const hr_desc *dy) {
  int64_t blocks = hr__linear_db_cuda_of(dy).blocks;
  return blocks > 1 ? (size_t)(blocks * dy->dim[dy->rank - 1]) * 4 : 0;
}

#endif
