/* ema: see ema.h. */
#include "op/ema.h"

#include "op/optimizer.h"

enum { STATE, VALUE, CONTROL, OPERANDS };

hr_id hr__ema(hr_builder *b, hr_id e, hr_id x, hr_id control, float decay) {
  hr_ema_args args = {decay};
  return hr__emit(b, &hr_op_ema, (hr_id[]){e, x, control}, OPERANDS, &args);
}

hr_id hr__state_follow(hr_builder *b, hr_id state, hr_id x, float decay) {
  if (b->status != HR_OK) return HR_NONE;
  if (!hr__program_kind_trains(b->graph->programs[b->program].key.kind)) return state;
  return hr__ema(b, state, x, HR_NONE, decay);
}

static hr_status ema_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_ema_args *args = view->args;
  hr_desc control = hr__desc1(HR_U8, (int64_t)sizeof(hr_control));
  HR_TRY(hr__shape_operands(view, OPERANDS, 1u << CONTROL, err));
  HR_TRY(hr__shape_float(view, STATE, err));
  if (view->in[STATE].dtype != HR_F32)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "what follows is f32, not %s", hr_dtype_name(view->in[STATE].dtype));
  HR_TRY(hr__shape_like_float(view, VALUE, &view->in[STATE], err));
  HR_TRY(hr__shape_like(view, CONTROL, &control, err));
  if (!(args->decay >= 0.0f && args->decay <= 1.0f))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a decay of %g", (double)args->decay);
  out[0] = view->in[STATE];
  return HR_OK;
}

static void ema_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 3.0 * (double)hr_desc_count(&view->in[STATE]), cost);
}

HR_CLONES static void ema_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *e = &call->in[STATE], *x = &call->in[VALUE], *y = &call->out[0];
  float decay = ((const hr_ema_args *)call->args)->decay, rate = 1.0f - decay;
  hr_range chunk = hr__chunk(hr_desc_count(&e->desc), HR_CHUNK, task);
  float x_block[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    const float *before = (const float *)e->data + at, *from = hr__load(x, at, n, x_block);
    float *to = (float *)y->data + at;
    if (decay == 0.0f) {
      for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
      continue;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = decay * before[i] + rate * from[i];
  }
}

static hr_status ema_run(const hr_call *call) {
  const hr_control *control = call->in[CONTROL].data;
  if (control && control->skip) {
    hr__update_keep(call, &hr_op_ema);
    return HR_OK;
  }
  hr__run_chunks(call, hr_desc_count(&call->in[STATE].desc), ema_task);
  return HR_OK;
}

static const hr_sample ema_samples[] = {
    {.n_in = OPERANDS, .in = {{HR_F32, 1, {48}}, {HR_F32, 1, {48}}}, .args = &(const hr_ema_args){0.9f}},
    {.n_in = OPERANDS, .in = {{HR_F32, 1, {5}}, {HR_F32, 1, {5}}}, .args = &(const hr_ema_args){0.0f}},
    {.n_in = OPERANDS,
     .in = {{HR_F32, 2, {37, 1031}}, {HR_F32, 2, {37, 1031}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_ema_args){0.999f}},
};

const hr_op hr_op_ema = {
    .name = "ema",
    .n_in = OPERANDS,
    .n_out = 1,
    .optional = 1u << CONTROL,
    .effect = true,
    .args_bytes = sizeof(hr_ema_args),
    .alias = {{STATE, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE, /* what persists is one for all samples */
    .typed_by = VALUE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = ema_shape,
    .cost = ema_cost,
    .cpu = {.run = ema_run},
    .samples = ema_samples,
    .n_samples = sizeof ema_samples / sizeof *ema_samples,
};
