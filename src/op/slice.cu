/* slice and join on CUDA. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/slice.h"
}

enum { SLICE_THREADS = 256 };
static const int64_t SLICE_BLOCKS = 4096;

static unsigned blocks_of(int64_t pieces) {
  int64_t blocks = divide_up(pieces, SLICE_THREADS);
  return (unsigned)(blocks < SLICE_BLOCKS ? blocks : SLICE_BLOCKS);
}

/* A part is a run of bytes in units as large as addresses and size allow. */
template <typename U> static __global__ void slice_kernel(const U *from, U *to, int64_t units) {
  int64_t stride = (int64_t)gridDim.x * SLICE_THREADS;
  for (int64_t i = (int64_t)blockIdx.x * SLICE_THREADS + threadIdx.x; i < units; i += stride)
    to[i] = from[i];
}

template <typename U> static bool slice_try(const void *from, void *to, int64_t bytes, cudaStream_t stream) {
  int64_t size = (int64_t)sizeof(U), units = bytes / size;
  if (bytes % size != 0 || !aligned(from, sizeof(U)) || !aligned(to, sizeof(U))) return false;
  slice_kernel<U><<<blocks_of(units), SLICE_THREADS, 0, stream>>>((const U *)from, (U *)to, units);
  return true;
}

static hr_status slice_run(const hr_call *call) {
  const hr_desc &x = call->in[0].desc;
  int64_t size = x.dtype == HR_F32 || x.dtype == HR_I32 ? 4 : 2, row_bytes = desc_count(x) / x.dim[0] * size;
  const void *from = (const char *)call->in[0].data + ((const hr_slice_args *)call->args)->first * row_bytes;
  int64_t bytes = desc_count(call->out[0].desc) * size;
  void *to = call->out[0].data;
  cudaStream_t stream = call_stream(call);
  if (!slice_try<uint4>(from, to, bytes, stream) && !slice_try<uint32_t>(from, to, bytes, stream))
    slice_try<uint16_t>(from, to, bytes, stream);
  return launched();
}

/* Elements [first, end) of y; the part's are [begin, begin + part_count). With N > 1 all four are multiples of N. */
struct join_range {
  int64_t first, end, begin, part_count;
};

/* Bits are moved as they are but where two numbers are added. y may lie on the sum. */
template <typename T, int N>
static __global__ void __launch_bounds__(SLICE_THREADS) join_kernel(const T *part, const T *sum, T *y, join_range r) {
  int64_t stride = (int64_t)gridDim.x * SLICE_THREADS * N;
  int64_t thread = (int64_t)blockIdx.x * SLICE_THREADS + threadIdx.x;
  for (int64_t i = r.first + thread * N; i < r.end; i += stride) {
    bool in_part = i >= r.begin && i < r.begin + r.part_count;
    pack<T, N> own, before, result;
    if (in_part) own = pack_load<N>(part + (i - r.begin));
    if (sum) before = pack_load<N>(sum + i);
#pragma unroll
    for (int e = 0; e < N; e++) {
      if (in_part && sum)
        result.value[e] = from_float<T>(to_float(before.value[e]) + to_float(own.value[e]));
      else if (in_part)
        result.value[e] = own.value[e];
      else
        result.value[e] = sum ? before.value[e] : from_float<T>(-0.0f);
    }
    pack_store<N>(y + i, result);
  }
}

/* In place only the part's rows change. */
static hr_status join_run(const hr_call *call) {
  const hr_desc &y = call->out[0].desc;
  int64_t row = desc_count(y) / y.dim[0];
  join_range r = {0, desc_count(y), ((const hr_join_args *)call->args)->first * row, desc_count(call->in[0].desc)};
  if (call->in[1].data == call->out[0].data) {
    r.first = r.begin;
    r.end = r.begin + r.part_count;
  }
  bool packed = r.end % WIDE == 0 && r.begin % WIDE == 0 && r.part_count % WIDE == 0 &&
                wide(call->in[0].data, call->in[1].data, call->out[0].data);
  return by_dtype(y.dtype, [&](auto t) {
    using T = decltype(t);
    const T *part = (const T *)call->in[0].data, *sum = (const T *)call->in[1].data;
    T *to = (T *)call->out[0].data;
    if (packed)
      join_kernel<T, WIDE>
          <<<blocks_of((r.end - r.first) / WIDE), SLICE_THREADS, 0, call_stream(call)>>>(part, sum, to, r);
    else
      join_kernel<T, 1><<<blocks_of(r.end - r.first), SLICE_THREADS, 0, call_stream(call)>>>(part, sum, to, r);
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_slice = {
    {nullptr, nullptr, slice_run},
    {(const void *)slice_kernel<uint4>, (const void *)slice_kernel<uint32_t>, (const void *)slice_kernel<uint16_t>}};

extern "C" const hr_cuda_launcher hr_cuda_join = {
    {nullptr, nullptr, join_run},
    {(const void *)join_kernel<float, WIDE>, (const void *)join_kernel<float, 1>, (const void *)join_kernel<bf16, WIDE>,
     (const void *)join_kernel<bf16, 1>, (const void *)join_kernel<f16, WIDE>, (const void *)join_kernel<f16, 1>}};
