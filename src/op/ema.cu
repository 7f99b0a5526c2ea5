/* ema on CUDA. */
#include "op/optimizer.cuh"
extern "C" {
#include "op/ema.h"
}

enum { EMA_THREADS = 256 };
static const int64_t EMA_BLOCKS = 4096;

template <typename T>
static __global__ void ema_kernel(float *e, const T *x, const hr_control *control, float decay, int64_t count) {
  if (control && control->skip) return;
  int64_t stride = (int64_t)gridDim.x * EMA_THREADS;
  for (int64_t i = (int64_t)blockIdx.x * EMA_THREADS + threadIdx.x; i < count; i += stride) {
    float from = to_float(x[i]);
    e[i] = decay == 0.0f ? from : __fadd_rn(__fmul_rn(decay, e[i]), __fmul_rn(1.0f - decay, from));
  }
}

static hr_status ema_run(const hr_call *call) {
  int64_t count = desc_count(call->in[0].desc), blocks = divide_up(count, EMA_THREADS);
  float decay = ((const hr_ema_args *)call->args)->decay;
  return by_dtype(call->in[1].desc.dtype, [&](auto t) {
    using T = decltype(t);
    launch(ema_kernel<T>, (unsigned)(blocks < EMA_BLOCKS ? blocks : EMA_BLOCKS), EMA_THREADS, 0, call_stream(call),
           (float *)call->out[0].data, (const T *)call->in[1].data, (const hr_control *)call->in[2].data, decay, count);
    return launched();
  });
}

static hr_status ema_prepare(const hr_call *call, void **prepared, hr_error *err) {
  static const int ins[] = {0};
  *prepared = nullptr;
  return update_in_place(call, ins, 1, err);
}

extern "C" const hr_cuda_launcher hr_cuda_ema = {
    {ema_prepare, nullptr, ema_run},
    {(const void *)ema_kernel<float>, (const void *)ema_kernel<bf16>, (const void *)ema_kernel<f16>}};
