/* concat: rows of bytes, moved as they are. */
#include "op/concat.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/pointwise.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__concat(hr_builder *b, const hr_id *operands, int count, int axis) {
  hr_concat_args args = {axis};
  return hr__emit(b, &hr_op_concat, operands, count, &args);
}

static hr_status concat_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  int axis = ((const hr_concat_args *)view->args)->axis;
  if (view->n_in < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "takes at least one operand");
  HR_TRY(hr__shape_float(view, 0, err));
  out[0] = view->in[0];
  if (axis < 0 || axis >= out[0].rank)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operands of rank %d have no axis %d", out[0].rank, axis);
  for (int i = 1; i < view->n_in; i++) {
    hr_desc expected = view->in[0];
    HR_TRY(hr__shape_float(view, i, err));
    if (view->in[i].rank > axis) expected.dim[axis] = view->in[i].dim[axis];
    HR_TRY(hr__shape_like(view, i, &expected, err));
    out[0].dim[axis] += view->in[i].dim[axis];
  }
  return HR_OK;
}

/* Each operand's gradient is the part of dy where it lies. */
static void concat_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  int axis = ((const hr_concat_args *)node->args)->axis;
  hr_id dy = hr__out_grad(a, 0);
  int64_t first = 0;
  for (int i = 0; dy != HR_NONE && i < node->n_in; i++) {
    int64_t count = b->graph->values[node->in[i]].desc.dim[axis];
    if (hr__wants_grad(a, i)) hr__grad_add(a, i, hr__window(b, dy, axis, first, count));
    first += count;
  }
}

static void concat_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 0.0, cost);
}

/* The batch of all operands goes through along any other axis. */
static bool concat_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  int axis = ((const hr_concat_args *)view->args)->axis;
  for (int i = 0; i < view->n_in; i++)
    if (in[i].axis < 0 || in[i].axis == axis || in[i].axis != in[0].axis || in[i].rows != in[0].rows) return false;
  out[0] = in[0];
  return true;
}

/* Bytes of an operand in one row: all of it from the axis on. */
static size_t row_bytes(const hr_desc *desc, int axis) {
  size_t bytes = hr_dtype_bytes(desc->dtype);
  for (int d = axis; d < desc->rank; d++)
    bytes *= (size_t)desc->dim[d];
  return bytes;
}

enum { ROW_PIECE = 1 << 17 }; /* bytes of y in one task; rows are not cut */

static int64_t rows_together(const hr_call *call) {
  int axis = ((const hr_concat_args *)call->args)->axis;
  int64_t rows = ROW_PIECE / (int64_t)row_bytes(&call->out[0].desc, axis);
  return rows < 1 ? 1 : rows;
}

static int64_t rows_of(const hr_call *call) {
  int64_t rows = 1;
  for (int d = 0; d < ((const hr_concat_args *)call->args)->axis; d++)
    rows *= call->out[0].desc.dim[d];
  return rows;
}

static void concat_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  int axis = ((const hr_concat_args *)call->args)->axis;
  size_t whole = row_bytes(&call->out[0].desc, axis), at = 0;
  hr_range rows = hr__chunk(rows_of(call), rows_together(call), task);
  (void)worker;
  for (int i = 0; i < call->n_in; i++) {
    size_t bytes = row_bytes(&call->in[i].desc, axis);
    for (int64_t row = rows.first; row < rows.end; row++)
      memcpy((char *)call->out[0].data + (size_t)row * whole + at, (const char *)call->in[i].data + (size_t)row * bytes,
             bytes);
    at += bytes;
  }
}

static hr_status concat_run(const hr_call *call) {
  hr__pool_run(call->device->pool, call->threads, hr__chunks(rows_of(call), rows_together(call)), concat_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample concat_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 2, {5, 19}}, {HR_F32, 2, {3, 19}}}, .args = &(const hr_concat_args){0}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {4, 7, 16}}, {HR_F32, 3, {4, 1, 16}}, {HR_F32, 3, {4, 12, 16}}},
     .args = &(const hr_concat_args){1}},
    {.n_in = 2, .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 2, {67, 33}}}, .args = &(const hr_concat_args){1}},
    {.n_in = 1, .in = {{HR_F32, 2, {3, 21}}}, .args = &(const hr_concat_args){1}},
};

const hr_op hr_op_concat = {
    .name = "concat",
    .n_in = 1,
    .n_out = 1,
    .variadic = true,
    .args_bytes = sizeof(hr_concat_args),
    .computes = 1u << 0,
    .batch = concat_batch,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = concat_shape,
    .grad = concat_grad,
    .cost = concat_cost,
    .cpu = {.run = concat_run},
    .samples = concat_samples,
    .n_samples = sizeof concat_samples / sizeof *concat_samples,
};
