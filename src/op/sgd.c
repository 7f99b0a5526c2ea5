/* sgd, sgd_momentum: see sgd.h. */
#include "op/sgd.h"

#include "op/optimizer.h"

/* One call's factors, the same for every element. */
typedef struct sgd_step {
  const hr_call *call;
  hr_update_random random;
  float gradient_scale, decay, lr, momentum;
  bool nesterov;
} sgd_step;

static sgd_step sgd_step_make(const hr_call *call, const hr_control *control, const hr_tensor *norm) {
  const hr_sgd_args *args = call->args;
  return (sgd_step){.call = call,
                    .random = hr__update_random(call, control, args->first),
                    .gradient_scale = hr__update_scale(control, args->clip_norm, norm),
                    .decay = args->weight_decay,
                    .lr = control->learning_rate * args->lr_scale,
                    .momentum = args->momentum,
                    .nesterov = args->nesterov};
}

/* ---- sgd ---- */

enum { PARAM, GRAD, CONTROL, NORM, OPERANDS };

hr_id hr__sgd(hr_builder *b, hr_id param, hr_id grad, hr_id control, hr_id norm, const hr_sgd_args *args) {
  hr_id in[OPERANDS] = {param, grad, control, norm};
  return hr__emit(b, &hr_op_sgd, in, OPERANDS, args);
}

static hr_status sgd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_sgd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, OPERANDS, 1u << NORM, err));
  HR_TRY(hr__update_shape(view, CONTROL, NORM, args->clip_norm, args->first, err));
  out[0] = view->in[PARAM];
  return HR_OK;
}

static void sgd_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 5.0 * (double)hr_desc_count(&view->in[PARAM]), cost);
}

HR_CLONES static void sgd_task(void *arg, int64_t task, int worker) {
  const sgd_step *step = arg;
  const hr_tensor *in = step->call->in, *out = step->call->out;
  const sgd_step s = *step;
  hr_range chunk = hr__chunk(hr_desc_count(&in[PARAM].desc), HR_CHUNK, task);
  float param_block[HR_BLOCK], grad_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *param = hr__load(&in[PARAM], at, n, param_block), *grad = hr__load(&in[GRAD], at, n, grad_block);
    float *new_param = hr__target(&out[0], at, param_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      new_param[i] = param[i] - s.lr * (grad[i] * s.gradient_scale + s.decay * param[i]);
    hr__update_store(&out[0], at, n, new_param, &step->random, 0, HR_BLOCK);
  }
}

static hr_status sgd_run(const hr_call *call) {
  const hr_control *control = call->in[CONTROL].data;
  if (control->skip) {
    hr__update_keep(call, &hr_op_sgd);
    return HR_OK;
  }
  sgd_step step = sgd_step_make(call, control, &call->in[NORM]);
  int64_t tasks = hr__chunks(hr_desc_count(&call->in[PARAM].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, tasks, sgd_task, &step);
  return HR_OK;
}

static const hr_sgd_args sample_args = {.weight_decay = 0.1f, .lr_scale = 1.0f};
static const hr_sgd_args sample_clipped = {.weight_decay = 0.01f, .clip_norm = 0.25f, .lr_scale = 0.5f};

static const hr_sample sgd_samples[] = {
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {64, 48}}, {HR_F32, 2, {64, 48}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &sample_args},
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {37, 1031}}, {HR_F32, 2, {37, 1031}}, {HR_U8, 1, {sizeof(hr_control)}}, {HR_F32, 1, {1}}},
     .args = &sample_clipped},
};

const hr_op hr_op_sgd = {
    .name = "sgd",
    .n_in = OPERANDS,
    .n_out = 1,
    .optional = 1u << NORM,
    .effect = true,
    .random = true,
    .args_bytes = sizeof(hr_sgd_args),
    .first_at = offsetof(hr_sgd_args, first),
    .alias = {{PARAM, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .grouped = true,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_UPDATED, [HR_CUDA] = HR_UPDATED},
    .shape = sgd_shape,
    .cost = sgd_cost,
    .cpu = {.run = sgd_run},
    .samples = sgd_samples,
    .n_samples = sizeof sgd_samples / sizeof *sgd_samples,
};

/* ---- sgd_momentum ---- */

enum { M_SUM = 2, M_CONTROL, M_NORM, M_OPERANDS };

hr_id hr__sgd_momentum(hr_builder *b, hr_id param, hr_id grad, hr_id s, hr_id control, hr_id norm,
                       const hr_sgd_args *args) {
  hr_id in[M_OPERANDS] = {param, grad, s, control, norm};
  return hr__emit(b, &hr_op_sgd_momentum, in, M_OPERANDS, args);
}

static hr_status sgd_momentum_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_sgd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, M_OPERANDS, 1u << M_NORM, err));
  HR_TRY(hr__update_shape(view, M_CONTROL, M_NORM, args->clip_norm, args->first, err));
  hr_desc sum = view->in[PARAM];
  sum.dtype = HR_F32;
  HR_TRY(hr__shape_like(view, M_SUM, &sum, err));
  out[0] = view->in[PARAM];
  out[1] = sum;
  return HR_OK;
}

static void sgd_momentum_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 8.0 * (double)hr_desc_count(&view->in[PARAM]), cost);
}

HR_CLONES static void sgd_momentum_task(void *arg, int64_t task, int worker) {
  const sgd_step *step = arg;
  const hr_tensor *in = step->call->in, *out = step->call->out;
  const sgd_step s = *step;
  hr_range chunk = hr__chunk(hr_desc_count(&in[PARAM].desc), HR_CHUNK, task);
  float param_block[HR_BLOCK], grad_block[HR_BLOCK];
  /* what p moves along: of_sum s + of_gradient g */
  float of_sum = s.nesterov ? s.momentum : 1.0f, of_gradient = s.nesterov ? 1.0f : 0.0f;
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *param = hr__load(&in[PARAM], at, n, param_block), *grad = hr__load(&in[GRAD], at, n, grad_block);
    const float *sum = (const float *)in[M_SUM].data + at;
    float *new_param = hr__target(&out[0], at, param_block), *new_sum = (float *)out[1].data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float g = grad[i] * s.gradient_scale + s.decay * param[i];
      float total = s.momentum * sum[i] + g;
      new_sum[i] = total;
      new_param[i] = param[i] - s.lr * (of_gradient * g + of_sum * total);
    }
    hr__update_store(&out[0], at, n, new_param, &step->random, 0, HR_BLOCK);
  }
}

static hr_status sgd_momentum_run(const hr_call *call) {
  const hr_control *control = call->in[M_CONTROL].data;
  if (control->skip) {
    hr__update_keep(call, &hr_op_sgd_momentum);
    return HR_OK;
  }
  sgd_step step = sgd_step_make(call, control, &call->in[M_NORM]);
  int64_t tasks = hr__chunks(hr_desc_count(&call->in[PARAM].desc), HR_CHUNK);
  hr__pool_run(call->device->pool, call->threads, tasks, sgd_momentum_task, &step);
  return HR_OK;
}

static const hr_sgd_args sample_momentum = {.momentum = 0.9f, .weight_decay = 0.1f, .lr_scale = 1.0f};
static const hr_sgd_args sample_nesterov = {
    .momentum = 0.8f, .nesterov = true, .weight_decay = 0.01f, .clip_norm = 0.25f, .lr_scale = 0.5f};

static const hr_sample sgd_momentum_samples[] = {
    {.n_in = M_OPERANDS,
     .in = {{HR_F32, 2, {64, 48}}, {HR_F32, 2, {64, 48}}, {HR_F32, 2, {64, 48}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &sample_momentum},
    {.n_in = M_OPERANDS,
     .in = {{HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_F32, 2, {37, 1031}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &sample_nesterov},
};

const hr_op hr_op_sgd_momentum = {
    .name = "sgd_momentum",
    .n_in = M_OPERANDS,
    .n_out = 2,
    .optional = 1u << M_NORM,
    .effect = true,
    .random = true,
    .args_bytes = sizeof(hr_sgd_args),
    .first_at = offsetof(hr_sgd_args, first),
    .alias = {{PARAM, 0, HR_ALIAS_MUST}, {M_SUM, 1, HR_ALIAS_MUST}},
    .n_alias = 2,
    .grouped = true,
    .axes = HR_AXES_ALL,
    .dtypes = {[HR_CPU] = HR_UPDATED, [HR_CUDA] = HR_UPDATED},
    .shape = sgd_momentum_shape,
    .cost = sgd_momentum_cost,
    .cpu = {.run = sgd_momentum_run},
    .samples = sgd_momentum_samples,
    .n_samples = sizeof sgd_momentum_samples / sizeof *sgd_momentum_samples,
};
