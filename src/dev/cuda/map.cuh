/* Elementwise kernels: one function of IN floats to OUT floats, over tensors of equal shape.
 *
 * A thread reads all its elements before it writes them, so that an output may lie on an input of the same type.
 */
#ifndef HR_DEV_CUDA_MAP_CUH
#define HR_DEV_CUDA_MAP_CUH

#include "dev/cuda/launch.cuh"

enum { MAP_WIDTH = WIDE, MAP_THREADS = 256, MAP_BLOCKS = 4096 };

template <typename T, int N> struct pointers { T *at[N]; };

/* Elements [0, packs * MAP_WIDTH) go in packs, the others one by one. */
template <typename From, typename To, int IN, int OUT, typename F>
__global__ void map_kernel(pointers<const From, IN> in, pointers<To, OUT> out, int64_t packs, int64_t count,
                           F function) {
  int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = thread; i < packs; i += stride) {
    pack<From, MAP_WIDTH> from[IN];
    pack<To, MAP_WIDTH> to[OUT];
#pragma unroll
    for (int t = 0; t < IN; t++)
      from[t] = ((const pack<From, MAP_WIDTH> *)in.at[t])[i];
#pragma unroll
    for (int e = 0; e < MAP_WIDTH; e++) {
      float x[IN], y[OUT];
#pragma unroll
      for (int t = 0; t < IN; t++)
        x[t] = to_float(from[t].value[e]);
      function(x, y);
#pragma unroll
      for (int t = 0; t < OUT; t++)
        to[t].value[e] = from_float<To>(y[t]);
    }
#pragma unroll
    for (int t = 0; t < OUT; t++)
      pack_store<MAP_WIDTH>(out.at[t] + i * MAP_WIDTH, to[t]);
  }
  for (int64_t i = packs * MAP_WIDTH + thread; i < count; i += stride) {
    float x[IN], y[OUT];
#pragma unroll
    for (int t = 0; t < IN; t++)
      x[t] = to_float(in.at[t][i]);
    function(x, y);
#pragma unroll
    for (int t = 0; t < OUT; t++)
      out.at[t][i] = from_float<To>(y[t]);
  }
}

/* Applies `function` to the first IN inputs and all OUT outputs of a call. */
template <typename From, typename To, int IN, int OUT, typename F>
static hr_status map_run(const hr_call *call, const F &function) {
  pointers<const From, IN> in;
  pointers<To, OUT> out;
  bool packed = true;
  for (int t = 0; t < IN; t++) {
    in.at[t] = (const From *)call->in[t].data;
    packed = packed && wide(in.at[t]);
  }
  for (int t = 0; t < OUT; t++) {
    out.at[t] = (To *)call->out[t].data;
    packed = packed && wide(out.at[t]);
  }
  int64_t count = desc_count(call->out[0].desc), packs = packed ? count / MAP_WIDTH : 0;
  int64_t pieces = packs + (count - packs * MAP_WIDTH), blocks = (pieces + MAP_THREADS - 1) / MAP_THREADS;
  if (blocks > MAP_BLOCKS) blocks = MAP_BLOCKS;
  if (blocks > 0)
    launch(map_kernel<From, To, IN, OUT, F>, (unsigned)blocks, MAP_THREADS, 0, call_stream(call), in, out, packs, count,
           function);
  return launched();
}

#endif
