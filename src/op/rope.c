/* Rotary positions: the table of cosines and sines, and the rotation by it. */
#include "op/rope.h"

#include <math.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

hr_id hr__rope_table(hr_builder *b, hr_id positions, const hr_rope_table_args *args) {
  return hr__emit(b, &hr_op_rope_table, &positions, 1, args);
}

static hr_status rope_table_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_rope_table_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 1, 1u << 0, err));
  bool placed = view->in[0].rank > 0;
  if (placed && (view->in[0].rank != 1 || view->in[0].dtype != HR_I32))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "positions must be i32 [batch]");
  if (args->length < 1 || args->head_dim < 2 || args->head_dim % 2 != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "needs a length of at least 1 and an even head_dim, got %lld and %lld", (long long)args->length,
                    (long long)args->head_dim);
  if (!(args->theta > 0.0)) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "theta must be positive");
  if (args->scaled && !(args->factor > 0.0 && args->low > 0.0 && args->high > args->low && args->original_length >= 1))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "scaling needs a positive factor, 0 < low < high and a positive original length");
  out[0] = hr__desc3(HR_F32, 2, (placed ? view->in[0].dim[0] : 1) * args->length, args->head_dim / 2);
  return HR_OK;
}

static void rope_table_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 20.0 * (double)hr_desc_count(&view->out[0]), cost);
}

/* One task per pair: its frequency is the costly part and serves every position. */
static void rope_table_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_rope_table_args *args = call->args;
  const int32_t *positions = call->in[0].data;
  int64_t half = args->head_dim / 2, rows = call->out[0].desc.dim[1];
  float *cosines = call->out[0].data, *sines = cosines + rows * half;
  float f = hr__rope_frequency(args, task);
  (void)worker;

  for (int64_t row = 0; row < rows; row++) {
    int64_t position = row % args->length + (positions ? positions[row / args->length] : 0);
    float angle = (float)position * f;
    cosines[row * half + task] = cosf(angle);
    sines[row * half + task] = sinf(angle);
  }
}

static hr_status rope_table_run(const hr_call *call) {
  const hr_rope_table_args *args = call->args;
  hr__pool_run(call->device->pool, call->threads, args->head_dim / 2, rope_table_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- rope: x, table -> y ---- */

static hr_id rope_emit(hr_builder *b, hr_id x, hr_id table, hr_rope_args args) {
  return hr__emit(b, &hr_op_rope, (hr_id[]){x, table}, 2, &args);
}

hr_id hr__rope(hr_builder *b, hr_id x, hr_id table, int64_t head_dim) {
  return hr__rope_heads(b, x, table, head_dim, 0);
}

hr_id hr__rope_heads(hr_builder *b, hr_id x, hr_id table, int64_t head_dim, int64_t heads) {
  return rope_emit(b, x, table, (hr_rope_args){.head_dim = head_dim, .heads = heads});
}

/* Columns that are rotated; those behind them stay. */
static int64_t rope_rotated(const hr_rope_args *args, int64_t columns) {
  return args->heads ? args->heads * args->head_dim : columns;
}

static hr_status rope_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_rope_args *args = view->args;
  const hr_desc *x = &view->in[0];
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  if (x->rank != 3) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x must be [batch, positions, heads * head_dim]");
  if (args->head_dim < 2 || args->head_dim % 2 != 0 || x->dim[2] % args->head_dim != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "head_dim %lld must be even and divide %lld",
                    (long long)args->head_dim, (long long)x->dim[2]);
  if (args->heads < 0 || args->heads > x->dim[2] / args->head_dim)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld of %lld heads cannot be rotated", (long long)args->heads,
                    (long long)(x->dim[2] / args->head_dim));
  bool placed = view->in[1].rank == 3 && view->in[1].dim[1] != x->dim[1];
  hr_desc table = hr__desc3(HR_F32, 2, (placed ? x->dim[0] : 1) * x->dim[1], args->head_dim / 2);
  HR_TRY(hr__shape_like(view, 1, &table, err));
  out[0] = *x;
  return HR_OK;
}

/* A rotation's gradient is the rotation back. The table is a constant. */
static void rope_grad(hr_adjoint *a, const hr_node *node) {
  hr_rope_args args = *(const hr_rope_args *)node->args;
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  args.inverse = !args.inverse;
  hr__grad_add(a, 0, rope_emit(hr__adjoint_builder(a), dy, hr__saved_in(a, 1), args));
}

/* What is not rotated costs nothing in place, where it nearly always is. */
static void rope_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_desc *x = &view->in[0];
  double rotated = (double)rope_rotated(view->args, x->dim[2]) / (double)x->dim[2];
  hr__cost_stream(view, 3.0 * rotated * (double)hr_desc_count(x), cost);
  cost->bytes = 2.0 * rotated * (double)hr_desc_bytes(x) + (double)hr_desc_bytes(&view->in[1]);
}

static int64_t rope_rows_per_task(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

/* Turns one head at element `at` by the angles of one position. */
HR_INLINE void rope_head(const hr_call *call, int64_t at, int64_t half, const float *cosines, const float *sines,
                         float sign) {
  const hr_tensor *x = &call->in[0], *y = &call->out[0];
  float left_block[HR_BLOCK], right_block[HR_BLOCK];
  for (int64_t first = 0; first < half; first += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, half - first), left_at = at + first, right_at = left_at + half;
    const float *left = hr__load(x, left_at, n, left_block);
    const float *right = hr__load(x, right_at, n, right_block);
    float *to_left = hr__target(y, left_at, left_block), *to_right = hr__target(y, right_at, right_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float a = left[i], b = right[i], c = cosines[first + i], s = sign * sines[first + i];
      to_left[i] = a * c - b * s;
      to_right[i] = b * c + a * s;
    }
    hr__store(y, left_at, n, to_left);
    hr__store(y, right_at, n, to_right);
  }
}

HR_CLONES static void rope_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_rope_args *args = call->args;
  const hr_desc *x = &call->in[0].desc;
  int64_t angles_rows = call->in[1].desc.dim[1], columns = x->dim[2], half = args->head_dim / 2;
  int64_t rotated = rope_rotated(args, columns), bytes = (int64_t)hr_dtype_bytes(x->dtype);
  const char *from = call->in[0].data;
  char *to = call->out[0].data;
  const float *cosines = call->in[1].data, *sines = cosines + angles_rows * half;
  float sign = args->inverse ? -1.0f : 1.0f;
  hr_range rows = hr__chunk(hr_desc_rows(x), rope_rows_per_task(columns), task);
  (void)worker;

  for (int64_t row = rows.first; row < rows.end; row++) {
    int64_t angles = row % angles_rows * half;
    for (int64_t column = 0; column < rotated; column += args->head_dim)
      rope_head(call, row * columns + column, half, cosines + angles, sines + angles, sign);
    int64_t rest = (row * columns + rotated) * bytes;
    if (from != to) memcpy(to + rest, from + rest, (size_t)((columns - rotated) * bytes));
  }
}

static hr_status rope_run(const hr_call *call) {
  const hr_desc *x = &call->in[0].desc;
  int64_t tasks = hr__chunks(hr_desc_rows(x), rope_rows_per_task(x->dim[2]));
  hr__pool_run(call->device->pool, call->threads, tasks, rope_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample rope_table_samples[] = {
    {.n_in = 1, .args = &(const hr_rope_table_args){.length = 64, .head_dim = 64, .theta = 10000.0}},
    {.n_in = 1, .args = &(const hr_rope_table_args){.length = 37, .head_dim = 10, .theta = 500000.0}},
    {.n_in = 1,
     .args = &(const hr_rope_table_args){.length = 301,
                                         .head_dim = 64,
                                         .theta = 500000.0,
                                         .factor = 32.0,
                                         .low = 1.0,
                                         .high = 4.0,
                                         .original_length = 8192,
                                         .scaled = true}},
    {.n_in = 1,
     .in = {{HR_I32, 1, {3}}},
     .args = &(const hr_rope_table_args){.length = 5, .head_dim = 32, .theta = 10000.0},
     .index_below = 4000},
};

static const hr_sample rope_samples[] = {
    {.n_in = 2,
     .in = {{HR_F32, 3, {2, 16, 128}}, {HR_F32, 3, {2, 16, 32}}},
     .args = &(const hr_rope_args){.head_dim = 64}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 7, 30}}, {HR_F32, 3, {2, 7, 5}}},
     .args = &(const hr_rope_args){.head_dim = 10, .inverse = true}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {2, 5, 4380}}, {HR_F32, 3, {2, 5, 1095}}},
     .args = &(const hr_rope_args){.head_dim = 2190}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 4, 64}}, {HR_F32, 3, {2, 12, 16}}},
     .args = &(const hr_rope_args){.head_dim = 32}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {2, 9, 192}}, {HR_F32, 3, {2, 9, 16}}},
     .args = &(const hr_rope_args){.head_dim = 32, .heads = 5}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 7, 50}}, {HR_F32, 3, {2, 7, 5}}},
     .args = &(const hr_rope_args){.head_dim = 10, .heads = 2, .inverse = true}},
};

const hr_op hr_op_rope_table = {
    .name = "rope_table",
    .n_in = 1,
    .n_out = 1,
    .optional = 1u << 0,
    .args_bytes = sizeof(hr_rope_table_args),
    .axes = HR_AXES_NONE,
    .typed_by = 1, /* none: the result */
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_F32), [HR_CUDA] = HR_DTYPE_BIT(HR_F32)},
    .shape = rope_table_shape,
    .cost = rope_table_cost,
    .cpu = {.run = rope_table_run},
    .samples = rope_table_samples,
    .n_samples = sizeof rope_table_samples / sizeof *rope_table_samples,
};

const hr_op hr_op_rope = {
    .name = "rope",
    .n_in = 2,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_rope_args),
    .saves = HR_SAVE_IN(1),
    .computes = 1u << 0,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = rope_shape,
    .grad = rope_grad,
    .cost = rope_cost,
    .cpu = {.run = rope_run},
    .samples = rope_samples,
    .n_samples = sizeof rope_samples / sizeof *rope_samples,
};
