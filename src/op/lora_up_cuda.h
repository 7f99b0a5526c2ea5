/* How lora_up_bwd lays out its workspace on CUDA; plain C, for the planner and for the kernels.
 *
 * dy is read once, by blocks of `tile` columns of one group and some rows. Each leaves sums that others complete:
 *
 *   dh_sums f32 [tiles, rows, rank]            over the columns of a tile
 *   db_sums f32 [row_blocks, rows of B, rank]  over the rows of a block
 *
 * That way serves 16-bit types with rank 8 or 16, where everything comes in eights; all other calls need no workspace.
 */
#ifndef HR_OP_LORA_UP_CUDA_H
#define HR_OP_LORA_UP_CUDA_H

#include "dev/dtype.h"
#include "op/lora_up.h"

enum {
  HR_LORA_TILE = 512,   /* columns, at most */
  HR_LORA_NARROW = 384, /* where groups come in these and not in the others, which would leave warps idle */
  HR_LORA_ROWS = 16,    /* rows of a block are a multiple ... */
  HR_LORA_LEAST = 64,   /* ... and no fewer */
  HR_LORA_PROCESSORS = 132,
  HR_LORA_AT_ONCE = 2 /* blocks of a multiprocessor; of narrow tiles one more. As many are wanted, and hardly more */
};

typedef struct hr_lora_cuda {
  bool tiled; /* false: the rest is 0 */
  int64_t weight_rows;
  int64_t tile; /* columns of one */
  int64_t tiles, row_blocks, block_rows;
  size_t db_sums; /* bytes from the start of the workspace, where dh_sums are */
  size_t bytes;
} hr_lora_cuda;

static inline int64_t hr__lora_cuda_up(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

static inline hr_lora_cuda hr__lora_cuda_of(int64_t rows, hr_dtype dtype, const hr_lora_up_args *a) {
  hr_lora_cuda l = {false, 0, 0, 0, 0, 0, 0, 0};
  bool eights = a->columns % 8 == 0;
  for (int g = 0; g < a->groups; g++)
    eights = eights && a->first[g] % 8 == 0 && a->rows[g] % 8 == 0;
  if (!eights || dtype == HR_F32 || (a->rank != 8 && a->rank != 16)) return l;
  bool whole = true, narrow = true;
  for (int g = 0; g < a->groups; g++) {
    whole = whole && a->rows[g] % HR_LORA_TILE == 0;
    narrow = narrow && a->rows[g] % HR_LORA_NARROW == 0;
  }
  l.tiled = true;
  l.tile = narrow && !whole ? HR_LORA_NARROW : HR_LORA_TILE;
  for (int g = 0; g < a->groups; g++) {
    l.weight_rows += a->rows[g];
    l.tiles += hr__lora_cuda_up(a->rows[g], l.tile);
  }
  int64_t at_once = HR_LORA_PROCESSORS * (HR_LORA_AT_ONCE + (l.tile == HR_LORA_NARROW));
  int64_t blocks = l.tiles < at_once ? at_once / l.tiles : 1;
  l.block_rows = hr__lora_cuda_up(hr__lora_cuda_up(rows, blocks), HR_LORA_ROWS) * HR_LORA_ROWS;
  if (l.block_rows < HR_LORA_LEAST) l.block_rows = HR_LORA_LEAST;
  l.row_blocks = hr__lora_cuda_up(rows, l.block_rows);
  l.db_sums = (size_t)hr__lora_cuda_up(l.tiles * rows * a->rank * 4, 256) * 256;
  l.bytes = l.db_sums + (size_t)(l.row_blocks * l.weight_rows * a->rank) * 4;
  return l;
}

#endif
