/* fetch, store, wait: see transfer.h. The kernels here copy at once, in the caller; a run copies on threads of its own
 * (run/transfer.c). */
#include "op/transfer.h"

#include <string.h>

#include "op/shapes.h"

#define ALL_DTYPES ((1u << HR_DTYPE_COUNT) - 1)

hr_id hr__fetch(hr_builder *b, hr_id x, hr_id to, bool staged) {
  hr_transfer_args args = {staged};
  return hr__emit(b, &hr_op_fetch, (hr_id[]){x, to}, 2, &args);
}

hr_id hr__store(hr_builder *b, hr_id x, hr_id to, bool staged) {
  hr_transfer_args args = {staged};
  return hr__emit(b, &hr_op_store, (hr_id[]){x, to}, 2, &args);
}

hr_id hr__wait(hr_builder *b, hr_id x, hr_id source, hr_id room) {
  return hr__emit(b, &hr_op_wait, (hr_id[]){x, source, room}, 3, NULL);
}

static void transfer_shape(const hr_op_view *view, hr_desc *out) {
  const hr_transfer_args *args = view->args;
  out[0] = view->in[0];
  out[1] = hr__desc1(HR_U8, args->staged ? (int64_t)hr_desc_bytes(&view->in[0]) : 0);
}

static hr_status start_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 1u << 1, err));
  HR_TRY(hr__shape_like(view, 1, &view->in[0], err));
  transfer_shape(view, out);
  return HR_OK;
}

static hr_status wait_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 3, 1u << 1 | 1u << 2, err));
  out[0] = view->in[0];
  return HR_OK;
}

static void transfer_cost(const hr_op_view *view, hr_cost *cost) {
  cost->op_class = HR_CLASS_STREAM;
  cost->bytes = 2.0 * (double)hr_desc_bytes(&view->in[0]);
}

static hr_status transfer_run(const hr_call *call) {
  size_t bytes = hr_desc_bytes(&call->in[0].desc);
  if (hr_desc_bytes(&call->out[1].desc) == bytes) memcpy(call->out[1].data, call->in[0].data, bytes);
  memcpy(call->out[0].data, call->in[0].data, bytes);
  return HR_OK;
}

static hr_status wait_run(const hr_call *call) {
  if (call->out[0].data != call->in[0].data)
    memcpy(call->out[0].data, call->in[0].data, hr_desc_bytes(&call->in[0].desc));
  return HR_OK;
}

static const hr_transfer_args sample_direct = {false}, sample_staged = {true};

static const hr_sample start_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 2, {64, 48}}, {HR_F32, 2, {64, 48}}}, .args = &sample_direct},
    {.n_in = 2, .in = {{HR_F32, 2, {7, 13}}}, .args = &sample_direct},
    {.n_in = 2, .in = {{HR_F32, 1, {1031}}}, .args = &sample_direct},
    {.n_in = 2, .in = {{HR_U8, 1, {41}}, {HR_U8, 1, {41}}}, .args = &sample_staged},
};
static const hr_sample wait_samples[] = {
    {.n_in = 3, .in = {{HR_F32, 2, {64, 48}}, {HR_F32, 2, {64, 48}}}},
    {.n_in = 3, .in = {{HR_F32, 1, {37}}, {HR_F32, 1, {37}}, {HR_U8, 1, {40}}}},
};

const hr_op hr_op_fetch = {
    .name = "fetch",
    .n_in = 2,
    .n_out = 2,
    .optional = 1u << 1,
    .effect = true,
    .args_bytes = sizeof(hr_transfer_args),
    .transfer = HR_TRANSFER_START,
    .alias = {{1, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = ALL_DTYPES},
    .shape = start_shape,
    .cost = transfer_cost,
    .cpu = {.run = transfer_run},
    .samples = start_samples,
    .n_samples = sizeof start_samples / sizeof *start_samples,
};

const hr_op hr_op_store = {
    .name = "store",
    .n_in = 2,
    .n_out = 2,
    .optional = 1u << 1,
    .effect = true,
    .args_bytes = sizeof(hr_transfer_args),
    .transfer = HR_TRANSFER_START,
    .alias = {{1, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = ALL_DTYPES},
    .shape = start_shape,
    .cost = transfer_cost,
    .cpu = {.run = transfer_run},
    .samples = start_samples,
    .n_samples = sizeof start_samples / sizeof *start_samples,
};

const hr_op hr_op_wait = {
    .name = "wait",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 1 | 1u << 2,
    .effect = true,
    .transfer = HR_TRANSFER_WAIT,
    .alias = {{0, 0, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = ALL_DTYPES},
    .shape = wait_shape,
    .cost = transfer_cost,
    .cpu = {.run = wait_run},
    .samples = wait_samples,
    .n_samples = sizeof wait_samples / sizeof *wait_samples,
};
