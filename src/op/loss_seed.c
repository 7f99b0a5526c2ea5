/* loss_seed: y = weight * loss_scale. */
#include "op/loss_seed.h"

#include "op/shapes.h"

hr_id hr__loss_seed(hr_builder *b, float weight) {
  hr_loss_seed_args args = {weight};
  return hr__emit(b, &hr_op_loss_seed, (hr_id[]){hr__control(b)}, 1, &args);
}

static hr_status loss_seed_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  hr_desc control = hr__desc1(HR_U8, (int64_t)sizeof(hr_control));
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  HR_TRY(hr__shape_like(view, 0, &control, err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static void loss_seed_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 1.0, cost);
}

static hr_status loss_seed_run(const hr_call *call) {
  const hr_loss_seed_args *args = call->args;
  const hr_control *control = call->in[0].data;
  *(float *)call->out[0].data = args->weight * control->loss_scale;
  return HR_OK;
}

static const hr_sample loss_seed_samples[] = {
    {.n_in = 1, .in = {{HR_U8, 1, {sizeof(hr_control)}}}, .args = &(const hr_loss_seed_args){1.0f}},
    {.n_in = 1, .in = {{HR_U8, 1, {sizeof(hr_control)}}}, .args = &(const hr_loss_seed_args){-0.37f}},
};

const hr_op hr_op_loss_seed = {
    .name = "loss_seed",
    .n_in = 1,
    .n_out = 1,
    .args_bytes = sizeof(hr_loss_seed_args),
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_U8), [HR_CUDA] = HR_DTYPE_BIT(HR_U8)},
    .shape = loss_seed_shape,
    .cost = loss_seed_cost,
    .cpu = {.run = loss_seed_run},
    .samples = loss_seed_samples,
    .n_samples = sizeof loss_seed_samples / sizeof *loss_seed_samples,
};
