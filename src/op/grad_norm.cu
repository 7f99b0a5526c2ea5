/* grad_squares and grad_norm on CUDA: many tensors in few launches, up to NORM_TENSORS of them described in a kernel's
 * parameters. */
#include "dev/cuda/sum.cuh"

enum { NORM_TENSORS = 192 };

struct norm_group {
  const void *data[NORM_TENSORS];
  int64_t count[NORM_TENSORS];
  int32_t first[NORM_TENSORS + 1]; /* first chunk of each tensor within the group; [tensors]: number of chunks */
  int32_t tensors;
};
static_assert(sizeof(norm_group) + sizeof(double *) * 2 <= 4096, "a kernel takes no more parameters");

/* Index of the last entry of first[0..entries) that is not above `at`. */
__device__ inline int find_entry(const int32_t *first, int32_t entries, int32_t at) {
  int low = 0, high = entries - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (first[middle] <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Sum of the squares of 16 bytes of elements: in f32, where that neither overflows nor loses small ones, else in f64.
 * f64 for each of them would take longer than reading them does. */
template <typename T, int N> __device__ inline double pack_squares(const pack<T, N> &block) {
  float x[N], sum = 0.0f;
#pragma unroll
  for (int e = 0; e < N; e++)
    x[e] = to_float(block.value[e]);
#pragma unroll
  for (int e = 0; e < N; e++)
    sum = fmaf(x[e], x[e], sum);
  if (sum > 1e-30f && sum < 1e38f) return (double)sum;
  double exact = 0.0;
#pragma unroll
  for (int e = 0; e < N; e++)
    exact += (double)x[e] * (double)x[e];
  return exact;
}

/* A thread's part of a chunk's sum. Order and grouping are the same whether elements are aligned for packs or not. */
template <typename T> __device__ inline double chunk_squares(const T *data, int64_t first, int64_t end) {
  constexpr int WIDTH = 16 / sizeof(T), ROW = SUM_THREADS * WIDTH, ROWS = 4;
  bool packed = ((uintptr_t)data & 15) == 0;
  double sum = 0.0;
  for (int64_t row = first + (int64_t)threadIdx.x * WIDTH; row < end; row += ROWS * ROW) {
    pack<T, WIDTH> block[ROWS]; /* loaded before the first is used */
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      int64_t at = row + r * ROW;
      if (packed && at + WIDTH <= end) {
        block[r] = *(const pack<T, WIDTH> *)(data + at);
      } else {
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
          block[r].value[e] = at + e < end ? data[at + e] : from_float<T>(0.0f);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      sum += pack_squares(block[r]);
  }
  return sum;
}

/* Block c: sum of squares of the group's chunk c. */
template <typename T>
static __global__ void __launch_bounds__(SUM_THREADS)
    norm_kernel(__grid_constant__ const norm_group group, double *partials) {
  int chunk = (int)blockIdx.x, t = find_entry(group.first, group.tensors, chunk);
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
    by_dtype(dtype, [&](auto t) {
      launch(norm_kernel<decltype(t)>, (unsigned)chunks, SUM_THREADS, 0, stream, group, partials);
      return HR_OK;
    });
    launch(squares_finish_kernel, (unsigned)group.tensors, SUM_THREADS, 0, stream, group, partials, sums + first);
    partials += chunks;
  }
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_grad_squares = {
    {squares_prepare, nullptr, squares_run},
    {(const void *)norm_kernel<float>, (const void *)norm_kernel<bf16>, (const void *)norm_kernel<f16>,
     (const void *)squares_finish_kernel}};

struct squares_group {
  const double *data[NORM_TENSORS];
  int32_t first[NORM_TENSORS + 1]; /* number of each vector's first entry; [vectors]: number of entries */
  int32_t vectors;
  bool begins, ends; /* the groups of a call */
};

/* One block: all its threads fetch, since latencies of reads one by one would add up; the first one sums, in order.
 * *total lives from group to group. */
static __global__ void root_kernel(__grid_constant__ const squares_group group, double *total, float *norm) {
  __shared__ double entries[SUM_THREADS];
  int32_t count = group.first[group.vectors];
  double sum = group.begins ? 0.0 : *total;
  for (int32_t base = 0; base < count; base += SUM_THREADS) {
    int32_t own = base + (int32_t)threadIdx.x, many = min((int32_t)SUM_THREADS, count - base);
    if (own < count) {
      int v = find_entry(group.first, group.vectors, own);
      entries[threadIdx.x] = group.data[v][own - group.first[v]];
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int32_t i = 0; i < many; i++)
        sum += entries[i];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  *total = sum;
  if (group.ends) *norm = (float)sqrt(sum);
}

static hr_status norm_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  return sum_check_room(call, 1, err);
}

static hr_status norm_run(const hr_call *call) {
  for (int i = 0; i < call->n_in;) {
    squares_group group = {};
    group.begins = i == 0;
    for (; i < call->n_in && group.vectors < NORM_TENSORS; i++) {
      int32_t v = group.vectors++;
      group.data[v] = (const double *)call->in[i].data;
      group.first[v + 1] = group.first[v] + (int32_t)desc_count(call->in[i].desc);
    }
    group.ends = i == call->n_in;
    launch(root_kernel, 1, SUM_THREADS, 0, call_stream(call), group, (double *)call->workspace,
           (float *)call->out[0].data);
  }
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_grad_norm = {{norm_prepare, nullptr, norm_run}, {(const void *)root_kernel}};
