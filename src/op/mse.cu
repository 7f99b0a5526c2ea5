/* mse and its backward op on CUDA. */
#include "dev/cuda/map.cuh"
#include "dev/cuda/sum.cuh"

/* Block c: sum of (y - t)^2 over chunk c. */
template <typename T> static __global__ void mse_kernel(const T *y, const T *t, int64_t count, double *partials) {
  int64_t first = blockIdx.x * HR_CUDA_SUM_CHUNK, end = min(count, first + HR_CUDA_SUM_CHUNK);
  double sum = 0.0;
  for (int64_t i = first + threadIdx.x; i < end; i += SUM_THREADS) {
    double difference = (double)to_float(y[i]) - (double)to_float(t[i]);
    sum += difference * difference;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

struct mean {
  double count;
  __device__ float operator()(double sum) const { return (float)(sum / count); }
};

static hr_status mse_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  return sum_check_room(call, sum_chunks(desc_count(call->in[0].desc)), err);
}

static hr_status mse_run(const hr_call *call) {
  int64_t count = desc_count(call->in[0].desc), chunks = sum_chunks(count);
  double *partials = (double *)call->workspace;
  const void *y = call->in[0].data, *t = call->in[1].data;
  cudaStream_t stream = call_stream(call);
  by_dtype(call->in[0].desc.dtype, [&](auto e) {
    using T = decltype(e);
    launch(mse_kernel<T>, (unsigned)chunks, SUM_THREADS, 0, stream, (const T *)y, (const T *)t, count, partials);
    return HR_OK;
  });
  launch(sum_finish_kernel<mean>, 1, SUM_THREADS, 0, stream, partials, chunks, (float *)call->out[0].data,
         mean{(double)count});
  return launched();
}

/* y, t -> 2 (y - t) / count * dloss */
struct mse_bwd_map {
  const float *dloss;
  float factor;
  __device__ void operator()(const float *x, float *y) const { y[0] = factor * *dloss * (x[0] - x[1]); }
};

static hr_status mse_bwd_run(const hr_call *call) {
  mse_bwd_map map = {(const float *)call->in[2].data, 2.0f / (float)desc_count(call->in[0].desc)};
  return by_dtype(call->out[0].desc.dtype, [&](auto t) { return map_run<decltype(t), decltype(t), 2, 1>(call, map); });
}

extern "C" const hr_cuda_launcher hr_cuda_mse = {{mse_prepare, nullptr, mse_run},
                                                 {(const void *)mse_kernel<float>, (const void *)mse_kernel<bf16>,
                                                  (const void *)mse_kernel<f16>,
                                                  (const void *)sum_finish_kernel<mean>}};

extern "C" const hr_cuda_launcher hr_cuda_mse_bwd = {{nullptr, nullptr, mse_bwd_run},
                                                     {(const void *)map_kernel<float, float, 2, 1, mse_bwd_map>,
                                                      (const void *)map_kernel<bf16, bf16, 2, 1, mse_bwd_map>,
                                                      (const void *)map_kernel<f16, f16, 2, 1, mse_bwd_map>}};
