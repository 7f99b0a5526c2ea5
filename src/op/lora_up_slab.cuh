/* lora_up on tensor cores, for 16-bit types with rank 8 or 16: one pass over y by slabs of columns. What belongs to a
 * warp's columns of B stays in registers while it walks down the rows. */
#ifndef HR_OP_LORA_UP_SLAB_CUH
#define HR_OP_LORA_UP_SLAB_CUH

#include "dev/cuda/pair.cuh"
#include "op/gelu.cuh"
#include "op/lora_up_place.cuh"

enum { SLAB = 32, SLABS = 2, SLAB_WARPS = 6, SLAB_THREADS = SLAB_WARPS * 32, SLAB_BLOCKS = 3, SLAB_STEP = 16 };

/* A block: SLAB_WARPS x SLABS slabs of SLAB columns, block_rows rows, a multiple of SLAB_STEP. Columns and groups are
 * multiples of SLAB: a slab belongs to one group or to none. Lane 4 q + t has columns [8 t, 8 t + 8) of a slab in rows
 * q and q + 8 of a step: result (q, 2 t + e) of product i is column 8 t + 2 i + e, so that column 2 (q / 2) + q % 2 of
 * its second operand, which this lane has a part of, is row 8 (q / 2) + 2 i + q % 2 of B. */
enum slab_behind { SLAB_ALONE, SLAB_GELU, SLAB_GELU_TANH }; /* what is made of y on its way, into `after` */

template <typename T, int RANK, int BEHIND>
static __global__ void __launch_bounds__(SLAB_THREADS, SLAB_BLOCKS)
    up_slab_kernel(const T *h, const T *weight, const T *add, T *y, T *after, int64_t rows, int64_t column_blocks,
                   int64_t block_rows, const __grid_constant__ hr_lora_up_args a) {
  int warp = threadIdx.x / 32, q = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int64_t begin = (int64_t)blockIdx.x / column_blocks * block_rows, width = a.groups * RANK;
  int64_t column = ((int64_t)blockIdx.x % column_blocks * SLAB_WARPS + warp) * SLABS * SLAB; /* of the first slab */
  int64_t at = (begin + q) * a.columns + column + 8 * t;
  int n = (int)(rows - begin < block_rows ? rows - begin : block_rows);
  bool inside[SLABS], grouped[SLABS];
  const T *h_at[SLABS];
  uint32_t b[SLABS][4][2];
#pragma unroll
  for (int s = 0; s < SLABS; s++) {
    lora_place place = place_of_column(a, column + s * SLAB);
    inside[s] = column + s * SLAB < a.columns;
    grouped[s] = inside[s] && place.group >= 0;
    h_at[s] = h + (begin + q) * width + (grouped[s] ? place.group * RANK : 0) + 2 * t;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const T *from = weight + (place.weight + 8 * (q / 2) + 2 * i + q % 2) * RANK + 2 * t;
      b[s][i][0] = grouped[s] ? *(const uint32_t *)from : 0;
      b[s][i][1] = RANK == 16 && grouped[s] ? *(const uint32_t *)(from + 8) : 0;
    }
  }
  pack<T, 8> next[SLABS][2]; /* one step ahead, and h of its rows */
  uint32_t h_next[SLABS][RANK == 16 ? 4 : 2];
  auto read = [&](int first) {
#pragma unroll
    for (int s = 0; s < SLABS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        bool has = first + q + 8 * half < n;
        const T *from = h_at[s] + (first + half * 8) * width;
        next[s][half] = {};
        if (add && inside[s] && has) next[s][half] = pack_load<8>(add + at + (first + half * 8) * a.columns + s * SLAB);
        h_next[s][half] = has && grouped[s] ? *(const uint32_t *)from : 0;
        if constexpr (RANK == 16) h_next[s][2 + half] = has && grouped[s] ? *(const uint32_t *)(from + 8) : 0;
      }
  };
  read(0);
  for (int first = 0; first < n; first += SLAB_STEP) {
    pack<T, 8> from[SLABS][2];
    uint32_t x[SLABS][4];
#pragma unroll
    for (int s = 0; s < SLABS; s++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        from[s][half] = next[s][half];
        x[s][half] = h_next[s][half];
        x[s][2 + half] = RANK == 16 ? h_next[s][RANK == 16 ? 2 + half : 0] : 0;
      }
    if (first + SLAB_STEP < n) read(first + SLAB_STEP);
#pragma unroll
    for (int s = 0; s < SLABS; s++) {
      float sum[4][4] = {};
#pragma unroll
      for (int i = 0; i < 4; i++)
        multiply<T>(sum[i], x[s], b[s][i][0], b[s][i][1]);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float to[8];
        pack_floats(from[s][half], to);
#pragma unroll
        for (int e = 0; e < 8; e++)
          to[e] = fmaf(a.scale, sum[e / 2][2 * half + e % 2], to[e]);
        if (!inside[s] || first + q + 8 * half >= n) continue;
        int64_t place = at + (first + half * 8) * a.columns + s * SLAB;
        if (BEHIND == SLAB_ALONE || y) pack_write<8>(y + place, to);
        if constexpr (BEHIND != SLAB_ALONE) {
          round_pairs<T>(to);
#pragma unroll
          for (int e = 0; e < 8; e++)
            to[e] = gelu_of<T, BEHIND == SLAB_GELU_TANH>(to[e]);
          pack_write<8>(after + place, to);
        }
      }
    }
  }
}

/* Whether y goes by slabs. */
static bool slabs_fit(const hr_call *call, const hr_lora_up_args &a) {
  bool fit = a.columns % SLAB == 0 && aligned(call->in[0].data, 4) && aligned(call->in[1].data, 4) &&
             wide(call->in[2].data, call->out[0].data);
  for (int g = 0; g < a.groups; g++)
    fit = fit && a.first[g] % SLAB == 0 && a.rows[g] % SLAB == 0;
  return fit;
}

/* As many blocks as run at once, each with as many rows: reads of B are few, and of y they are ahead of their use. y:
 * NULL where only what is made of it is wanted. */
template <typename T, int RANK, int BEHIND>
static hr_status up_slab_launch(const hr_call *call, const hr_lora_up_args &a, T *y, T *after) {
  int64_t rows = desc_rows(call->out[0].desc), column_blocks = divide_up(a.columns, SLAB_WARPS * SLABS * SLAB);
  int64_t at_once = (int64_t)device_state(call)->multiprocessors * SLAB_BLOCKS;
  int64_t row_blocks = at_once > column_blocks ? at_once / column_blocks : 1;
  int64_t block_rows = divide_up(divide_up(rows, row_blocks), SLAB_STEP) * SLAB_STEP;
  int64_t blocks = column_blocks * divide_up(rows, block_rows);
  launch(up_slab_kernel<T, RANK, BEHIND>, (unsigned)blocks, SLAB_THREADS, 0, call_stream(call),
         (const T *)call->in[0].data, (const T *)call->in[1].data, (const T *)call->in[2].data, y, after, rows,
         column_blocks, block_rows, a);
  return launched();
}

#define SLAB_FUNCTIONS_OF(T, BEHIND)                                                                                   \
  (const void *)up_slab_kernel<T, 8, BEHIND>, (const void *)up_slab_kernel<T, 16, BEHIND>
#define SLAB_FUNCTIONS(T)                                                                                              \
  SLAB_FUNCTIONS_OF(T, SLAB_ALONE), SLAB_FUNCTIONS_OF(T, SLAB_GELU), SLAB_FUNCTIONS_OF(T, SLAB_GELU_TANH)

#endif
