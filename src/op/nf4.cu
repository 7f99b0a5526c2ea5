/* nf4_unpack on CUDA: every block a span of the weight, every thread the elements of one 16-byte store at a time. */
#include "dev/cuda/dynamic8.cuh"
extern "C" {
#include "op/nf4.h"
}

enum { NF4_THREADS = 256, NF4_PACKS = 4 /* a thread's, so that loads overlap */ };
static_assert(NF4_THREADS == (int)HR_DYNAMIC8_CODES, "a thread copies one value of the code");

static __device__ const float nf4_levels[16] = HR_NF4_LEVELS;
static __device__ const dynamic8_values nf4_scale_values = dynamic8_signed();

/* Scale of a block of 64: stored, or from its 8-bit code with the roundings of the CPU. */
struct nf4_scales {
  const void *absmax;
  const float *nested, *offset; /* NULL: absmax is f32 */
};

template <int WIDTH> struct nf4_codes;
template <> struct nf4_codes<4> { typedef uint16_t type; };
template <> struct nf4_codes<8> { typedef uint32_t type; };

/* T: of the weight; WIDTH of its elements are 16 bytes. packed: the weight is aligned for them, the codes for half as
 * many bytes. */
template <typename T, bool NESTED>
static __global__ void __launch_bounds__(NF4_THREADS)
    nf4_kernel(const uint8_t *codes, nf4_scales scales, T *to, int64_t count, bool packed) {
  constexpr int WIDTH = 16 / sizeof(T);
  typedef typename nf4_codes<WIDTH>::type word_type;
  __shared__ float levels[16], values[HR_DYNAMIC8_CODES];
  if (threadIdx.x < 16) levels[threadIdx.x] = nf4_levels[threadIdx.x];
  if (NESTED) values[threadIdx.x] = nf4_scale_values.value[threadIdx.x];
  __syncthreads();

  int64_t at0 = ((int64_t)blockIdx.x * NF4_PACKS * NF4_THREADS + threadIdx.x) * WIDTH;
  uint32_t word[NF4_PACKS];
  float scale[NF4_PACKS];
#pragma unroll
  for (int k = 0; k < NF4_PACKS; k++) {
    int64_t at = at0 + (int64_t)k * NF4_THREADS * WIDTH, block = at / HR_NF4_BLOCK;
    word[k] = 0;
    scale[k] = 0.0f;
    if (at >= count) continue;
    if (packed && at + WIDTH <= count) {
      word[k] = *(const word_type *)(codes + at / 2);
    } else {
#pragma unroll
      for (int i = 0; i < WIDTH / 2; i++)
        if (at + 2 * i < count) word[k] |= (uint32_t)codes[at / 2 + i] << 8 * i;
    }
    if (NESTED)
      scale[k] =
          __fadd_rn(__fmul_rn(values[((const uint8_t *)scales.absmax)[block]], scales.nested[block / HR_NF4_NESTED]),
                    *scales.offset);
    else
      scale[k] = ((const float *)scales.absmax)[block];
  }
#pragma unroll
  for (int k = 0; k < NF4_PACKS; k++) {
    int64_t at = at0 + (int64_t)k * NF4_THREADS * WIDTH;
    if (at >= count) return;
    pack<T, WIDTH> out;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) /* the first of two is in the high nibble */
      out.value[e] = from_float<T>(levels[word[k] >> (e / 2 * 8 + (e % 2 ? 0 : 4)) & 15] * scale[k]);
    if (packed && at + WIDTH <= count) {
      *(pack<T, WIDTH> *)(to + at) = out;
    } else {
#pragma unroll
      for (int e = 0; e < WIDTH; e++)
        if (at + e < count) to[at + e] = out.value[e];
    }
  }
}

template <typename T, bool NESTED> static hr_status nf4_launch(const hr_call *call) {
  constexpr int WIDTH = 16 / sizeof(T);
  int64_t count = desc_count(call->out[0].desc), span = (int64_t)NF4_PACKS * NF4_THREADS * WIDTH;
  nf4_scales scales = {call->in[1].data, (const float *)call->in[2].data, (const float *)call->in[3].data};
  bool packed = aligned(call->out[0].data, 16) && aligned(call->in[0].data, WIDTH / 2);
  if (count > 0)
    launch(nf4_kernel<T, NESTED>, (unsigned)((count + span - 1) / span), NF4_THREADS, 0, call_stream(call),
           (const uint8_t *)call->in[0].data, scales, (T *)call->out[0].data, count, packed);
  return launched();
}

static hr_status nf4_run(const hr_call *call) {
  return by_dtype(call->out[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    return call->in[2].data ? nf4_launch<T, true>(call) : nf4_launch<T, false>(call);
  });
}

extern "C" const hr_cuda_launcher hr_cuda_nf4_unpack = {
    {nullptr, nullptr, nf4_run},
    {(const void *)nf4_kernel<float, false>, (const void *)nf4_kernel<float, true>,
     (const void *)nf4_kernel<bf16, false>, (const void *)nf4_kernel<bf16, true>, (const void *)nf4_kernel<f16, false>,
     (const void *)nf4_kernel<f16, true>}};
