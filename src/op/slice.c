/* slice and join: rows out of a whole, and parts into one; see op/slice.h. */
#include "op/slice.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { JOIN_PART, JOIN_SUM };

hr_id hr__slice(hr_builder *b, hr_id x, int64_t first, int64_t count) {
  hr_slice_args args = {first, count};
  return hr__emit(b, &hr_op_slice, &x, 1, &args);
}

hr_id hr__join(hr_builder *b, hr_id part, hr_id sum, int64_t first, int64_t rows) {
  hr_join_args args = {first, rows};
  return hr__emit(b, &hr_op_join, (hr_id[]){part, sum}, 2, &args);
}

static hr_status rows_check(int64_t first, int64_t count, int64_t rows, hr_error *err) {
  if (first >= 0 && count >= 1 && count <= rows && first <= rows - count) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld rows from row %lld do not lie in %lld rows", (long long)count,
                  (long long)first, (long long)rows);
}

static hr_status slice_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_slice_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  if (view->in[0].dtype != HR_I32) HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(rows_check(args->first, args->count, view->in[0].dim[0], err));
  out[0] = view->in[0];
  out[0].dim[0] = args->count;
  return HR_OK;
}

static hr_status join_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_join_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 2, 1u << JOIN_SUM, err));
  HR_TRY(hr__shape_float(view, JOIN_PART, err));
  HR_TRY(rows_check(args->first, view->in[JOIN_PART].dim[0], args->rows, err));
  out[0] = view->in[JOIN_PART];
  out[0].dim[0] = args->rows;
  return hr__shape_like(view, JOIN_SUM, &out[0], err);
}

static void slice_grad(hr_adjoint *a, const hr_node *node) {
  const hr_slice_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  int64_t rows = b->graph->values[node->in[0]].desc.dim[0];
  hr__grad_set(a, 0, hr__join(b, dy, hr__grad_partial(a, 0), args->first, rows));
}

static void join_grad(hr_adjoint *a, const hr_node *node) {
  const hr_join_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  int64_t count = b->graph->values[node->in[JOIN_PART]].desc.dim[0];
  if (hr__wants_grad(a, JOIN_PART)) hr__grad_add(a, JOIN_PART, hr__slice(b, dy, args->first, count));
  if (hr__wants_grad(a, JOIN_SUM)) hr__grad_add(a, JOIN_SUM, dy);
}

static void slice_cost(const hr_op_view *view, hr_cost *cost) {
  *cost = (hr_cost){.op_class = HR_CLASS_STREAM, .bytes = 2.0 * (double)hr_desc_bytes(&view->out[0])};
}

/* A sum is nearly always in place: then only the part's rows are touched. */
static void join_cost(const hr_op_view *view, hr_cost *cost) {
  const hr_desc *part = &view->in[JOIN_PART];
  bool adds = view->in[JOIN_SUM].rank != 0;
  double bytes = (double)hr_desc_bytes(part);
  hr__cost_stream(view, adds ? (double)hr_desc_count(part) : 0.0, cost);
  cost->bytes = adds ? 3.0 * bytes : bytes + (double)hr_desc_bytes(&view->out[0]);
}

/* Elements of one row of a tensor. */
static int64_t row_elements(const hr_desc *desc) {
  return hr_desc_count(desc) / desc->dim[0];
}

static void slice_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_slice_args *args = call->args;
  const hr_tensor *x = &call->in[0], *part = &call->out[0];
  int64_t bytes = (int64_t)hr_dtype_bytes(x->desc.dtype), begin = args->first * row_elements(&x->desc);
  hr_range chunk = hr__chunk(hr_desc_count(&part->desc), HR_CHUNK, task);
  (void)worker;
  memcpy((char *)part->data + chunk.first * bytes, (const char *)x->data + (begin + chunk.first) * bytes,
         (size_t)((chunk.end - chunk.first) * bytes));
}

static hr_status slice_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), slice_task);
  return HR_OK;
}

/* Rows outside of the part, elements [first, end): as in the sum, or negative zero. */
static void others_write(const hr_tensor *sum, const hr_tensor *y, int64_t first, int64_t end) {
  if (first >= end || sum->data == y->data) return;
  size_t bytes = hr_dtype_bytes(y->desc.dtype), length = (size_t)(end - first);
  char *to = (char *)y->data + (size_t)first * bytes;
  if (sum->data) {
    memcpy(to, (const char *)sum->data + (size_t)first * bytes, length * bytes);
    return;
  }
  /* the sign is the highest bit of every float type */
  if (bytes == sizeof(uint32_t)) {
    for (size_t i = 0; i < length; i++)
      ((uint32_t *)(void *)to)[i] = UINT32_C(1) << 31;
  } else {
    for (size_t i = 0; i < length; i++)
      ((uint16_t *)(void *)to)[i] = 1u << 15;
  }
}

/* The part's rows, elements [first, end) of y; `begin` is where they start. */
HR_INLINE void part_write(const hr_tensor *part, const hr_tensor *sum, const hr_tensor *y, int64_t begin, int64_t first,
                          int64_t end) {
  float part_block[HR_BLOCK], sum_block[HR_BLOCK];
  size_t bytes = hr_dtype_bytes(y->desc.dtype);
  if (first < end && !sum->data) {
    memcpy((char *)y->data + (size_t)first * bytes, (const char *)part->data + (size_t)(first - begin) * bytes,
           (size_t)(end - first) * bytes);
    return;
  }
  for (int64_t at = first; at < end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, end - at);
    const float *add = hr__load(part, at - begin, n, part_block), *before = hr__load(sum, at, n, sum_block);
    float *to = hr__target(y, at, sum_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = before[i] + add[i];
    hr__store(y, at, n, to);
  }
}

HR_CLONES static void join_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_join_args *args = call->args;
  const hr_tensor *part = &call->in[JOIN_PART], *sum = &call->in[JOIN_SUM], *y = &call->out[0];
  hr_range chunk = hr__chunk(hr_desc_count(&y->desc), HR_CHUNK, task);
  int64_t begin = args->first * row_elements(&y->desc), end = begin + hr_desc_count(&part->desc);
  (void)worker;

  others_write(sum, y, chunk.first, hr__min(chunk.end, begin));
  part_write(part, sum, y, begin, chunk.first > begin ? chunk.first : begin, hr__min(chunk.end, end));
  others_write(sum, y, chunk.first > end ? chunk.first : end, chunk.end);
}

static hr_status join_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), join_task);
  return HR_OK;
}

static const hr_sample slice_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {4, 16, 48}}}, .args = &(const hr_slice_args){1, 2}},
    {.n_in = 1, .in = {{HR_F32, 2, {7, 19}}}, .args = &(const hr_slice_args){0, 3}},
    {.n_in = 1, .in = {{HR_F32, 2, {83, 1031}}}, .args = &(const hr_slice_args){40, 43}},
    {.n_in = 1, .in = {{HR_I32, 2, {5, 11}}}, .args = &(const hr_slice_args){2, 3}, .index_below = 90},
};

/* Alone and into a sum; at the beginning, in the middle and at the end; over several chunks. */
static const hr_sample join_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 48}}}, .args = &(const hr_join_args){1, 4}},
    {.n_in = 2, .in = {{HR_F32, 2, {3, 19}}, {HR_F32, 2, {7, 19}}}, .args = &(const hr_join_args){0, 7}},
    {.n_in = 2, .in = {{HR_F32, 2, {43, 1031}}, {HR_F32, 2, {83, 1031}}}, .args = &(const hr_join_args){40, 83}},
    {.n_in = 2, .in = {{HR_F32, 2, {33, 1031}}}, .args = &(const hr_join_args){17, 83}},
};

const hr_op hr_op_slice = {
    .name = "slice",
    .n_in = 1,
    .n_out = 1,
    .args_bytes = sizeof(hr_slice_args),
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS | HR_DTYPE_BIT(HR_I32), [HR_CUDA] = HR_FLOATS | HR_DTYPE_BIT(HR_I32)},
    .shape = slice_shape,
    .grad = slice_grad,
    .cost = slice_cost,
    .cpu = {.run = slice_run},
    .samples = slice_samples,
    .n_samples = sizeof slice_samples / sizeof *slice_samples,
};

const hr_op hr_op_join = {
    .name = "join",
    .n_in = 2,
    .n_out = 1,
    .optional = 1u << JOIN_SUM,
    .args_bytes = sizeof(hr_join_args),
    .alias = {{JOIN_SUM, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = join_shape,
    .grad = join_grad,
    .cost = join_cost,
    .cpu = {.run = join_run},
    .samples = join_samples,
    .n_samples = sizeof join_samples / sizeof *join_samples,
};
