/* The mask of dropout over rows, in kernels that apply it on their way: the same elements as the op's. */
#ifndef HR_OP_MASK_CUH
#define HR_OP_MASK_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/dropout.h"
}

struct rows_mask {
  const hr_control *control; /* NULL: nothing is dropped */
  int64_t columns, sample_rows;
  int64_t first; /* sample of row 0, of the batch */
  uint64_t stream_key, use;
  uint32_t limit;
  float scale;
  uint64_t key; /* begin() makes it */

  __device__ void begin() {
    if (control) key = hr__dropout_key(control->seed, stream_key, control->step, use);
  }

  /* 8 neighbours in a row. Rows are counted in 32 bits: 64 take far longer to divide. */
  __device__ void apply(float *value, int64_t row, int64_t column) const {
    uint32_t sample = (uint32_t)row / (uint32_t)sample_rows, word[4];
    int64_t element = (row - (int64_t)sample * sample_rows) * columns + column;
    hr__mask_draw(key, control->sample + (uint64_t)first + sample, (uint64_t)element / HR_MASK_LANES, word);
#pragma unroll
    for (int e = 0; e < 8; e++)
      value[e] = hr__mask_keeps(word, e, limit) ? value[e] * scale : 0.0f;
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
