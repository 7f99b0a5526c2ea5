/* found_inf: see found_inf.h. */
#include "op/found_inf.h"

#include <math.h>
#include <string.h>

#include "op/shapes.h"

enum { CONTROL, NORM, OPERANDS };

hr_id hr__found_inf(hr_builder *b, hr_id control, hr_id norm) {
  hr_id in[OPERANDS] = {control, norm};
  return hr__emit(b, &hr_op_found_inf, in, OPERANDS, NULL);
}

static hr_status found_inf_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  hr_desc control = hr__desc1(HR_U8, (int64_t)sizeof(hr_control)), norm = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_operands(view, OPERANDS, 0, err));
  HR_TRY(hr__shape_like(view, CONTROL, &control, err));
  HR_TRY(hr__shape_like(view, NORM, &norm, err));
  out[0] = control;
  return HR_OK;
}

static void found_inf_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 1.0, cost);
}

static hr_status found_inf_run(const hr_call *call) {
  hr_control control;
  memcpy(&control, call->in[CONTROL].data, sizeof control);
  control.skip = (uint32_t)!isfinite(*(const float *)call->in[NORM].data);
  memcpy(call->out[0].data, &control, sizeof control);
  return HR_OK;
}

/* The control block has one shape: both are the same. */
static const hr_sample found_inf_samples[] = {
    {.n_in = OPERANDS, .in = {{HR_U8, 1, {sizeof(hr_control)}}, {HR_F32, 1, {1}}}},
    {.n_in = OPERANDS, .in = {{HR_U8, 1, {sizeof(hr_control)}}, {HR_F32, 1, {1}}}},
};

const hr_op hr_op_found_inf = {
    .name = "found_inf",
    .n_in = OPERANDS,
    .n_out = 1,
    .effect = true,
    .alias = {{CONTROL, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .typed_by = NORM,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_F32), [HR_CUDA] = HR_DTYPE_BIT(HR_F32)},
    .shape = found_inf_shape,
    .cost = found_inf_cost,
    .cpu = {.run = found_inf_run},
    .samples = found_inf_samples,
    .n_samples = sizeof found_inf_samples / sizeof *found_inf_samples,
};
