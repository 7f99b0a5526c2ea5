/* adamw: the update of a parameter and its two moments. See adamw.h for the formulas and the rounding. */
#include "op/adamw.h"

#include <math.h>
#include <string.h>

#include "op/shapes.h"
#include "op/stream.h"

enum { PARAM, GRAD, M, V, CONTROL, NORM, OPERANDS };

hr_id hr__adamw(hr_builder *b, hr_id param, hr_id grad, hr_id m, hr_id v, hr_id norm, const hr_adamw_args *args) {
  hr_id in[OPERANDS] = {param, grad, m, v, hr__control(b), norm};
  return hr__emit(b, &hr_op_adamw, in, OPERANDS, args);
}

static hr_status adamw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_adamw_args *args = view->args;
  hr_desc control = hr__desc1(HR_U8, (int64_t)sizeof(hr_control)), norm = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_operands(view, OPERANDS, 1u << NORM, err));
  HR_TRY(hr__shape_float(view, PARAM, err));
  HR_TRY(hr__shape_like_float(view, GRAD, &view->in[PARAM], err));
  HR_TRY(hr__shape_like_float(view, M, &view->in[PARAM], err));
  HR_TRY(hr__shape_like(view, V, &view->in[M], err));
  HR_TRY(hr__shape_like(view, CONTROL, &control, err));
  HR_TRY(hr__shape_like(view, NORM, &norm, err));
  if (view->in[PARAM].dtype == HR_F16 || view->in[M].dtype == HR_F16)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "parameters and moments are f32 or bf16, not f16");
  if (args->clip_norm > 0.0f && view->in[NORM].rank == 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "clipping needs the gradient norm");
  out[0] = view->in[PARAM];
  out[1] = view->in[M];
  out[2] = view->in[V];
  return HR_OK;
}

static void adamw_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 16.0 * (double)hr_desc_count(&view->in[PARAM]), cost);
}

/* One call's factors, the same for every element. */
typedef struct adamw_step {
  const hr_call *call;
  uint64_t key, step; /* of the random bits */
  float gradient_scale;
  float decay;               /* 1 - lr * weight_decay */
  float rate1, keep2, rate2; /* 1 - beta1, beta2, 1 - beta2 */
  float step_size;           /* lr / bias_correction1 */
  float denominator;         /* 1 / sqrt(bias_correction2) */
  float eps;
} adamw_step;

/* A norm that is not a number makes the scale one too: better loud than silent. */
static float gradient_scale(const hr_call *call, const hr_control *control) {
  const hr_adamw_args *args = call->args;
  float scale = 1.0f / control->loss_scale;
  if (!(args->clip_norm > 0.0f) || !call->in[NORM].data) return scale;
  float norm = *(const float *)call->in[NORM].data * scale;
  float clip = args->clip_norm / (norm + 1e-6f);
  return clip >= 1.0f ? scale : scale * clip;
}

/* Random bits for the blocks of HR_BLOCK elements: Philox for many counters side by side (base/philox.h does one). */
enum { LANES = HR_BLOCK / 8 };
typedef union random_bits {
  uint32_t word[HR_BLOCK / 2];
  uint16_t half[HR_BLOCK];
} random_bits;

HR_INLINE void random_bits_draw(const adamw_step *step, int64_t at, uint64_t slot, random_bits *bits) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  uint64_t first = (uint64_t)at / 8 + (slot << 62);
  uint32_t key0 = (uint32_t)step->key, key1 = (uint32_t)(step->key >> 32);
  for (int i = 0; i < LANES; i++) {
    uint64_t low = first + (uint64_t)i;
    c0[i] = (uint32_t)low;
    c1[i] = (uint32_t)(low >> 32);
    c2[i] = (uint32_t)step->step;
    c3[i] = (uint32_t)(step->step >> 32);
  }
  for (int round = 0; round < 10; round++) {
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
      uint64_t product0 = 0xD2511F53ull * c0[i], product1 = 0xCD9E8D57ull * c2[i];
      c0[i] = (uint32_t)(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = (uint32_t)product1;
      c2[i] = (uint32_t)(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = (uint32_t)product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < LANES; i++) {
    bits->word[4 * i] = c0[i];
    bits->word[4 * i + 1] = c1[i];
    bits->word[4 * i + 2] = c2[i];
    bits->word[4 * i + 3] = c3[i];
  }
}

/* Completes a block as hr__store does, but rounds to bf16 stochastically. Infinities have no bits to carry from; NaN
 * stays NaN. */
HR_INLINE void store_stochastic(const hr_tensor *tensor, int64_t at, int64_t n, const float *block,
                                const adamw_step *step, uint64_t slot) {
  if (tensor->desc.dtype == HR_F32) return;
  uint16_t *to = (uint16_t *)tensor->data + at;
  random_bits bits;
  random_bits_draw(step, at, slot, &bits);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    uint32_t word;
    memcpy(&word, &block[i], sizeof word);
    uint32_t rounded = (word + bits.half[i]) >> 16, quiet = (word >> 16) | 0x40u;
    to[i] = (uint16_t)((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

HR_CLONES static void adamw_task(void *arg, int64_t task, int worker) {
  const adamw_step *step = arg;
  const hr_call *call = step->call;
  const hr_tensor *in = call->in, *out = call->out;
  const adamw_step s = *step;
  hr_range chunk = hr__chunk(hr_desc_count(&in[PARAM].desc), HR_CHUNK, task);
  float param_block[HR_BLOCK], grad_block[HR_BLOCK], m_block[HR_BLOCK], v_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *param = hr__load(&in[PARAM], at, n, param_block), *grad = hr__load(&in[GRAD], at, n, grad_block);
    const float *m = hr__load(&in[M], at, n, m_block), *v = hr__load(&in[V], at, n, v_block);
    float *new_param = hr__target(&out[0], at, param_block);
    float *new_m = hr__target(&out[1], at, m_block), *new_v = hr__target(&out[2], at, v_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float g = grad[i] * s.gradient_scale;
      float mean = m[i] + s.rate1 * (g - m[i]);
      float square = s.keep2 * v[i] + s.rate2 * g * g;
      float p = param[i] * s.decay;
      new_m[i] = mean;
      new_v[i] = square;
      new_param[i] = p - s.step_size * mean / (sqrtf(square) * s.denominator + s.eps);
    }
    store_stochastic(&out[0], at, n, new_param, step, 0);
    store_stochastic(&out[1], at, n, new_m, step, 1);
    store_stochastic(&out[2], at, n, new_v, step, 2);
  }
}

/* A skipped step leaves everything as it was; only results with storage of their own still need the old values. */
static void adamw_keep(const hr_call *call) {
  static const int from[] = {PARAM, M, V};
  for (int j = 0; j < 3; j++) {
    const hr_tensor *in = &call->in[from[j]], *out = &call->out[j];
    if (in->data != out->data) memcpy(out->data, in->data, hr_desc_bytes(&in->desc));
  }
}

static hr_status adamw_run(const hr_call *call) {
  const hr_adamw_args *args = call->args;
  const hr_control *control = call->in[CONTROL].data;
  if (control->skip) {
    adamw_keep(call);
    return HR_OK;
  }
  adamw_step step = {
      .call = call,
      .key = control->seed ^ call->stream_key,
      .step = control->step,
      .gradient_scale = gradient_scale(call, control),
      .decay = 1.0f - control->learning_rate * args->weight_decay,
      .rate1 = 1.0f - args->beta1,
      .keep2 = args->beta2,
      .rate2 = 1.0f - args->beta2,
      .step_size = control->learning_rate / control->bias_correction1,
      .denominator = 1.0f / sqrtf(control->bias_correction2),
      .eps = args->eps,
  };
  int64_t tasks = hr__chunks(hr_desc_count(&call->in[PARAM].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, tasks, adamw_task, &step);
  return HR_OK;
}

static const hr_adamw_args sample_args = {
    .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 0.0f};
static const hr_adamw_args sample_clipped = {
    .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .clip_norm = 0.25f};

static const hr_sample adamw_samples[] = {
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {64, 48}},
            {HR_F32, 2, {64, 48}},
            {HR_F32, 2, {64, 48}},
            {HR_F32, 2, {64, 48}},
            {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &sample_args},
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &sample_clipped},
};

const hr_op hr_op_adamw = {
    .name = "adamw",
    .n_in = OPERANDS,
    .n_out = 3,
    .optional = 1u << NORM,
    .effect = true,
    .random = true,
    .args_bytes = sizeof(hr_adamw_args),
    .alias = {{PARAM, 0, HR_ALIAS_MUST}, {M, 1, HR_ALIAS_MUST}, {V, 2, HR_ALIAS_MUST}},
    .n_alias = 3,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_FLOATS_NO_F16, [HR_CUDA] = HR_FLOATS_NO_F16},
    .shape = adamw_shape,
    .cost = adamw_cost,
    .cpu = {.run = adamw_run},
    .samples = adamw_samples,
    .n_samples = sizeof adamw_samples / sizeof *adamw_samples,
};
