/* constant: y = value. */
#include "op/constant.h"

#include "op/shapes.h"

hr_id hr__constant(hr_builder *b, float value) {
  hr_constant_args args = {value};
  return hr__emit(b, &hr_op_constant, NULL, 0, &args);
}

static hr_status constant_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 0, 0, err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static void constant_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 0.0, cost);
}

static hr_status constant_run(const hr_call *call) {
  const hr_constant_args *args = call->args;
  *(float *)call->out[0].data = args->value;
  return HR_OK;
}

static const hr_sample constant_samples[] = {
    {.args = &(const hr_constant_args){1.0f}},
    {.args = &(const hr_constant_args){-0.37f}},
};

const hr_op hr_op_constant = {
    .name = "constant",
    .n_in = 0,
    .n_out = 1,
    .args_bytes = sizeof(hr_constant_args),
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_F32), [HR_CUDA] = HR_DTYPE_BIT(HR_F32)},
    .shape = constant_shape,
    .cost = constant_cost,
    .cpu = {.run = constant_run},
    .samples = constant_samples,
    .n_samples = sizeof constant_samples / sizeof *constant_samples,
};
