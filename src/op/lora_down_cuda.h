/* How lora_down and its backward ops lay out their workspace on CUDA; plain C, for the planner and for the kernels.
 *
 * In 16 bits, with rows of x in steps of 32 and up to 64 columns of h in eights, x goes through tensor cores straight
 * from where it lies, masked on its way: only dA needs workspace, a sum for each block of rows,
 *
 *   sums f32 [row_blocks, width, in]
 *
 * All other calls have dropout(x), or dh A before it is masked, in the workspace, with the scratch of a product behind.
 */
#ifndef HR_OP_LORA_DOWN_CUDA_H
#define HR_OP_LORA_DOWN_CUDA_H

#include "dev/cuda/limits.h"
#include "op/lora_down_parts.h"

static const int64_t HR_DOWN_MOST = INT32_MAX; /* rows, at most */

enum {
  HR_DOWN_SLAB = 32,  /* columns of x that a warp has at a time */
  HR_DOWN_WIDTH = 64, /* of h, at most */
  HR_DOWN_ROWS = 16,  /* rows of a block are a multiple ... */
  HR_DOWN_LEAST = 64, /* ... and no fewer */
  HR_DOWN_PROCESSORS = 132
};

/* Blocks of lora_down_dw that a multiprocessor has at once. As many as a large GPU has at once are wanted: a few more
 * would take as long as twice as many. */
static inline int hr__lora_down_at_once(int64_t width) {
  return width <= 16 ? 3 : width <= HR_DOWN_WIDTH / 2 ? 2 : 1;
}

typedef struct hr_lora_down_cuda {
  bool masked; /* on its way; false: by way of the workspace */
  int64_t row_blocks, block_rows;
  size_t product; /* bytes from the start of the workspace: scratch of the product */
  size_t bytes;
} hr_lora_down_cuda;

/* Columns of x that a block of lora_down_dw has: 6 warps of 2 slabs, or of 1 where sums are many. */
static inline int64_t hr__lora_down_columns(int64_t width) {
  return width <= HR_DOWN_WIDTH / 2 ? 384 : 192;
}

static inline hr_lora_down_cuda hr__lora_down_cuda_of(const hr_lora_down *l) {
  hr_lora_down_cuda c = {false, 0, 0, 0, 0};
  c.masked = l->dtype != HR_F32 && l->in % HR_DOWN_SLAB == 0 && l->width % 8 == 0 && l->width <= HR_DOWN_WIDTH &&
             l->rows <= HR_DOWN_MOST;
  if (!c.masked) {
    int64_t m = l->kind == HR_LORA_DOWN_DW ? l->width : l->rows, n = l->kind == HR_LORA_DOWN ? l->width : l->in;
    c.product = ((size_t)(l->rows * l->in) * (l->dtype == HR_F32 ? 4 : 2) + 255) & ~(size_t)255;
    c.bytes = c.product + hr__lt_bytes(m, n, l->dtype, l->result);
    return c;
  }
  if (l->kind != HR_LORA_DOWN_DW) return c;
  int64_t columns = hr__lora_down_columns(l->width), column_blocks = (l->in + columns - 1) / columns;
  int64_t blocks = HR_DOWN_PROCESSORS * hr__lora_down_at_once(l->width);
  int64_t wanted = column_blocks < blocks ? blocks / column_blocks : 1;
  int64_t steps = (l->rows + wanted * HR_DOWN_ROWS - 1) / (wanted * HR_DOWN_ROWS);
  c.block_rows = steps * HR_DOWN_ROWS;
  if (c.block_rows < HR_DOWN_LEAST) c.block_rows = HR_DOWN_LEAST;
  c.row_blocks = (l->rows + c.block_rows - 1) / c.block_rows;
  c.bytes = (size_t)(c.row_blocks * l->width * l->in) * sizeof(float);
  return c;
}

#endif
