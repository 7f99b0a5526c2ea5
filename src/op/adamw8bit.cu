/* adamw8bit on CUDA: a warp to a block of 256 elements. op/adamw8bit.h has the formula and its order of roundings: what
 * decides about codes is written without contraction, so that they are those of the CPU.
 */
#include "dev/cuda/dynamic8.cuh"
#include "op/optimizer.cuh"
extern "C" {
#include "op/adamw8bit.h"
extern const hr_cuda_launcher hr_cuda_adamw8bit;
}

enum { PARAM, GRAD, M, V, M_ABSMAX, V_ABSMAX, CONTROL, NORM };
enum { WARPS = UPDATE_THREADS / 32, BLOCKS_PER_PROCESSOR = 4 };
static_assert((int)HR_ADAMW8BIT_BLOCK == 32 * UPDATE_WIDTH, "a lane has 8 elements");

struct adamw8bit_constants {
  float clip_norm;
  float keep1, rate1, keep2, rate2; /* beta1, 1 - beta1, beta2, 1 - beta2 */
  float eps;
};
typedef update_group<6, adamw8bit_constants> adamw8bit_group;

/* Both codes, for shared memory: each element is looked up four times. */
struct alignas(16) adamw8bit_tables {
  dynamic8_bins m_bins, v_bins;
  dynamic8_values m_values, v_values;
};
static __device__ const adamw8bit_tables tables_made = {dynamic8_bins_of(dynamic8_signed(), HR_DYNAMIC8_ZERO),
                                                        dynamic8_bins_of(dynamic8_unsigned(), 0), dynamic8_signed(),
                                                        dynamic8_unsigned()};

/* Division of many sizes by one absmax, to the last bit: the product with the reciprocal is corrected twice by what is
 * left. `up` is a power of two that keeps what is left from falling below the smallest float; sizes so small that it
 * does are encoded as 0 in any case. Infinity by infinity is NaN, other sizes by infinity are 0, as in a division. */
struct ratio {
  float up, divisor, reciprocal;
};
__device__ inline ratio ratio_make(float absmax) {
  float divisor = absmax > 0.0f ? absmax : 1.0f; /* absmax 0 has only zeros to encode */
  if (isinf(divisor)) return {1.0f, 0.0f, 0.0f};
  float up = __uint_as_float((uint32_t)max(254 - (int)(__float_as_uint(divisor) >> 23), 1) << 23);
  return {up, divisor * up, 1.0f / (divisor * up)};
}
__device__ inline float ratio_of(const ratio &by, float size) {
  float x = size * by.up, q = x * by.reciprocal;
  q = fmaf(fmaf(-q, by.divisor, x), by.reciprocal, q);
  return fmaf(fmaf(-q, by.divisor, x), by.reciprocal, q);
}

/* One tensor's factors in this step. */
struct adamw8bit_step {
  uint64_t key, step;
  float gradient_scale;
  float step_size; /* lr c2 / c1 */
  float eps;       /* c2 eps */
  float decay;     /* 1 - lr * weight_decay */
};

__device__ inline adamw8bit_step adamw8bit_step_make(const adamw8bit_group &group, int t) {
  const hr_control *control = group.control;
  float lr = __fmul_rn(control->learning_rate, group.tensor[t].lr_scale), c2 = sqrtf(control->bias_correction2);
  adamw8bit_step step;
  step.key = control->seed ^ group.tensor[t].stream_key;
  step.step = control->step;
  step.gradient_scale = update_scale(control, group.constants.clip_norm, group.norm);
  step.step_size = __fmul_rn(lr, c2) / control->bias_correction1;
  step.eps = __fmul_rn(c2, group.constants.eps);
  step.decay = update_decay(lr, group.tensor[t].weight_decay);
  return step;
}

/* 8 codes of a lane. */
struct alignas(8) lane_codes {
  uint32_t word[2];
};
__device__ inline uint32_t code_of(const lane_codes &codes, int e) {
  return codes.word[e / 4] >> e % 4 * 8 & 0xffu;
}
__device__ inline lane_codes codes_load(const uint8_t *from, int64_t at, int n, bool packed) {
  if (packed && n == UPDATE_WIDTH) return *(const lane_codes *)(from + at);
  lane_codes codes = {};
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++)
    if (e < n) codes.word[e / 4] |= (uint32_t)from[at + e] << e % 4 * 8;
  return codes;
}
__device__ inline void codes_store(uint8_t *to, int64_t at, int n, bool packed, const lane_codes &codes) {
  if (packed && n == UPDATE_WIDTH) {
    *(lane_codes *)(to + at) = codes;
    return;
  }
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++)
    if (e < n) to[at + e] = (uint8_t)code_of(codes, e);
}

/* P: parameter; G: gradient. Every thread block has the same number of neighbouring units (blocks of 256), and its
 * warps take turns with them: the tables are copied once for many. All lanes take part in every unit, those beyond the
 * end with gradients that are NaN, which leaves them out of both absmax. */
template <typename P, typename G>
static __global__ void __launch_bounds__(UPDATE_THREADS, BLOCKS_PER_PROCESSOR)
    adamw8bit_kernel(__grid_constant__ const adamw8bit_group group) {
  __shared__ adamw8bit_tables tables;
  for (int i = (int)threadIdx.x; i < (int)(sizeof tables / sizeof(uint4)); i += UPDATE_THREADS)
    ((uint4 *)&tables)[i] = ((const uint4 *)&tables_made)[i];
  __syncthreads();
  if (group.control->skip) return;

  int64_t units = group.begin[group.tensors], share = (units + gridDim.x - 1) / gridDim.x;
  int64_t begin = blockIdx.x * share, end = min(begin + share, units);
  int lane = (int)threadIdx.x % 32, t = -1;
  adamw8bit_step step = {};
  for (int64_t unit = begin + threadIdx.x / 32; unit < end; unit += WARPS) {
    if (t < 0 || unit >= group.begin[t + 1]) {
      t = group_find(group, (int32_t)unit);
      step = adamw8bit_step_make(group, t);
    }
    const update_tensor<6> &tensor = group.tensor[t];
    P *param = (P *)tensor.at[PARAM];
    const G *grad = (const G *)tensor.at[GRAD];
    uint8_t *m_codes = (uint8_t *)tensor.at[M], *v_codes = (uint8_t *)tensor.at[V];
    int64_t block = unit - group.begin[t], at = block * HR_ADAMW8BIT_BLOCK + lane * UPDATE_WIDTH;
    int n = update_left(tensor.count, at);
    bool packed = packs_aligned(param) && packs_aligned(grad) && packs_aligned(m_codes) && packs_aligned(v_codes);
    span<P> old_p = span_load(param, at, n, packed, 0);
    span<G> old_g = span_load(grad, at, n, packed, ~0u); /* NaN in each type */
    lane_codes m_now = codes_load(m_codes, at, n, packed), v_now = codes_load(v_codes, at, n, packed);
    float *m_absmax = (float *)tensor.at[M_ABSMAX] + block, *v_absmax = (float *)tensor.at[V_ABSMAX] + block;
    float m_scale = *m_absmax, v_scale = *v_absmax;

    float new_p[UPDATE_WIDTH], m[UPDATE_WIDTH], v[UPDATE_WIDTH], m_largest = 0.0f, v_largest = 0.0f;
#pragma unroll
    for (int e = 0; e < UPDATE_WIDTH; e++) {
      float raw = span_element(old_g, e), g = __fmul_rn(raw, step.gradient_scale), p = span_element(old_p, e);
      bool finite = fabsf(raw) <= 3.40282347e38f;
      v[e] = __fadd_rn(__fmul_rn(group.constants.keep2, __fmul_rn(tables.v_values.value[code_of(v_now, e)], v_scale)),
                       __fmul_rn(__fmul_rn(group.constants.rate2, g), g));
      m[e] = __fadd_rn(__fmul_rn(group.constants.keep1, __fmul_rn(tables.m_values.value[code_of(m_now, e)], m_scale)),
                       __fmul_rn(group.constants.rate1, g));
      v[e] = finite ? v[e] : 0.0f;
      m[e] = finite ? m[e] : 0.0f;
      m_largest = fmaxf(m_largest, fabsf(m[e])); /* NaN is passed over */
      v_largest = fmaxf(v_largest, v[e]);
      float moved = __fsub_rn(p, near_quotient(__fmul_rn(step.step_size, m[e]), __fadd_rn(near_root(v[e]), step.eps)));
      new_p[e] = finite ? __fmul_rn(moved, step.decay) : p;
    }
    /* Floats that are not negative are ordered as their bits. */
    m_largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(m_largest)));
    v_largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(v_largest)));
    if (lane == 0) {
      *m_absmax = m_largest;
      *v_absmax = v_largest;
    }

    ratio m_by = ratio_make(m_largest), v_by = ratio_make(v_largest);
    lane_codes m_next = {}, v_next = {};
#pragma unroll
    for (int e = 0; e < UPDATE_WIDTH; e++) {
      int negative = (int)(__float_as_uint(m[e]) >> 31);
      int steps = dynamic8_steps(tables.m_bins.entry, ratio_of(m_by, fabsf(m[e])), (uint32_t)negative);
      /* a code of the number's own sign: 1 to 127 steps below 0, 0 to 128 steps above it */
      steps = min(max(steps, negative), 128 - negative);
      uint32_t code = (uint32_t)(negative ? HR_DYNAMIC8_ZERO - steps : HR_DYNAMIC8_ZERO + steps);
      m_next.word[e / 4] |= code << e % 4 * 8;
      v_next.word[e / 4] |= (uint32_t)dynamic8_steps(tables.v_bins.entry, ratio_of(v_by, v[e]), 0) << e % 4 * 8;
    }
    codes_store(m_codes, at, n, packed, m_next);
    codes_store(v_codes, at, n, packed, v_next);
    uint64_t number = (uint64_t)(tensor.first + at) / UPDATE_WIDTH;
    update_random random = {step.key, step.step, (uint32_t)number, (uint32_t)(number >> 32)};
    update_store(param, at, n, packed, new_p, random, 0);
  }
}

struct adamw8bit_op {
  typedef adamw8bit_group group;
  enum { FORMS = 6, SPAN = HR_ADAMW8BIT_BLOCK };
  static int form(const hr_call *call) { return update_form(call, 0, 1); }
  static const void *function(int form) { return hr_cuda_adamw8bit.functions[form]; }
  /* As many as the GPU holds at once, but no more than there is work for. */
  static int32_t blocks(int32_t units) {
    int device = 0, processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    int32_t most = (processors > 0 ? processors : 1) * BLOCKS_PER_PROCESSOR, enough = (units - 1) / WARPS + 1;
    return enough < most ? enough : most;
  }
  static void describe(const hr_call *call, group *group, update_tensor<6> *tensor) {
    const hr_adamw8bit_args *args = (const hr_adamw8bit_args *)call->args;
    group->control = (const hr_control *)call->in[CONTROL].data;
    group->norm = (const float *)call->in[NORM].data;
    group->constants = {args->clip_norm,    (float)args->beta1,         (float)(1.0 - args->beta1),
                        (float)args->beta2, (float)(1.0 - args->beta2), args->eps};
    for (int i = PARAM; i <= V_ABSMAX; i++)
      tensor->at[i] = call->in[i].data;
    tensor->stream_key = call->stream_key;
    tensor->first = args->first;
    tensor->weight_decay = args->weight_decay;
    tensor->lr_scale = args->lr_scale;
  }
};

static hr_status adamw8bit_prepare(const hr_call *call, void **prepared, hr_error *err) {
  static const int ins[] = {PARAM, M, V, M_ABSMAX, V_ABSMAX};
  *prepared = nullptr;
  return update_in_place(call, ins, 5, err);
}

/* In the order of update_form. */
extern "C" const hr_cuda_launcher hr_cuda_adamw8bit = {
    {adamw8bit_prepare, nullptr, update_run<adamw8bit_op>},
    {(const void *)adamw8bit_kernel<float, float>, (const void *)adamw8bit_kernel<float, bf16>,
     (const void *)adamw8bit_kernel<float, f16>, (const void *)adamw8bit_kernel<bf16, float>,
     (const void *)adamw8bit_kernel<bf16, bf16>, (const void *)adamw8bit_kernel<bf16, f16>},
    update_run_many<adamw8bit_op>};
