/* adamw: the update of a parameter and its two moments. See adamw.h for the formulas and the rounding. */
#include "op/adamw.h"

#include <math.h>

#include "op/optimizer.h"

enum { PARAM, GRAD, M, V, CONTROL, NORM, OPERANDS };

hr_id hr__adamw(hr_builder *b, hr_id param, hr_id grad, hr_id m, hr_id v, hr_id control, hr_id norm,
                const hr_adamw_args *args) {
  hr_id in[OPERANDS] = {param, grad, m, v, control, norm};
  return hr__emit(b, &hr_op_adamw, in, OPERANDS, args);
}

static hr_status adamw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_adamw_args *args = view->args;
  HR_TRY(hr__shape_operands(view, OPERANDS, 1u << NORM, err));
  HR_TRY(hr__update_shape(view, CONTROL, NORM, args->clip_norm, args->first, err));
  hr_desc moment = view->in[PARAM];
  moment.dtype = view->in[M].dtype == HR_BF16 ? HR_BF16 : HR_F32;
  HR_TRY(hr__shape_like(view, M, &moment, err));
  HR_TRY(hr__shape_like(view, V, &moment, err));
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
  hr_update_random random;
  float gradient_scale;
  float decay;               /* 1 - lr * weight_decay */
  float rate1, keep2, rate2; /* 1 - beta1, beta2, 1 - beta2 */
  float step_size;           /* lr / bias_correction1 */
  float denominator;         /* 1 / sqrt(bias_correction2) */
  float eps;
} adamw_step;

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
    hr__update_store(&out[0], at, n, new_param, &step->random, 0, HR_BLOCK);
    hr__update_store(&out[1], at, n, new_m, &step->random, 1, HR_BLOCK);
    hr__update_store(&out[2], at, n, new_v, &step->random, 2, HR_BLOCK);
  }
}

static hr_status adamw_run(const hr_call *call) {
  const hr_adamw_args *args = call->args;
  const hr_control *control = call->in[CONTROL].data;
  if (control->skip) {
    hr__update_keep(call, &hr_op_adamw);
    return HR_OK;
  }
  float lr = control->learning_rate * args->lr_scale;
  adamw_step step = {
      .call = call,
      .random = hr__update_random(call, control, args->first),
      .gradient_scale = hr__update_scale(control, args->clip_norm, &call->in[NORM]),
      .decay = 1.0f - lr * args->weight_decay,
      .rate1 = 1.0f - args->beta1,
      .keep2 = args->beta2,
      .rate2 = 1.0f - args->beta2,
      .step_size = lr / control->bias_correction1,
      .denominator = 1.0f / sqrtf(control->bias_correction2),
      .eps = args->eps,
  };
  int64_t tasks = hr__chunks(hr_desc_count(&call->in[PARAM].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, tasks, adamw_task, &step);
  return HR_OK;
}

static const hr_adamw_args sample_args = {
    .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .clip_norm = 0.0f, .lr_scale = 1.0f};
static const hr_adamw_args sample_clipped = {
    .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .clip_norm = 0.25f, .lr_scale = 0.5f};

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
    .first_at = offsetof(hr_adamw_args, first),
    .alias = {{PARAM, 0, HR_ALIAS_MUST}, {M, 1, HR_ALIAS_MUST}, {V, 2, HR_ALIAS_MUST}},
    .n_alias = 3,
    .grouped = true,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_UPDATED, [HR_CUDA] = HR_UPDATED},
    .shape = adamw_shape,
    .cost = adamw_cost,
    .cpu = {.run = adamw_run},
    .samples = adamw_samples,
    .n_samples = sizeof adamw_samples / sizeof *adamw_samples,
};
