/* adamw on CUDA. op/adamw.h has the formula; op/optimizer.h says which random bits round which element. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "base/philox.h"
#include "op/adamw.h"
}

/* A thread takes 8 neighbouring elements: as many as one block of random numbers has half-words. */
enum { ADAMW_WIDTH = 8, ADAMW_THREADS = 256 };

/* One step's factors, the same for every element. */
struct adamw_step {
  float gradient_scale;
  float decay;       /* 1 - lr * weight_decay */
  float size;        /* lr / bias_correction1 */
  float denominator; /* 1 / sqrt(bias_correction2) */
  uint64_t key, step;
  int64_t first; /* element of the parameter at which the operands begin */
};

/* Rounds to bf16 by adding 16 random bits below the stored ones; NaN stays NaN. */
__device__ inline bf16 round_randomly(float value, uint32_t random16) {
  uint32_t word = __float_as_uint(value), rounded = (word + random16) >> 16, quiet = (word >> 16) | 0x40u;
  __nv_bfloat16_raw raw;
  raw.x = (unsigned short)((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  return bf16(raw);
}

/* Neighbouring elements [at, at + n) of a tensor: n == ADAMW_WIDTH but at its end. packed: aligned for whole packs. */
struct span {
  int64_t at;
  int n;
  bool packed;
};

template <typename T> __device__ inline void load(const T *from, float *to, const span &s) {
  if (s.packed && s.n == ADAMW_WIDTH) {
    pack<T, ADAMW_WIDTH> block = *(const pack<T, ADAMW_WIDTH> *)(from + s.at);
#pragma unroll
    for (int e = 0; e < ADAMW_WIDTH; e++)
      to[e] = to_float(block.value[e]);
    return;
  }
#pragma unroll
  for (int e = 0; e < ADAMW_WIDTH; e++)
    to[e] = e < s.n ? to_float(from[s.at + e]) : 0.0f;
}

template <typename T> __device__ inline void store(T *to, const pack<T, ADAMW_WIDTH> &block, const span &s) {
  if (s.packed && s.n == ADAMW_WIDTH) {
    *(pack<T, ADAMW_WIDTH> *)(to + s.at) = block;
    return;
  }
#pragma unroll
  for (int e = 0; e < ADAMW_WIDTH; e++)
    if (e < s.n) to[s.at + e] = block.value[e];
}

/* slot: 0 parameter, 1 m, 2 v */
__device__ inline void store_rounded(float *to, const float *from, const span &s, const adamw_step &, int) {
  pack<float, ADAMW_WIDTH> block;
#pragma unroll
  for (int e = 0; e < ADAMW_WIDTH; e++)
    block.value[e] = from[e];
  store(to, block, s);
}
__device__ inline void store_rounded(bf16 *to, const float *from, const span &s, const adamw_step &step, int slot) {
  uint32_t word[4];
  hr__philox(step.key, step.step, (uint64_t)(step.first + s.at) / 8 + ((uint64_t)slot << 62), word);
  pack<bf16, ADAMW_WIDTH> block;
#pragma unroll
  for (int e = 0; e < ADAMW_WIDTH; e++)
    block.value[e] = round_randomly(from[e], word[e / 2] >> (e % 2 * 16) & 0xffffu);
  store(to, block, s);
}

/* P: parameter; G: gradient; M: both moments. */
template <typename P, typename G, typename M>
static __global__ void adamw_kernel(P *param, const G *grad, M *m, M *v, const hr_control *control, const float *norm,
                                    hr_adamw_args args, uint64_t stream_key, int64_t count, bool packed) {
  if (control->skip) return;
  span s = {((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * ADAMW_WIDTH, 0, packed};
  if (s.at >= count) return;
  s.n = (int)min((int64_t)ADAMW_WIDTH, count - s.at);

  adamw_step step;
  float unscale = 1.0f / control->loss_scale;
  step.gradient_scale = unscale;
  if (args.clip_norm > 0.0f && norm) {
    float clip = args.clip_norm / (*norm * unscale + 1e-6f);
    if (!(clip >= 1.0f)) step.gradient_scale *= clip; /* a norm that is not a number spreads: better loud than silent */
  }
  float lr = control->learning_rate * args.lr_scale;
  step.decay = 1.0f - lr * args.weight_decay;
  step.size = lr / control->bias_correction1;
  step.denominator = 1.0f / sqrtf(control->bias_correction2);
  step.key = control->seed ^ stream_key;
  step.step = control->step;
  step.first = args.first;

  float p[ADAMW_WIDTH], g[ADAMW_WIDTH], m1[ADAMW_WIDTH], v1[ADAMW_WIDTH];
  load(param, p, s);
  load(grad, g, s);
  load(m, m1, s);
  load(v, v1, s);
#pragma unroll
  for (int e = 0; e < ADAMW_WIDTH; e++) {
    float x = g[e] * step.gradient_scale;
    m1[e] += (1.0f - args.beta1) * (x - m1[e]);
    v1[e] = args.beta2 * v1[e] + (1.0f - args.beta2) * x * x;
    p[e] = p[e] * step.decay - step.size * m1[e] / (sqrtf(v1[e]) * step.denominator + args.eps);
  }
  store_rounded(param, p, s, step, 0);
  store_rounded(m, m1, s, step, 1);
  store_rounded(v, v1, s, step, 2);
}

static hr_status adamw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  if (call->out[0].data == call->in[0].data && call->out[1].data == call->in[2].data &&
      call->out[2].data == call->in[3].data)
    return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "an update must be in place");
}

template <typename P, typename G, typename M> static hr_status adamw_launch(const hr_call *call) {
  int64_t count = desc_count(call->out[0].desc), span = ADAMW_THREADS * ADAMW_WIDTH;
  const void *norm = call->n_in > 5 ? call->in[5].data : nullptr;
  bool packed = aligned(call->out[0].data, 16) && aligned(call->in[1].data, 16) && aligned(call->out[1].data, 16) &&
                aligned(call->out[2].data, 16);
  adamw_kernel<P, G, M><<<(unsigned)((count + span - 1) / span), ADAMW_THREADS, 0, call_stream(call)>>>(
      (P *)call->out[0].data, (const G *)call->in[1].data, (M *)call->out[1].data, (M *)call->out[2].data,
      (const hr_control *)call->in[4].data, (const float *)norm, *(const hr_adamw_args *)call->args, call->stream_key,
      count, packed);
  return launched();
}

template <typename P, typename G> static hr_status adamw_by_moment(const hr_call *call) {
  return call->in[2].desc.dtype == HR_F32 ? adamw_launch<P, G, float>(call) : adamw_launch<P, G, bf16>(call);
}

static hr_status adamw_run(const hr_call *call) {
  bool param32 = call->in[0].desc.dtype == HR_F32, grad32 = call->in[1].desc.dtype == HR_F32;
  if (param32) return grad32 ? adamw_by_moment<float, float>(call) : adamw_by_moment<float, bf16>(call);
  return grad32 ? adamw_by_moment<bf16, float>(call) : adamw_by_moment<bf16, bf16>(call);
}

extern "C" const hr_cuda_launcher hr_cuda_adamw = {
    {adamw_prepare, nullptr, adamw_run},
    {(const void *)adamw_kernel<float, float, float>, (const void *)adamw_kernel<float, float, bf16>,
     (const void *)adamw_kernel<float, bf16, float>, (const void *)adamw_kernel<float, bf16, bf16>,
     (const void *)adamw_kernel<bf16, float, float>, (const void *)adamw_kernel<bf16, float, bf16>,
     (const void *)adamw_kernel<bf16, bf16, float>, (const void *)adamw_kernel<bf16, bf16, bf16>}};
