/* pointwise, its backward and rearrange on CUDA. */
#include "op/pointwise.cuh"

enum { PACK = 4 }; /* neighbours of a thread: 16 bytes of f32 */

struct program_results {
  void *data[HR_PROGRAM_RESULTS];
  hr_dtype dtype[HR_PROGRAM_RESULTS];
  int count;
};

template <int N> __device__ inline void result_write(void *data, hr_dtype dtype, int64_t at, const float *from) {
  if (dtype == HR_BF16)
    pack_write<N>((bf16 *)data + at, from);
  else if (dtype == HR_F16)
    pack_write<N>((f16 *)data + at, from);
  else
    pack_write<N>((float *)data + at, from);
}

/* A thread reads all that it needs before it writes its results, which may lie on plain operands. */
template <int N>
static __global__ void __launch_bounds__(PROGRAM_THREADS)
    pointwise_kernel(const __grid_constant__ program p, const __grid_constant__ program_results out, int64_t packs) {
  int64_t stride = (int64_t)gridDim.x * PROGRAM_THREADS;
  for (int64_t i = (int64_t)blockIdx.x * PROGRAM_THREADS + threadIdx.x; i < packs; i += stride) {
    float before[N], kept[KEPT][N], result[N];
    program_run<N>(p, i * N, before, kept);
    if (out.count == 1) {
      source_read<N>(p, p.result[0], i * N, before, kept, result);
      result_write<N>(out.data[0], out.dtype[0], i * N, result);
      continue;
    }
    for (int j = 0; j < out.count; j++) /* all of several are kept, or operands that are no result's place */
      if (p.result[j] < SOURCE_BEFORE) {
        source_read<N>(p, p.result[j], i * N, before, kept, result);
        result_write<N>(out.data[j], out.dtype[j], i * N, result);
      }
    for (int j = 0; j < out.count; j++)
      if (p.result[j] >= SOURCE_BEFORE) {
        source_read<N>(p, p.result[j], i * N, before, kept, result);
        result_write<N>(out.data[j], out.dtype[j], i * N, result);
      }
  }
}

/* Whether all operands and results can be read and written in packs. */
static bool packs_fit(const hr_call *call, const program &p) {
  bool fits = desc_count(call->out[0].desc) % PACK == 0;
  for (int i = 0; i < p.n_in; i++) {
    const program_operand &x = p.in[i];
    size_t bytes = PACK * (x.dtype == HR_F32 ? 4 : 2);
    int64_t stride = x.stride[x.axes - 1];
    fits = fits && (x.plain || x.windowed || x.size[x.axes - 1] % PACK == 0) && aligned(x.data, bytes);
    for (int d = 0; d + 1 < x.axes && stride == 1; d++)
      fits = fits && (x.windowed || x.stride[d] % PACK == 0);
  }
  for (int j = 0; j < call->n_out; j++)
    fits = fits && aligned(call->out[j].data, PACK * (call->out[j].desc.dtype == HR_F32 ? 4 : 2));
  return fits;
}

static hr_status pointwise_run(const hr_call *call) {
  const hr_pointwise_args *args = (const hr_pointwise_args *)call->args;
  program p;
  if (program_make(call, args, call->out[0].desc, nullptr, &p) != HR_OK) return HR_UNSUPPORTED;
  program_results out = {};
  out.count = call->n_out;
  for (int j = 0; j < call->n_out; j++) {
    out.data[j] = call->out[j].data;
    out.dtype[j] = call->out[j].desc.dtype;
  }
  bool packed = packs_fit(call, p);
  int64_t packs = desc_count(call->out[0].desc) / (packed ? PACK : 1), blocks = divide_up(packs, PROGRAM_THREADS);
  if (blocks > PROGRAM_BLOCKS) blocks = PROGRAM_BLOCKS;
  if (packed)
    pointwise_kernel<PACK><<<(unsigned)blocks, PROGRAM_THREADS, 0, call_stream(call)>>>(p, out, packs);
  else
    pointwise_kernel<1><<<(unsigned)blocks, PROGRAM_THREADS, 0, call_stream(call)>>>(p, out, packs);
  return launched();
}

#define POINTWISE                                                                                                      \
  {                                                                                                                    \
    {nullptr, nullptr, pointwise_run}, {                                                                               \
      (const void *)pointwise_kernel<PACK>, (const void *)pointwise_kernel<1>                                          \
    }                                                                                                                  \
  }
extern "C" const hr_cuda_launcher hr_cuda_pointwise = POINTWISE;
extern "C" const hr_cuda_launcher hr_cuda_pointwise_bwd = POINTWISE;
extern "C" const hr_cuda_launcher hr_cuda_rearrange = POINTWISE;
