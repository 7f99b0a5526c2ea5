/* pointwise, its backward and rearrange on CUDA. */
#include "op/pointwise.cuh"

typedef holding<float, 4, 4, false, 6> all_f32;
typedef holding<bf16, 8, 4, false, 7> all_bf16;
typedef holding<float, 8, 2, true, 5> mixed;
typedef holding<float, 1, 4, true, 8>
    single; /* for sizes and addresses that allow no packs, and the longest programs */

/* Writes the groups that are inside, as type S. */
template <typename V, typename S>
__device__ __forceinline__ void result_write_as(S *to, int64_t group, int groups, const V &x) {
#pragma unroll
  for (int g = 0; g < V::GROUPS; g++) {
    if (g >= groups) break;
    const uint32_t *from = x.word + g * V::GROUP_WORDS;
    if constexpr (sizeof(S) == sizeof(typename V::type)) {
      pack<S, V::PACK> block;
      memcpy(&block, from, sizeof block);
      pack_store<V::PACK>(to + g * group, block);
    } else {
      float element[V::PACK];
#pragma unroll
      for (int e = 0; e < V::PACK; e++)
        element[e] = __uint_as_float(from[e]);
      pack_write<V::PACK>(to + g * group, element);
    }
  }
}

template <typename H>
__device__ __forceinline__ void result_write(const program &p, int j, int64_t at, int groups,
                                             const typename H::all &x) {
  typedef typename H::all V;
  if constexpr (!H::MIXED)
    result_write_as((typename V::type *)p.result_data[j] + at, p.result_group, groups, x);
  else if (p.result_dtype[j] == HR_BF16)
    result_write_as((bf16 *)p.result_data[j] + at, p.result_group, groups, x);
  else if (p.result_dtype[j] == HR_F16)
    result_write_as((f16 *)p.result_data[j] + at, p.result_group, groups, x);
  else
    result_write_as((float *)p.result_data[j] + at, p.result_group, groups, x);
}

/* A thread reads all that it needs before it writes its results, which may lie on operands that are read as they lie.
 */
template <typename H>
static __global__ void __launch_bounds__(PROGRAM_THREADS, H::BLOCKS)
    pointwise_kernel(const __grid_constant__ program p) {
  uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= p.threads) return;
  place<uint32_t> at;
  place_find(p, thread, &at);
  typename H::all x;
  program_run<H>(p, at, x);
  int64_t to = place_offset(at, p.axes, p.result_step);
  if (p.result[0] == SOURCE_BEFORE && p.n_out == 1) {
    result_write<H>(p, 0, to, at.groups, x);
    return;
  }
  for (int kept = 0; kept < 2; kept++) /* all of several are kept, or operands that are no result's place */
    for (int j = 0; j < p.n_out; j++)
      if ((p.result[j] >= SOURCE_BEFORE) == kept) {
        source_read<H>(p, p.result[j], at, x, x);
        result_write<H>(p, j, to, at.groups, x);
      }
}

/* Threads of a block, so that what they keep has room; 0: it has none. */
template <typename H> static int threads_of(const program &p) {
  int threads = PROGRAM_THREADS;
  while (threads >= 32 && kept_bytes<typename H::all>(p.n_kept, threads) > KEPT_BYTES)
    threads /= 2;
  return threads >= 32 ? threads : 0;
}

/* Whether a thread of that kind can do it; if so, it is launched. */
template <typename H> static bool pointwise_launch(const hr_call *call, const program_space &space, program *p) {
  typedef typename H::all V;
  int threads = threads_of<H>(*p);
  if (threads == 0 || !packs_fit(call, space, V::PACK)) return false;
  program_lay(call, space, V::PACK, V::GROUPS, p);
  if (p->threads >> 31) return false;
  launch(pointwise_kernel<H>, (unsigned)divide_up(p->threads, threads), threads, kept_bytes<V>(p->n_kept, threads),
         call_stream(call), *p);
  return true;
}

static hr_status pointwise_run(const hr_call *call) {
  const hr_pointwise_args *args = (const hr_pointwise_args *)call->args;
  program p;
  program_space space;
  program_make(call, args, &p);
  space_make(call, args, call->out[0].desc, nullptr, &space);
  bool done = program_is_all(call, args, HR_F32)    ? pointwise_launch<all_f32>(call, space, &p)
              : program_is_all(call, args, HR_BF16) ? pointwise_launch<all_bf16>(call, space, &p)
                                                    : pointwise_launch<mixed>(call, space, &p);
  if (!done) done = pointwise_launch<single>(call, space, &p);
  return done ? launched() : HR_UNSUPPORTED;
}

#define POINTWISE                                                                                                      \
  {                                                                                                                    \
    {nullptr, nullptr, pointwise_run}, {                                                                               \
      (const void *)pointwise_kernel<all_f32>, (const void *)pointwise_kernel<all_bf16>,                               \
          (const void *)pointwise_kernel<mixed>, (const void *)pointwise_kernel<single>                                \
    }                                                                                                                  \
  }
extern "C" const hr_cuda_launcher hr_cuda_pointwise = POINTWISE;
extern "C" const hr_cuda_launcher hr_cuda_pointwise_bwd = POINTWISE;
extern "C" const hr_cuda_launcher hr_cuda_rearrange = POINTWISE;
