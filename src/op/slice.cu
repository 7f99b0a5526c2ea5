/* slice, join and reshape on CUDA. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/slice.h"
}

enum { SLICE_THREADS = 256 };
static const int64_t SLICE_BLOCKS = 4096, SLICE_RUNS = 65535;

static unsigned blocks_of(int64_t pieces) {
  int64_t blocks = divide_up(pieces, SLICE_THREADS);
  return (unsigned)(blocks < SLICE_BLOCKS ? blocks : SLICE_BLOCKS);
}

/* A tensor is as many runs as it has indices before the axis; each goes to blocks of its own, in turns. */
static unsigned runs_of(int64_t runs) {
  return (unsigned)(runs < SLICE_RUNS ? runs : SLICE_RUNS);
}

static int64_t run_elements(const hr_desc &desc, int axis) {
  int64_t count = 1;
  for (int d = axis; d < desc.rank; d++)
    count *= desc.dim[d];
  return count;
}

/* Runs of bytes in units as large as addresses and sizes allow; one of x has `whole` units. */
template <typename U>
static __global__ void slice_kernel(const U *from, U *to, int64_t units, int64_t whole, int64_t runs) {
  int64_t stride = (int64_t)gridDim.x * SLICE_THREADS;
  for (int64_t run = blockIdx.y; run < runs; run += gridDim.y)
    for (int64_t i = (int64_t)blockIdx.x * SLICE_THREADS + threadIdx.x; i < units; i += stride)
      to[run * units + i] = from[run * whole + i];
}

template <typename U>
static bool slice_try(const void *from, void *to, int64_t bytes, int64_t whole, int64_t runs, cudaStream_t stream) {
  int64_t size = (int64_t)sizeof(U), units = bytes / size;
  if (bytes % size != 0 || whole % size != 0 || !aligned(from, sizeof(U)) || !aligned(to, sizeof(U))) return false;
  dim3 blocks(blocks_of(units), runs_of(runs));
  launch(slice_kernel<U>, blocks, SLICE_THREADS, 0, stream, (const U *)from, (U *)to, units, whole / size, runs);
  return true;
}

/* `runs` runs of `bytes`, those of `from` at every `whole` bytes. */
static hr_status bytes_move(const void *from, void *to, int64_t bytes, int64_t whole, int64_t runs,
                            cudaStream_t stream) {
  if (!slice_try<uint4>(from, to, bytes, whole, runs, stream) &&
      !slice_try<uint32_t>(from, to, bytes, whole, runs, stream) &&
      !slice_try<uint16_t>(from, to, bytes, whole, runs, stream))
    slice_try<uint8_t>(from, to, bytes, whole, runs, stream);
  return launched();
}

static int64_t element_bytes(hr_dtype dtype) {
  return dtype == HR_F32 || dtype == HR_I32 ? 4 : dtype == HR_U8 ? 1 : 2;
}

static hr_status slice_run(const hr_call *call) {
  const hr_slice_args *args = (const hr_slice_args *)call->args;
  const hr_desc &x = call->in[0].desc, &part = call->out[0].desc;
  int64_t size = element_bytes(x.dtype), whole = run_elements(x, args->axis) * size;
  const void *from = (const char *)call->in[0].data + args->first * (whole / x.dim[args->axis]);
  return bytes_move(from, call->out[0].data, run_elements(part, args->axis) * size, whole, desc_count(x) * size / whole,
                    call_stream(call));
}

static hr_status reshape_run(const hr_call *call) {
  int64_t bytes = desc_count(call->in[0].desc) * element_bytes(call->in[0].desc.dtype);
  if (call->in[0].data == call->out[0].data) return HR_OK;
  return bytes_move(call->in[0].data, call->out[0].data, bytes, bytes, 1, call_stream(call));
}

/* Of each of `runs` runs of y, `whole` elements long, elements [first, end); the part's are [begin, begin +
 * part_count). With N > 1 all but `runs` are multiples of N. */
struct join_range {
  int64_t first, end, begin, part_count, whole, runs;
};

/* Bits are moved as they are but where two numbers are added. y may lie on the sum. */
template <typename T, int N>
static __global__ void __launch_bounds__(SLICE_THREADS) join_kernel(const T *part, const T *sum, T *y, join_range r) {
  int64_t stride = (int64_t)gridDim.x * SLICE_THREADS * N;
  int64_t thread = (int64_t)blockIdx.x * SLICE_THREADS + threadIdx.x;
  for (int64_t run = blockIdx.y; run < r.runs; run += gridDim.y) {
    for (int64_t i = r.first + thread * N; i < r.end; i += stride) {
      int64_t at = run * r.whole + i;
      bool in_part = i >= r.begin && i < r.begin + r.part_count;
      pack<T, N> own, before, result;
      if (in_part) own = pack_load<N>(part + (run * r.part_count + i - r.begin));
      if (sum) before = pack_load<N>(sum + at);
#pragma unroll
      for (int e = 0; e < N; e++) {
        if (in_part && sum)
          result.value[e] = from_float<T>(to_float(before.value[e]) + to_float(own.value[e]));
        else if (in_part)
          result.value[e] = own.value[e];
        else
          result.value[e] = sum ? before.value[e] : from_float<T>(-0.0f);
      }
      pack_store<N>(y + at, result);
    }
  }
}

/* In place only the part's rows change. */
static hr_status join_run(const hr_call *call) {
  const hr_join_args *args = (const hr_join_args *)call->args;
  const hr_desc &y = call->out[0].desc;
  int64_t whole = run_elements(y, args->axis), begin = args->first * (whole / args->rows);
  join_range r = {0, whole, begin, run_elements(call->in[0].desc, args->axis), whole, desc_count(y) / whole};
  if (call->in[1].data == call->out[0].data) {
    r.first = r.begin;
    r.end = r.begin + r.part_count;
  }
  bool packed = r.end % WIDE == 0 && r.whole % WIDE == 0 && r.begin % WIDE == 0 && r.part_count % WIDE == 0 &&
                wide(call->in[0].data, call->in[1].data, call->out[0].data);
  return by_dtype(y.dtype, [&](auto t) {
    using T = decltype(t);
    const T *part = (const T *)call->in[0].data, *sum = (const T *)call->in[1].data;
    T *to = (T *)call->out[0].data;
    dim3 blocks(blocks_of((r.end - r.first) / (packed ? WIDE : 1)), runs_of(r.runs));
    if (packed)
      launch(join_kernel<T, WIDE>, blocks, SLICE_THREADS, 0, call_stream(call), part, sum, to, r);
    else
      launch(join_kernel<T, 1>, blocks, SLICE_THREADS, 0, call_stream(call), part, sum, to, r);
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_slice = {
    {nullptr, nullptr, slice_run},
    {(const void *)slice_kernel<uint4>, (const void *)slice_kernel<uint32_t>, (const void *)slice_kernel<uint16_t>,
     (const void *)slice_kernel<uint8_t>}};

extern "C" const hr_cuda_launcher hr_cuda_reshape = {
    {nullptr, nullptr, reshape_run},
    {(const void *)slice_kernel<uint4>, (const void *)slice_kernel<uint32_t>, (const void *)slice_kernel<uint16_t>,
     (const void *)slice_kernel<uint8_t>}};

extern "C" const hr_cuda_launcher hr_cuda_join = {
    {nullptr, nullptr, join_run},
    {(const void *)join_kernel<float, WIDE>, (const void *)join_kernel<float, 1>, (const void *)join_kernel<bf16, WIDE>,
     (const void *)join_kernel<bf16, 1>, (const void *)join_kernel<f16, WIDE>, (const void *)join_kernel<f16, 1>}};
