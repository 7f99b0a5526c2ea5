/* dropout on CUDA. */
#include "op/dropout.cuh"
extern "C" {
#include "op/lora_up_take.h"
}

enum { DROPOUT_THREADS = 256 };
static const int64_t DROPOUT_BLOCKS = 2048, GRID_ROWS = 65535;

struct dropout_call {
  int64_t samples, each; /* elements of a sample */
  int64_t first;         /* of the batch: number of the sample in row 0 */
  uint64_t stream_key, use;
  uint32_t limit;
  float scale;
  bool packed; /* whole packs at aligned addresses */
};

/* Packs of WIDE elements of a sample along x, samples along y. */
template <typename T>
static __global__ void __launch_bounds__(DROPOUT_THREADS)
    dropout_kernel(const T *x, const hr_control *control, const T *add, T *y, dropout_call c) {
  uint64_t key = hr__dropout_key(control->seed, c.stream_key, control->step, c.use);
  int64_t packs = (c.each + WIDE - 1) / WIDE, stride = (int64_t)gridDim.x * DROPOUT_THREADS;
  for (int64_t row = blockIdx.y; row < c.samples; row += gridDim.y) {
    uint64_t sample = control->sample + (uint64_t)(c.first + row);
    for (int64_t p = (int64_t)blockIdx.x * DROPOUT_THREADS + threadIdx.x; p < packs; p += stride) {
      int64_t at = row * c.each + p * WIDE;
      int n = (int)min((int64_t)WIDE, c.each - p * WIDE);
      float value[WIDE];
      uint32_t word[WIDE / 2];
      if (c.packed) {
        pack_read<WIDE>(x + at, value);
      } else {
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          value[e] = e < n ? to_float(x[at + e]) : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < WIDE / HR_MASK_LANES; k++)
        hr__mask_draw(key, sample, (uint64_t)(p * (WIDE / HR_MASK_LANES) + k), word + k * HR_MASK_LANES / 2);
#pragma unroll
      for (int e = 0; e < WIDE; e++)
        value[e] = hr__mask_keeps(word, e, c.limit) ? value[e] * c.scale : 0.0f;
      if (add) {
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          if (e < n) value[e] += to_float(add[at + e]);
      }
      if (c.packed) {
        pack_write<WIDE>(y + at, value);
      } else {
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          if (e < n) y[at + e] = from_float<T>(value[e]);
      }
    }
  }
}

hr_status hr__dropout_masked(const hr_call *call, const hr_dropout_args *args, const hr_desc &x, const void *from,
                             const hr_control *control, const void *add, void *to) {
  dropout_call c = {};
  c.samples = x.dim[0];
  c.each = desc_count(x) / c.samples;
  c.first = args->first;
  c.stream_key = call->stream_key;
  c.use = args->use;
  c.limit = hr__mask_limit(args->p);
  c.scale = hr__mask_scale(c.limit);
  c.packed = c.each % WIDE == 0 && wide(from, to);
  int64_t blocks = divide_up(divide_up(c.each, WIDE), DROPOUT_THREADS);
  dim3 grid((unsigned)(blocks < DROPOUT_BLOCKS ? blocks : DROPOUT_BLOCKS),
            (unsigned)(c.samples < GRID_ROWS ? c.samples : GRID_ROWS));
  return by_dtype(x.dtype, [&](auto t) {
    using T = decltype(t);
    launch(dropout_kernel<T>, grid, DROPOUT_THREADS, 0, call_stream(call), (const T *)from, control, (const T *)add,
           (T *)to, c);
    return launched();
  });
}

static hr_status dropout_run(const hr_call *call) {
  return hr__dropout_masked(call, (const hr_dropout_args *)call->args, call->in[0].desc, call->in[0].data,
                            (const hr_control *)call->in[1].data, nullptr, call->out[0].data);
}

extern "C" const hr_cuda_launcher hr_cuda_dropout = {
    {nullptr, nullptr, dropout_run},
    {(const void *)dropout_kernel<float>, (const void *)dropout_kernel<bf16>, (const void *)dropout_kernel<f16>},
    nullptr,
    hr__lora_bwd_take};
