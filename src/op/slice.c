/* slice, join and reshape: rows out of a whole, parts into one, and the same elements in another shape; see op/slice.h.
 */
#include "op/slice.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { JOIN_PART, JOIN_SUM };

hr_id hr__slice(hr_builder *b, hr_id x, int axis, int64_t first, int64_t count) {
  hr_slice_args args = {first, count, axis};
  return hr__emit(b, &hr_op_slice, &x, 1, &args);
}

hr_id hr__join(hr_builder *b, hr_id part, hr_id sum, int axis, int64_t first, int64_t rows) {
  hr_join_args args = {first, rows, axis};
  return hr__emit(b, &hr_op_join, (hr_id[]){part, sum}, 2, &args);
}

hr_id hr__reshape(hr_builder *b, hr_id x, int rank, const int64_t *size) {
  hr_reshape_args args = {.rank = rank};
  for (int d = 0; d < rank && d < HR_RANK; d++)
    args.size[d] = size[d];
  return hr__emit(b, &hr_op_reshape, &x, 1, &args);
}

/* ---- rules ---- */

static hr_status axis_check(const hr_desc *desc, int axis, hr_error *err) {
  if (axis >= 0 && axis < desc->rank) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operands of rank %d have no axis %d", desc->rank, axis);
}

static hr_status rows_check(int64_t first, int64_t count, int64_t rows, hr_error *err) {
  if (first >= 0 && count >= 1 && count <= rows && first <= rows - count) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld rows from row %lld do not lie in %lld rows", (long long)count,
                  (long long)first, (long long)rows);
}

/* What is only moved may be a batch of numbers or bytes as well. */
static hr_status moved_check(const hr_op_view *view, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 1, 0, err));
  return view->in[0].dtype == HR_I32 || view->in[0].dtype == HR_U8 ? HR_OK : hr__shape_float(view, 0, err);
}

static hr_status slice_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_slice_args *args = view->args;
  HR_TRY(moved_check(view, err));
  out[0] = view->in[0];
  HR_TRY(axis_check(&out[0], args->axis, err));
  HR_TRY(rows_check(args->first, args->count, out[0].dim[args->axis], err));
  out[0].dim[args->axis] = args->count;
  return HR_OK;
}

static hr_status join_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_join_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 2, 1u << JOIN_SUM, err));
  HR_TRY(hr__shape_float(view, JOIN_PART, err));
  out[0] = view->in[JOIN_PART];
  HR_TRY(axis_check(&out[0], args->axis, err));
  HR_TRY(rows_check(args->first, out[0].dim[args->axis], args->rows, err));
  out[0].dim[args->axis] = args->rows;
  return hr__shape_like(view, JOIN_SUM, &out[0], err);
}

static hr_status reshape_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_reshape_args *args = view->args;
  HR_TRY(moved_check(view, err));
  if (args->rank < 1 || args->rank > HR_RANK)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a shape of rank %d", args->rank);
  out[0] = (hr_desc){view->in[0].dtype, args->rank, {0}};
  int64_t left = hr_desc_count(&view->in[0]);
  for (int d = 0; d < args->rank; d++) {
    out[0].dim[d] = args->size[d];
    bool divides = args->size[d] >= 1 && left % args->size[d] == 0;
    left = divides ? left / args->size[d] : 0;
  }
  if (left == 1) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld elements do not fill the shape",
                  (long long)hr_desc_count(&view->in[0]));
}

static void slice_grad(hr_adjoint *a, const hr_node *node) {
  const hr_slice_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  int64_t rows = b->graph->values[node->in[0]].desc.dim[args->axis];
  hr__grad_set(a, 0, hr__join(b, dy, hr__grad_partial(a, 0), args->axis, args->first, rows));
}

static void join_grad(hr_adjoint *a, const hr_node *node) {
  const hr_join_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  int64_t count = b->graph->values[node->in[JOIN_PART]].desc.dim[args->axis];
  if (hr__wants_grad(a, JOIN_PART)) hr__grad_add(a, JOIN_PART, hr__slice(b, dy, args->axis, args->first, count));
  if (hr__wants_grad(a, JOIN_SUM)) hr__grad_add(a, JOIN_SUM, dy);
}

static void reshape_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  const hr_desc x = b->graph->values[node->in[0]].desc;
  hr__grad_add(a, 0, hr__reshape(b, dy, x.rank, x.dim));
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

/* The batch goes through along any other axis. */
static bool slice_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  if (in[0].axis == ((const hr_slice_args *)view->args)->axis) return false;
  out[0] = in[0];
  return true;
}

static bool join_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  const hr_batch *part = &in[JOIN_PART], *sum = &in[JOIN_SUM];
  if (part->axis < 0 || part->axis == ((const hr_join_args *)view->args)->axis) return false;
  out[0] = *part;
  return view->in[JOIN_SUM].rank == 0 || (sum->axis == part->axis && sum->rows == part->rows);
}

/* The axis with as many elements before it as the batch had; a sample's elements fill rows of it. */
static bool reshape_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  const hr_desc *x = &view->in[0], *y = &view->out[0];
  int64_t before = 1, each = in[0].rows, own = 1, inner = hr_desc_count(y);
  for (int d = 0; d < x->rank; d++) {
    if (d < in[0].axis) before *= x->dim[d];
    if (d > in[0].axis) each *= x->dim[d];
  }
  for (int d = 0; d < y->rank; d++) {
    inner /= y->dim[d];
    if (own == before && each % inner == 0 && (y->dim[d] > 1 || d + 1 == y->rank)) {
      out[0] = (hr_batch){d, each / inner};
      return true;
    }
    own *= y->dim[d];
  }
  return false;
}

static void reshape_resize(void *args, int axis, int64_t size) {
  ((hr_reshape_args *)args)->size[axis] = size;
}

/* ---- CPU ---- */

/* A tensor as runs along an axis: one for every index before it, each with all from the axis on. */
static int64_t run_elements(const hr_desc *desc, int axis) {
  int64_t count = 1;
  for (int d = axis; d < desc->rank; d++)
    count *= desc->dim[d];
  return count;
}

static void slice_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_slice_args *args = call->args;
  const hr_tensor *x = &call->in[0], *part = &call->out[0];
  int64_t bytes = (int64_t)hr_dtype_bytes(x->desc.dtype), run = run_elements(&part->desc, args->axis);
  int64_t whole = run_elements(&x->desc, args->axis), begin = args->first * (run / args->count);
  hr_range chunk = hr__chunk(hr_desc_count(&part->desc), HR_CHUNK, task);
  (void)worker;
  for (int64_t at = chunk.first, n; at < chunk.end; at += n) {
    int64_t number = at / run, inside = at % run;
    n = hr__min(run - inside, chunk.end - at);
    memcpy((char *)part->data + at * bytes, (const char *)x->data + (number * whole + begin + inside) * bytes,
           (size_t)(n * bytes));
  }
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

/* The part's rows, elements [first, end) of y; element `begin` of y is the part's element `from`. */
HR_INLINE void part_write(const hr_tensor *part, const hr_tensor *sum, const hr_tensor *y, int64_t begin, int64_t from,
                          int64_t first, int64_t end) {
  float part_block[HR_BLOCK], sum_block[HR_BLOCK];
  size_t bytes = hr_dtype_bytes(y->desc.dtype);
  if (first < end && !sum->data) {
    memcpy((char *)y->data + (size_t)first * bytes, (const char *)part->data + (size_t)(from + first - begin) * bytes,
           (size_t)(end - first) * bytes);
    return;
  }
  for (int64_t at = first; at < end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, end - at);
    const float *add = hr__load(part, from + at - begin, n, part_block), *before = hr__load(sum, at, n, sum_block);
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
  int64_t whole = run_elements(&y->desc, args->axis), run = run_elements(&part->desc, args->axis);
  (void)worker;

  for (int64_t at = chunk.first, end; at < chunk.end; at = end) {
    int64_t number = at / whole, begin = number * whole + args->first * (whole / args->rows), behind = begin + run;
    end = hr__min(chunk.end, (number + 1) * whole);
    others_write(sum, y, at, hr__min(end, begin));
    part_write(part, sum, y, begin, number * run, at > begin ? at : begin, hr__min(end, behind));
    others_write(sum, y, at > behind ? at : behind, end);
  }
}

static hr_status join_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), join_task);
  return HR_OK;
}

static void reshape_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  size_t bytes = hr_dtype_bytes(call->in[0].desc.dtype);
  hr_range chunk = hr__chunk(hr_desc_count(&call->in[0].desc), HR_CHUNK, task);
  (void)worker;
  memcpy((char *)call->out[0].data + (size_t)chunk.first * bytes,
         (const char *)call->in[0].data + (size_t)chunk.first * bytes, (size_t)(chunk.end - chunk.first) * bytes);
}

static hr_status reshape_run(const hr_call *call) {
  if (call->in[0].data != call->out[0].data) hr__run_chunks(call, hr_desc_count(&call->in[0].desc), reshape_task);
  return HR_OK;
}

#define MOVED (HR_FLOATS | HR_DTYPE_BIT(HR_I32) | HR_DTYPE_BIT(HR_U8))

static const hr_sample slice_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {4, 16, 48}}}, .args = &(const hr_slice_args){1, 2, 0}},
    {.n_in = 1, .in = {{HR_F32, 2, {7, 19}}}, .args = &(const hr_slice_args){0, 3, 0}},
    {.n_in = 1, .in = {{HR_F32, 2, {83, 1031}}}, .args = &(const hr_slice_args){40, 43, 0}},
    {.n_in = 1, .in = {{HR_I32, 2, {5, 11}}}, .args = &(const hr_slice_args){2, 3, 0}, .index_below = 90},
    {.n_in = 1, .in = {{HR_F32, 3, {5, 9, 16}}}, .args = &(const hr_slice_args){4, 3, 1}},
    {.n_in = 1, .in = {{HR_F32, 2, {211, 517}}}, .args = &(const hr_slice_args){100, 201, 1}},
};

/* Alone and into a sum; at the beginning, in the middle and at the end; over several chunks. */
static const hr_sample join_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {2, 16, 48}}}, .args = &(const hr_join_args){1, 4, 0}},
    {.n_in = 2, .in = {{HR_F32, 2, {3, 19}}, {HR_F32, 2, {7, 19}}}, .args = &(const hr_join_args){0, 7, 0}},
    {.n_in = 2, .in = {{HR_F32, 2, {43, 1031}}, {HR_F32, 2, {83, 1031}}}, .args = &(const hr_join_args){40, 83, 0}},
    {.n_in = 2, .in = {{HR_F32, 2, {33, 1031}}}, .args = &(const hr_join_args){17, 83, 0}},
    {.n_in = 2, .in = {{HR_F32, 3, {5, 3, 16}}, {HR_F32, 3, {5, 9, 16}}}, .args = &(const hr_join_args){4, 9, 1}},
    {.n_in = 2, .in = {{HR_F32, 2, {211, 201}}}, .args = &(const hr_join_args){100, 517, 1}},
};

static const hr_sample reshape_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {4, 6, 48}}}, .args = &(const hr_reshape_args){2, {24, 48}}},
    {.n_in = 1, .in = {{HR_F32, 2, {12, 35}}}, .args = &(const hr_reshape_args){4, {4, 3, 7, 5}}},
    {.n_in = 1, .in = {{HR_F32, 2, {83, 1031}}}, .args = &(const hr_reshape_args){1, {83 * 1031}}},
    {.n_in = 1, .in = {{HR_I32, 3, {5, 2, 11}}}, .args = &(const hr_reshape_args){2, {10, 11}}, .index_below = 90},
};

const hr_op hr_op_slice = {
    .name = "slice",
    .n_in = 1,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_slice_args),
    .batch = slice_batch,
    .dtypes = {[HR_CPU] = MOVED, [HR_CUDA] = MOVED},
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
    .batch = join_batch,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = join_shape,
    .grad = join_grad,
    .cost = join_cost,
    .cpu = {.run = join_run},
    .samples = join_samples,
    .n_samples = sizeof join_samples / sizeof *join_samples,
};

const hr_op hr_op_reshape = {
    .name = "reshape",
    .n_in = 1,
    .n_out = 1,
    .light = true,
    .args_bytes = sizeof(hr_reshape_args),
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .batch = reshape_batch,
    .resize = reshape_resize,
    .dtypes = {[HR_CPU] = MOVED, [HR_CUDA] = MOVED},
    .shape = reshape_shape,
    .grad = reshape_grad,
    .cost = slice_cost,
    .cpu = {.run = reshape_run},
    .samples = reshape_samples,
    .n_samples = sizeof reshape_samples / sizeof *reshape_samples,
};
