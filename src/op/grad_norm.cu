/* grad_squares and grad_norm on CUDA: many tensors in few launches, up to NORM_TENSORS of them described in a kernel's
 * parameters. */
#include "dev/cuda/sum.cuh"

enum { NORM_TENSORS = 64 };

struct norm_group {
  const void *data[NORM_TENSORS];
  int64_t count[NORM_TENSORS];
  int32_t first[NORM_TENSORS + 1]; /* first chunk of each tensor within the group; [tensors]: number of chunks */
  int32_t tensors;
};

template <typename T> __device__ double chunk_squares(const T *data, int64_t first, int64_t end) {
  double sum = 0.0;
  for (int64_t i = first + threadIdx.x; i < end; i += SUM_THREADS) {
    double x = (double)to_float(data[i]);
    sum += x * x;
  }
  return sum;
}

/* Block c: sum of squares of the group's chunk c. */
template <typename T> static __global__ void norm_kernel(__grid_constant__ const norm_group group, double *partials) {
  int chunk = (int)blockIdx.x, t = 0;
  while (t + 1 < group.tensors && chunk >= group.first[t + 1])
    t++;
  int64_t first = (chunk - group.first[t]) * HR_CUDA_SUM_CHUNK, end = min(group.count[t], first + HR_CUDA_SUM_CHUNK);
  double sum = block_sum(chunk_squares((const T *)group.data[t], first, end));
  if (threadIdx.x == 0) partials[chunk] = sum;
}

/* Block t: the sum over the partials of the group's tensor t. */
static __global__ void squares_finish_kernel(__grid_constant__ const norm_group group, const double *partials,
                                             double *sums) {
  int t = (int)blockIdx.x;
  double sum = 0.0;
  for (int64_t i = group.first[t] + threadIdx.x; i < group.first[t + 1]; i += SUM_THREADS)
    sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[t] = sum;
}

static hr_status squares_prepare(const hr_call *call, void **prepared, hr_error *err) {
  int64_t chunks = 0;
  for (int i = 0; i < call->n_in; i++)
    chunks += sum_chunks(desc_count(call->in[i].desc));
  *prepared = nullptr;
  return sum_check_room(call, chunks, err);
}

static hr_status squares_run(const hr_call *call) {
  double *partials = (double *)call->workspace, *sums = (double *)call->out[0].data;
  cudaStream_t stream = call_stream(call);
  for (int i = 0; i < call->n_in;) {
    /* A group ends where the type changes. */
    norm_group group = {};
    int first = i;
    hr_dtype dtype = call->in[i].desc.dtype;
    for (; i < call->n_in && group.tensors < NORM_TENSORS && call->in[i].desc.dtype == dtype; i++) {
      int t = group.tensors++;
      group.data[t] = call->in[i].data;
      group.count[t] = desc_count(call->in[i].desc);
      group.first[t + 1] = group.first[t] + (int32_t)sum_chunks(group.count[t]);
    }
    int32_t chunks = group.first[group.tensors];
    if (dtype == HR_F32)
      norm_kernel<float><<<(unsigned)chunks, SUM_THREADS, 0, stream>>>(group, partials);
    else
      norm_kernel<bf16><<<(unsigned)chunks, SUM_THREADS, 0, stream>>>(group, partials);
    squares_finish_kernel<<<(unsigned)group.tensors, SUM_THREADS, 0, stream>>>(group, partials, sums + first);
    partials += chunks;
  }
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_grad_squares = {
    {squares_prepare, nullptr, squares_run},
    {(const void *)norm_kernel<float>, (const void *)norm_kernel<bf16>, (const void *)squares_finish_kernel}};

struct squares_group {
  const double *data[NORM_TENSORS];
  int32_t count[NORM_TENSORS];
  int32_t vectors;
  bool first, last; /* of the groups of a call */
};

/* One thread, since the order is fixed and there are few numbers; *total lives from group to group. */
static __global__ void root_kernel(__grid_constant__ const squares_group group, double *total, float *norm) {
  double sum = group.first ? 0.0 : *total;
  for (int v = 0; v < group.vectors; v++)
    for (int i = 0; i < group.count[v]; i++)
      sum += group.data[v][i];
  *total = sum;
  if (group.last) *norm = (float)sqrt(sum);
}

static hr_status norm_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  return sum_check_room(call, 1, err);
}

static hr_status norm_run(const hr_call *call) {
  for (int i = 0; i < call->n_in;) {
    squares_group group = {};
    group.first = i == 0;
    for (; i < call->n_in && group.vectors < NORM_TENSORS; i++) {
      group.data[group.vectors] = (const double *)call->in[i].data;
      group.count[group.vectors++] = (int32_t)desc_count(call->in[i].desc);
    }
    group.last = i == call->n_in;
    root_kernel<<<1, 1, 0, call_stream(call)>>>(group, (double *)call->workspace, (float *)call->out[0].data);
  }
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_grad_norm = {{norm_prepare, nullptr, norm_run}, {(const void *)root_kernel}};
