/* The mask of dropout over rows, in kernels that apply it on their way: the same elements as the op's. */
#ifndef HR_OP_MASK_CUH
#define HR_OP_MASK_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/dropout.h"
}

/* Whose elements a row has. */
struct masked_row {
  uint64_t sample;
  int64_t element; /* of the row's first one in its sample */
};

struct rows_mask {
  const hr_control *control; /* NULL: nothing is dropped */
  int64_t columns, sample_rows;
  int64_t first; /* sample of row 0, of the batch */
  uint64_t stream_key, use;
  uint32_t limit;
  float scale;
  uint64_t key; /* begin() makes it */

  __device__ void begin() { key = hr__dropout_key(control->seed, stream_key, control->step, use); }

  /* Rows are counted in 32 bits: 64 take far longer to divide. */
  __device__ masked_row row_of(int64_t row) const {
    uint32_t sample = (uint32_t)row / (uint32_t)sample_rows;
    return {control->sample + (uint64_t)first + sample, (row - (int64_t)sample * sample_rows) * columns};
  }
  /* `step` rows further on. */
  __device__ void advance(masked_row &row, int step) const {
    for (row.element += step * columns; row.element >= sample_rows * columns; row.element -= sample_rows * columns)
      row.sample++;
  }

  /* 8 neighbours in a row. What is drawn for an even element is the lower half of a word: both halves are compared as
   * upper ones, in whose lower bits a word may have anything. */
  __device__ void apply(float *value, const masked_row &row, int64_t column) const {
    uint32_t word[4], least = limit << 16;
    hr__mask_draw(key, row.sample, (uint64_t)(row.element + column) / HR_MASK_LANES, word);
#pragma unroll
    for (int e = 0; e < 8; e++)
      value[e] = (e % 2 ? word[e / 2] : word[e / 2] << 16) >= least ? value[e] * scale : 0.0f;
  }
};

/* Of a call of the op. Rows of x are its last axis, `columns` a multiple of 8; fewer rows than 2^31. */
static rows_mask rows_mask_of(const hr_call *dropout) {
  const hr_dropout_args *args = (const hr_dropout_args *)dropout->args;
  const hr_desc &x = dropout->in[0].desc;
  rows_mask m = {};
  m.control = (const hr_control *)dropout->in[1].data;
  m.columns = desc_columns(x);
  m.sample_rows = desc_rows(x) / x.dim[0];
  m.first = args->first;
  m.stream_key = dropout->stream_key;
  m.use = args->use;
  m.limit = hr__mask_limit(args->p);
  m.scale = hr__mask_scale(m.limit);
  return m;
}

#endif
