/* adamw8bit: see adamw8bit.h. Compiled without contraction of products and sums. */
#include "op/adamw8bit.h"

#include <math.h>

#include "base/dynamic8.h"
#include "op/optimizer.h"

enum { PARAM, GRAD, M, V, M_ABSMAX, V_ABSMAX, CONTROL, NORM, OPERANDS };
enum { WIDTH = HR_ADAMW8BIT_BLOCK };

hr_id hr__adamw8bit(hr_builder *b, hr_id param, hr_id grad, hr_adamw8bit_state state, hr_id control, hr_id norm,
                    const hr_adamw8bit_args *args) {
  hr_id in[OPERANDS] = {param, grad, state.m, state.v, state.m_absmax, state.v_absmax, control, norm};
  return hr__emit(b, &hr_op_adamw8bit, in, OPERANDS, args);
}

static hr_status adamw8bit_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_adamw8bit_args *args = view->args;
  HR_TRY(hr__shape_operands(view, OPERANDS, 1u << NORM, err));
  HR_TRY(hr__update_shape(view, CONTROL, NORM, args->clip_norm, args->first, err));
  hr_desc codes = view->in[PARAM];
  codes.dtype = HR_U8;
  hr_desc absmax = hr__desc1(HR_F32, hr__chunks(hr_desc_count(&codes), WIDTH));
  HR_TRY(hr__shape_like(view, M, &codes, err));
  HR_TRY(hr__shape_like(view, V, &codes, err));
  HR_TRY(hr__shape_like(view, M_ABSMAX, &absmax, err));
  HR_TRY(hr__shape_like(view, V_ABSMAX, &absmax, err));
  out[0] = view->in[PARAM];
  out[1] = out[2] = codes;
  out[3] = out[4] = absmax;
  return HR_OK;
}

/* On the CPU four look-ups in tables per element take most of the time: each about as long as 18 bytes from memory. A
 * GPU has the tables in shared memory. */
static void adamw8bit_cost(const hr_op_view *view, hr_cost *cost) {
  double count = (double)hr_desc_count(&view->in[PARAM]);
  hr__cost_stream(view, 40.0 * count, cost);
  if (view->kind == HR_CPU) cost->bytes += 4.0 * 18.0 * count;
}

static const float LARGEST = 3.40282347e38f; /* beyond it, and for NaN, a gradient counts as not finite */

/* One call's factors, the same for every element. */
typedef struct adamw8bit_step {
  const hr_call *call;
  hr_update_random random;
  const float *m_code, *v_code;
  const hr_dynamic8_bins *m_bins, *v_bins;
  float gradient_scale;
  float keep1, rate1, keep2, rate2; /* beta1, 1 - beta1, beta2, 1 - beta2 */
  float step_size;                  /* lr c2 / c1 */
  float eps;                        /* c2 eps */
  float decay;                      /* 1 - lr * weight_decay */
} adamw8bit_step;

/* The moments of one block in hand. */
typedef struct moments {
  float m[WIDTH], v[WIDTH], m_absmax, v_absmax;
} moments;

/* New moments of n elements, from the old codes. Look-ups have loops of their own, so that the arithmetic takes whole
 * vectors. */
HR_INLINE void moments_step(const adamw8bit_step *s, const float *grad, const uint8_t *m_old, const uint8_t *v_old,
                            int64_t n, moments *to) {
  float m_scale = to->m_absmax, v_scale = to->v_absmax, m_absmax = 0.0f, v_absmax = 0.0f;
  for (int64_t i = 0; i < n; i++) {
    to->m[i] = s->m_code[m_old[i]];
    to->v[i] = s->v_code[v_old[i]];
  }
#pragma omp simd reduction(max : m_absmax, v_absmax)
  for (int64_t i = 0; i < n; i++) {
    bool finite = fabsf(grad[i]) <= LARGEST;
    float g = grad[i] * s->gradient_scale;
    float v = s->keep2 * (to->v[i] * v_scale) + s->rate2 * g * g;
    float m = s->keep1 * (to->m[i] * m_scale) + s->rate1 * g;
    m = finite ? m : 0.0f;
    v = finite ? v : 0.0f;
    to->m[i] = m;
    to->v[i] = v;
    m_absmax = fabsf(m) > m_absmax ? fabsf(m) : m_absmax;
    v_absmax = v > v_absmax ? v : v_absmax;
  }
  to->m_absmax = m_absmax;
  to->v_absmax = v_absmax;
}

/* Absmax 0 has only zeros to encode; 1 in its place keeps them. */
HR_INLINE float divisor(float absmax) {
  return absmax > 0.0f ? absmax : 1.0f;
}

/* The bins of sizes x[0..n). An entry moves as one word; gather instructions take longer. */
HR_INLINE void bins_look(const hr_dynamic8_bins *bins, const float *x, int64_t n, hr_dynamic8_entry *found) {
  int32_t bin[WIDTH];
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    bin[i] = hr__dynamic8_bin(fabsf(x[i]));
  for (int64_t i = 0; i < n; i++)
    memcpy(&found[i], &bins->entry[bin[i]], sizeof found[i]);
}

/* Leaves the moments divided by their absmax. */
HR_INLINE void moments_encode(const adamw8bit_step *s, moments *from, int64_t n, uint8_t *m_new, uint8_t *v_new) {
  float m_scale = divisor(from->m_absmax), v_scale = divisor(from->v_absmax);
  hr_dynamic8_entry found[WIDTH];
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    from->m[i] /= m_scale;
    from->v[i] /= v_scale;
  }
  bins_look(s->m_bins, from->m, n, found);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    uint32_t word;
    memcpy(&word, &from->m[i], sizeof word);
    int32_t negative = (int32_t)(word >> 31);
    int32_t steps = found[i].start + hr__dynamic8_above(fabsf(from->m[i]), found[i].middle, negative);
    /* a code of the number's own sign: 1 to 127 steps below 0, 0 to 128 steps above it */
    steps = steps < negative ? negative : steps;
    steps = steps > 128 - negative ? 128 - negative : steps;
    m_new[i] = (uint8_t)(negative ? HR_DYNAMIC8_ZERO - steps : HR_DYNAMIC8_ZERO + steps);
  }
  bins_look(s->v_bins, from->v, n, found);
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    v_new[i] = (uint8_t)(found[i].start + hr__dynamic8_above(from->v[i], found[i].middle, 0));
}

HR_CLONES static void adamw8bit_task(void *arg, int64_t task, int worker) {
  const adamw8bit_step *step = arg;
  const hr_tensor *in = step->call->in, *out = step->call->out;
  const adamw8bit_step s = *step;
  hr_range chunk = hr__chunk(hr_desc_count(&in[PARAM].desc), HR_CHUNK, task);
  float param_block[WIDTH], grad_block[WIDTH];
  moments now;
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += WIDTH) {
    int64_t n = hr__min(WIDTH, chunk.end - at), block = at / WIDTH;
    const float *param = hr__load(&in[PARAM], at, n, param_block), *grad = hr__load(&in[GRAD], at, n, grad_block);
    float *new_param = hr__target(&out[0], at, param_block);
    now.m_absmax = ((const float *)in[M_ABSMAX].data)[block];
    now.v_absmax = ((const float *)in[V_ABSMAX].data)[block];
    moments_step(&s, grad, (const uint8_t *)in[M].data + at, (const uint8_t *)in[V].data + at, n, &now);
    ((float *)out[3].data)[block] = now.m_absmax;
    ((float *)out[4].data)[block] = now.v_absmax;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float moved = param[i] - s.step_size * now.m[i] / (sqrtf(now.v[i]) + s.eps);
      new_param[i] = fabsf(grad[i]) <= LARGEST ? moved * s.decay : param[i];
    }
    hr__update_store(&out[0], at, n, new_param, &s.random, 0, WIDTH);
    moments_encode(&s, &now, n, (uint8_t *)out[1].data + at, (uint8_t *)out[2].data + at);
  }
}

static hr_status adamw8bit_run(const hr_call *call) {
  const hr_adamw8bit_args *args = call->args;
  const hr_control *control = call->in[CONTROL].data;
  if (control->skip) {
    hr__update_keep(call, &hr_op_adamw8bit);
    return HR_OK;
  }
  float lr = control->learning_rate * args->lr_scale, c2 = sqrtf(control->bias_correction2);
  adamw8bit_step step = {
      .call = call,
      .random = hr__update_random(call, control, args->first),
      .m_code = hr__dynamic8_signed(),
      .v_code = hr__dynamic8_unsigned(),
      .m_bins = hr__dynamic8_signed_bins(),
      .v_bins = hr__dynamic8_unsigned_bins(),
      .gradient_scale = hr__update_scale(control, args->clip_norm, &call->in[NORM]),
      .keep1 = (float)args->beta1,
      .rate1 = (float)(1.0 - args->beta1),
      .keep2 = (float)args->beta2,
      .rate2 = (float)(1.0 - args->beta2),
      .step_size = lr * c2 / control->bias_correction1,
      .eps = c2 * args->eps,
      .decay = 1.0f - lr * args->weight_decay,
  };
  int64_t tasks = hr__chunks(hr_desc_count(&call->in[PARAM].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, tasks, adamw8bit_task, &step);
  return HR_OK;
}

static const hr_adamw8bit_args sample_args = {
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 0.0f, .lr_scale = 1.0f};
static const hr_adamw8bit_args sample_clipped = {
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f, .weight_decay = 0.01f, .clip_norm = 0.25f, .lr_scale = 0.5f};

static const hr_sample adamw8bit_samples[] = {
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {64, 48}},
            {HR_F32, 2, {64, 48}},
            {HR_U8, 2, {64, 48}},
            {HR_U8, 2, {64, 48}},
            {HR_F32, 1, {12}},
            {HR_F32, 1, {12}},
            {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &sample_args},
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_U8, 2, {37, 1031}},
            {HR_U8, 2, {37, 1031}},
            {HR_F32, 1, {150}},
            {HR_F32, 1, {150}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &sample_clipped},
};

const hr_op hr_op_adamw8bit = {
    .name = "adamw8bit",
    .n_in = OPERANDS,
    .n_out = 5,
    .optional = 1u << NORM,
    .effect = true,
    .random = true,
    .args_bytes = sizeof(hr_adamw8bit_args),
    .first_at = offsetof(hr_adamw8bit_args, first),
    .alias = {{PARAM, 0, HR_ALIAS_MUST},
              {M, 1, HR_ALIAS_MUST},
              {V, 2, HR_ALIAS_MUST},
              {M_ABSMAX, 3, HR_ALIAS_MUST},
              {V_ABSMAX, 4, HR_ALIAS_MUST}},
    .n_alias = 5,
    .grouped = true,
    .axes = HR_AXES_NONE, /* blocks run across rows */
    .dtypes = {[HR_CPU] = HR_UPDATED, [HR_CUDA] = HR_UPDATED},
    .shape = adamw8bit_shape,
    .cost = adamw8bit_cost,
    .cpu = {.run = adamw8bit_run},
    .samples = adamw8bit_samples,
    .n_samples = sizeof adamw8bit_samples / sizeof *adamw8bit_samples,
};
