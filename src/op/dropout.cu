/* dropout on CUDA. Where a program is recorded, neighbours go along that only pass elements on: gelu in front, an add
 * or gelu_bwd behind; and dropout goes along with the backward op of an adapter (op/lora_up_match.cuh). */
#include "dev/cuda/neighbours.cuh"
#include "op/dropout.cuh"
#include "op/gelu.cuh"
extern "C" {
#include "op/add.h"
#include "op/dropout_take.h"
#include "op/gelu.h"
#include "op/lora_up_take.h"
}

extern "C" const hr_cuda_launcher hr_cuda_dropout, hr_cuda_add, hr_cuda_gelu, hr_cuda_gelu_bwd;

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

/* What else is done to an element; as an op of its own would do it, with its rounding. */
enum dropout_with {
  ALONE,
  SUMMED,        /* + other, rounded once */
  THEN_ADD,      /* + other */
  BEHIND_GELU,   /* of gelu(x) */
  BEHIND_TANH,   /* of gelu(x) by tanh */
  THEN_GELU_BWD, /* x slope(other) */
  THEN_TANH_BWD
};
enum { DROPOUT_AT_ONCE = 2 }; /* packs that a thread has in flight */

template <typename T, int WITH> __device__ inline float before_mask(float x) {
  if constexpr (WITH == BEHIND_GELU || WITH == BEHIND_TANH)
    return to_float(from_float<T>(gelu_of<T, WITH == BEHIND_TANH>(x)));
  return x;
}
template <typename T, int WITH> __device__ inline float behind_mask(float x, float other) {
  if constexpr (WITH == SUMMED) return x + other;
  if constexpr (WITH == THEN_ADD) return to_float(from_float<T>(x)) + other;
  if constexpr (WITH == THEN_GELU_BWD || WITH == THEN_TANH_BWD)
    return to_float(from_float<T>(x)) * gelu_slope<T, WITH == THEN_TANH_BWD>(other);
  return x;
}

/* Packs of WIDE elements of a sample along x, samples along y. */
template <typename T, int WITH>
static __global__ void __launch_bounds__(DROPOUT_THREADS)
    dropout_kernel(const T *x, const hr_control *control, const T *other, T *y, dropout_call c) {
  constexpr bool TWO = WITH == SUMMED || WITH == THEN_ADD || WITH == THEN_GELU_BWD || WITH == THEN_TANH_BWD;
  __shared__ uint64_t made;
  if (threadIdx.x == 0) made = hr__dropout_key(control->seed, c.stream_key, control->step, c.use);
  __syncthreads();
  uint64_t key = made;
  int64_t packs = (c.each + WIDE - 1) / WIDE, stride = (int64_t)gridDim.x * DROPOUT_THREADS;
  for (int64_t row = blockIdx.y; row < c.samples; row += gridDim.y) {
    uint64_t sample = control->sample + (uint64_t)(c.first + row);
    for (int64_t p = (int64_t)blockIdx.x * DROPOUT_THREADS + threadIdx.x; p < packs; p += DROPOUT_AT_ONCE * stride) {
      float value[DROPOUT_AT_ONCE][WIDE], beside[DROPOUT_AT_ONCE][WIDE];
#pragma unroll
      for (int u = 0; u < DROPOUT_AT_ONCE; u++) {
        int64_t pack = p + u * stride, at = row * c.each + pack * WIDE;
        if (pack >= packs) break;
        if (c.packed) {
          pack_read<WIDE>(x + at, value[u]);
          if (TWO) pack_read<WIDE>(other + at, beside[u]);
          continue;
        }
        int n = (int)min((int64_t)WIDE, c.each - pack * WIDE);
#pragma unroll
        for (int e = 0; e < WIDE; e++) {
          value[u][e] = e < n ? to_float(x[at + e]) : 0.0f;
          if (TWO) beside[u][e] = e < n ? to_float(other[at + e]) : 0.0f;
        }
      }
#pragma unroll
      for (int u = 0; u < DROPOUT_AT_ONCE; u++) {
        int64_t pack = p + u * stride, at = row * c.each + pack * WIDE;
        uint32_t word[WIDE / 2];
        if (pack >= packs) break;
#pragma unroll
        for (int k = 0; k < WIDE / HR_MASK_LANES; k++)
          hr__mask_draw(key, sample, (uint64_t)(pack * (WIDE / HR_MASK_LANES) + k), word + k * HR_MASK_LANES / 2);
#pragma unroll
        for (int e = 0; e < WIDE; e++) {
          float of = before_mask<T, WITH>(value[u][e]);
          of = hr__mask_keeps(word, e, c.limit) ? of * c.scale : 0.0f;
          value[u][e] = behind_mask<T, WITH>(of, TWO ? beside[u][e] : 0.0f);
        }
        if (c.packed) {
          pack_write<WIDE>(y + at, value[u]);
          continue;
        }
        int n = (int)min((int64_t)WIDE, c.each - pack * WIDE);
#pragma unroll
        for (int e = 0; e < WIDE; e++)
          if (e < n) y[at + e] = from_float<T>(value[u][e]);
      }
    }
  }
}

template <int WITH>
static hr_status masked_launch(const hr_call *call, const hr_dropout_args *args, const hr_desc &x, const void *from,
                               const hr_control *control, const void *other, void *to) {
  dropout_call c = {};
  c.samples = x.dim[0];
  c.each = desc_count(x) / c.samples;
  c.first = args->first;
  c.stream_key = call->stream_key;
  c.use = args->use;
  c.limit = hr__mask_limit(args->p);
  c.scale = hr__mask_scale(c.limit);
  c.packed = c.each % WIDE == 0 && wide(from, to, other);
  int64_t blocks = divide_up(divide_up(c.each, WIDE), DROPOUT_THREADS * DROPOUT_AT_ONCE);
  dim3 grid((unsigned)(blocks < DROPOUT_BLOCKS ? blocks : DROPOUT_BLOCKS),
            (unsigned)(c.samples < GRID_ROWS ? c.samples : GRID_ROWS));
  return by_dtype(x.dtype, [&](auto t) {
    using T = decltype(t);
    launch(dropout_kernel<T, WITH>, grid, DROPOUT_THREADS, 0, call_stream(call), (const T *)from, control,
           (const T *)other, (T *)to, c);
    return launched();
  });
}

hr_status hr__dropout_masked(const hr_call *call, const hr_dropout_args *args, const hr_desc &x, const void *from,
                             const hr_control *control, const void *add, void *to) {
  return add ? masked_launch<SUMMED>(call, args, x, from, control, add, to)
             : masked_launch<ALONE>(call, args, x, from, control, nullptr, to);
}

/* ---- neighbours ---- */

static bool by_tanh(const hr_call *gelu) {
  return ((const hr_gelu_args *)gelu->args)->tanh;
}

/* A call of the op with others: from `from` and `other` to `to`. */
template <int WITH>
static hr_status joined_run(const hr_call *dropout, const hr_tensor &from, const void *other, const hr_tensor &to) {
  return masked_launch<WITH>(dropout, (const hr_dropout_args *)dropout->args, dropout->in[0].desc, from.data,
                             (const hr_control *)dropout->in[1].data, other, to.data);
}

/* Whether what `first` gives is read by `second`, which lies on it: nobody reads it later. */
static bool passes_on(const hr_call *first, const hr_call *second, const hr_tensor &read) {
  const hr_call *calls[] = {first, second};
  return first->out[0].data == read.data && second->out[0].data == read.data &&
         first->out[0].desc.dtype == second->out[0].desc.dtype && calls_join(calls, 2);
}

hr_status hr__gelu_dropout_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  const hr_call *gelu = call_of(launches + at, count - at, 0, &hr_cuda_gelu);
  const hr_call *dropout = call_of(launches + at, count - at, 1, &hr_cuda_dropout);
  *taken = 0;
  if (!gelu || !dropout || !passes_on(gelu, dropout, dropout->in[0])) return HR_OK;
  *taken = 2;
  return by_tanh(gelu) ? joined_run<BEHIND_TANH>(dropout, gelu->in[0], nullptr, dropout->out[0])
                       : joined_run<BEHIND_GELU>(dropout, gelu->in[0], nullptr, dropout->out[0]);
}

static hr_status dropout_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  const hr_call *dropout = call_of(launches + at, count - at, 0, &hr_cuda_dropout);
  const hr_call *add = call_of(launches + at, count - at, 1, &hr_cuda_add);
  const hr_call *bwd = call_of(launches + at, count - at, 1, &hr_cuda_gelu_bwd);
  const void *y = dropout->out[0].data;
  *taken = 0;
  if (bwd) {
    if (!passes_on(dropout, bwd, bwd->in[0])) return HR_OK;
    *taken = 2;
    return by_tanh(bwd) ? joined_run<THEN_TANH_BWD>(dropout, dropout->in[0], bwd->in[1].data, bwd->out[0])
                        : joined_run<THEN_GELU_BWD>(dropout, dropout->in[0], bwd->in[1].data, bwd->out[0]);
  }
  if (!add) return hr__lora_bwd_take(launches, at, count, taken);
  int of = add->in[0].data == y ? 0 : 1;
  if (((const hr_add_args *)add->args)->alpha != 1.0f || add->in[1 - of].data == y ||
      !passes_on(dropout, add, add->in[of]))
    return HR_OK;
  *taken = 2;
  return joined_run<THEN_ADD>(dropout, dropout->in[0], add->in[1 - of].data, add->out[0]);
}

static hr_status dropout_run(const hr_call *call) {
  return hr__dropout_masked(call, (const hr_dropout_args *)call->args, call->in[0].desc, call->in[0].data,
                            (const hr_control *)call->in[1].data, nullptr, call->out[0].data);
}

#define EVERY_TYPE(WITH)                                                                                               \
  (const void *)dropout_kernel<float, WITH>, (const void *)dropout_kernel<bf16, WITH>,                                 \
      (const void *)dropout_kernel<f16, WITH>

extern "C" const hr_cuda_launcher hr_cuda_dropout = {{nullptr, nullptr, dropout_run},
                                                     {EVERY_TYPE(ALONE), EVERY_TYPE(SUMMED), EVERY_TYPE(THEN_ADD),
                                                      EVERY_TYPE(BEHIND_GELU), EVERY_TYPE(BEHIND_TANH),
                                                      EVERY_TYPE(THEN_GELU_BWD), EVERY_TYPE(THEN_TANH_BWD)},
                                                     nullptr,
                                                     dropout_take};
