/* What every .cu file needs: the C headers, the state of the device, and helpers for launching and for element types.
 */
#ifndef HR_DEV_CUDA_LAUNCH_CUH
#define HR_DEV_CUDA_LAUNCH_CUH

#include <string.h>

#include "dev/cuda/instructions.cuh"

#define _Static_assert static_assert
extern "C" {
#include "dev/cuda/limits.h"
#include "dev/cuda/plugin.h"
}

struct hr_cuda_state {
  hr_cuda_counts counts; /* first: see plugin.h */
  hr_cuda_host host;
  cudaStream_t stream;                     /* all kernels are ordered on it */
  cudaStream_t copy_in, copy_out, on_host; /* beside it: see recording.cu */
  cudaEvent_t fork;                        /* while recording: one stream behind another */
  char *pieces;                            /* see staging.cu */
  cudaEvent_t piece_free[HR_CUDA_PIECES];
  size_t piece_next;
  void *products;      /* cuBLASLt handle */
  void *attention;     /* of dev/cuda/cudnn.cpp */
  uint64_t peak_bytes; /* largest answer of process_bytes */
  int multiprocessors;
  int meeting; /* blocks that surely run at once, one on each multiprocessor: they may wait for each other */
  bool early;  /* kernels can begin before those in front of them have ended */
};

/* An op's kernel with all device functions it may launch. They are loaded when the device is opened: loading takes
 * device memory, and the step may take none. */
enum { HR_CUDA_FUNCTIONS = 112 };
struct hr_cuda_launcher {
  hr_kernel kernel;
  const void *functions[HR_CUDA_FUNCTIONS]; /* ended by NULL where there are fewer */
  /* (optional) does launches[0..count), neighbours in a recording that all have this kernel, in fewer launches of the
   * device than one each: optimizers and casts over many small tensors. No launch may read what another one of them
   * writes, and the results are those of one after another. */
  hr_status (*run_many)(const hr_launch *launches, size_t count) = nullptr;
  /* (optional) does launches[at] and neighbours behind it, of whatever kernels, in one launch of the device, with the
   * same results; *taken: how many, 0: none. `count` are all launches of the recording. */
  hr_status (*take)(const hr_launch *launches, size_t at, size_t count, size_t *taken) = nullptr;
};

static inline hr_cuda_state *device_state(const hr_call *call) {
  return (hr_cuda_state *)call->device->state;
}
static inline cudaStream_t call_stream(const hr_call *call) {
  return device_state(call)->stream;
}

/* Whether the launches since the last check were accepted. */
static inline hr_status launched(void) {
  return cudaGetLastError() == cudaSuccess ? HR_OK : HR_FAILURE;
}

static inline cudaLaunchConfig_t launch_config(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return config;
}

/* Starts a kernel; launched() says whether it was accepted. Brackets of CUDA's own say the same, but only nvcc reads
 * them, and kernels are tested without it too (test/cuda/host). */
template <typename... Parameters, typename... Arguments>
static void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   const Arguments &...arguments) {
  cudaLaunchConfig_t config = launch_config(grid, block, shared, stream);
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* Starts one that begins early: see front_wait. */
template <typename... Parameters, typename... Arguments>
static hr_status launch_early(const hr_call *call, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
                              const Arguments &...arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = launch_config(grid, block, shared, call_stream(call));
  config.attrs = &attribute;
  config.numAttrs = device_state(call)->early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess ? launched() : HR_FAILURE;
}

static inline int64_t desc_count(const hr_desc &desc) {
  int64_t count = 1;
  for (int i = 0; i < desc.rank; i++)
    count *= desc.dim[i];
  return count;
}
static inline int64_t desc_columns(const hr_desc &desc) {
  return desc.rank > 0 ? desc.dim[desc.rank - 1] : 1;
}
static inline int64_t desc_rows(const hr_desc &desc) {
  int64_t columns = desc_columns(desc);
  return columns > 0 ? desc_count(desc) / columns : 0;
}

/* bf16 and f16 are storage only: all arithmetic outside products is f32. */
typedef __nv_bfloat16 bf16;
typedef __half f16;
__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(bf16 x) {
  return __bfloat162float(x);
}
__device__ inline float to_float(f16 x) {
  return __half2float(x);
}
template <typename T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) {
  return x;
}
template <> __device__ inline bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <> __device__ inline f16 from_float<f16>(float x) {
  return __float2half_rn(x);
}

/* An element of a tensor whose float dtype only the run knows. */
__device__ inline float element_at(const void *from, int dtype, int64_t i) {
  return dtype == HR_BF16  ? to_float(((const bf16 *)from)[i])
         : dtype == HR_F16 ? to_float(((const f16 *)from)[i])
                           : ((const float *)from)[i];
}

/* Calls `function` with a value of the C++ type that a float dtype stands for: by_dtype(dtype, [&](auto t) { using T =
 * decltype(t); ... }). */
template <typename F> static hr_status by_dtype(hr_dtype dtype, const F &function) {
  if (dtype == HR_BF16) return function(bf16());
  if (dtype == HR_F16) return function(f16());
  return function(float());
}

/* N neighbouring elements, moved in pieces of up to 16 bytes. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack { T value[N]; };

/* Elements a thread moves at once where sizes and addresses allow it: 16 bytes of a 16-bit type, twice 16 of f32. */
enum { WIDE = 8 };

template <int N, typename T> __device__ inline pack<T, N> pack_load(const T *from) {
  return *(const pack<T, N> *)from;
}
/* The compiler would take a pack apart and store its elements one by one: 16 bytes go as such. */
template <int N, typename T> __device__ inline void pack_store(T *to, const pack<T, N> &block) {
  if constexpr (sizeof block % sizeof(uint4) == 0) {
    uint4 words[sizeof block / sizeof(uint4)];
    memcpy(words, &block, sizeof block);
#pragma unroll
    for (size_t i = 0; i < sizeof block / sizeof(uint4); i++)
      __stwb((uint4 *)to + i, words[i]);
  } else {
    *(pack<T, N> *)to = block;
  }
}
template <int N, typename T> __device__ inline void pack_read(const T *from, float *to) {
  pack<T, N> block = pack_load<N>(from);
#pragma unroll
  for (int e = 0; e < N; e++)
    to[e] = to_float(block.value[e]);
}
template <int N, typename T> __device__ inline void pack_write(T *to, const float *from) {
  pack<T, N> block;
#pragma unroll
  for (int e = 0; e < N; e++)
    block.value[e] = from_float<T>(from[e]);
  pack_store<N>(to, block);
}

/* Absent operands (NULL) do not stand in the way. */
static inline bool aligned(const void *pointer, size_t bytes) {
  return (uintptr_t)pointer % bytes == 0;
}

/* Whether packs of WIDE elements can be taken from each of these addresses on. */
template <typename... Pointers> static bool wide(Pointers... pointers) {
  return (aligned(pointers, 16) && ...);
}

static inline int64_t divide_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

#endif
