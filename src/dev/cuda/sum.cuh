/* Sums over whole tensors in two stages, both in a fixed order: f64 partials of fixed chunks, then the sum of partials.
 *
 * The partials lie in the call's workspace, HR_CUDA_SUM_CHUNK elements of one tensor each.
 */
#ifndef HR_DEV_CUDA_SUM_CUH
#define HR_DEV_CUDA_SUM_CUH

#include "dev/cuda/launch.cuh"

enum { SUM_THREADS = 256 };

static inline int64_t sum_chunks(int64_t count) {
  return (count + HR_CUDA_SUM_CHUNK - 1) / HR_CUDA_SUM_CHUNK;
}

/* The sum over the block of each thread's `value`, in thread 0. All threads take part. */
__device__ inline double block_sum(double value) {
  __shared__ double warps[SUM_THREADS / 32];
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0.0;
  if (threadIdx.x == 0)
    for (int i = 0; i < SUM_THREADS / 32; i++)
      sum += warps[i];
  return sum;
}

/* One block: finish(sum of partials[0..count)) -> *result. */
template <typename F>
__global__ void sum_finish_kernel(const double *partials, int64_t count, float *result, F finish) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += SUM_THREADS)
    sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = finish(sum);
}

/* For prepare: the plan gave the call room for `chunks` partials. */
static inline hr_status sum_check_room(const hr_call *call, int64_t chunks, hr_error *err) {
  if (call->workspace_bytes >= (size_t)chunks * sizeof(double)) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes is too small for %lld sums",
                                       call->workspace_bytes, (long long)chunks);
}

#endif
