/* gather and scatter. Sums of scatter are made row by row: positions are sorted by row first, and each row adds its own
 * in order, in f32, and is written once. */
#include "op/gather.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/copy.h"
#include "op/index_sort.h"
#include "op/pointwise.h"
#include "op/shapes.h"
#include "op/slice.h"
#include "op/stream.h"

enum { INDEX, X, PARTIAL, INVERSES = PARTIAL }; /* operands; the third is gather's or scatter's */
enum { SAME_TYPE = -1 };

hr_id hr__gather_permuted(hr_builder *b, hr_id index, hr_id inverses, hr_id x) {
  if (b->status != HR_OK) return HR_NONE;
  hr_gather_args args = {b->graph->values[index].desc.rank - 1};
  return hr__emit(b, &hr_op_gather, (hr_id[]){index, x, inverses}, 3, &args);
}

hr_id hr__gather(hr_builder *b, hr_id index, hr_id x) {
  return hr__gather_permuted(b, index, HR_NONE, x);
}

hr_id hr__scatter(hr_builder *b, hr_id index, hr_id x, int64_t rows) {
  if (b->status != HR_OK) return HR_NONE;
  hr_scatter_args args = {b->graph->values[index].desc.rank - 1, rows, SAME_TYPE};
  return hr__emit(b, &hr_op_scatter, (hr_id[]){index, x, HR_NONE}, 3, &args);
}

/* ---- shape ---- */

/* The axes that an index shares with operand `in`: those of the batch, and its own where `own`. */
static hr_status index_shape(const hr_op_view *view, int batch_axes, bool own, hr_error *err) {
  const hr_desc *index = &view->in[INDEX], *x = &view->in[X];
  if (index->dtype != HR_I32 || index->rank != batch_axes + 1)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the index must be i32 with %d dimensions", batch_axes + 1);
  if (x->rank < index->rank)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "an index with %d dimensions for an operand with %d", index->rank,
                    x->rank);
  for (int d = 0; d < batch_axes + own; d++)
    if (index->dim[d] != x->dim[d])
      return hr__fail(err, HR_BAD_INPUT, NULL, "sizes of the batch must be equal",
                      "axis %d is %lld long in the index and %lld in the operand", d, (long long)index->dim[d],
                      (long long)x->dim[d]);
  return HR_OK;
}

/* Rows and positions are counted in 32 bits. */
static hr_status sizes_check(const hr_desc *index, const hr_desc *table, hr_error *err) {
  hr_gather_sizes s = hr__gather_sizes(index, table);
  if (s.groups * s.n > INT32_MAX || s.groups * s.rows > INT32_MAX)
    return hr__fail(err, HR_BAD_INPUT, NULL, "use a smaller batch", "more than %d rows", INT32_MAX);
  return HR_OK;
}

static hr_status gather_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_gather_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 3, 1u << INVERSES, err));
  HR_TRY(hr__shape_float(view, X, err));
  HR_TRY(index_shape(view, args->batch_axes, false, err));
  HR_TRY(hr__shape_like(view, INVERSES, &view->in[INDEX], err));
  int64_t rows = view->in[X].dim[args->batch_axes], named = view->in[INDEX].dim[args->batch_axes];
  if (view->in[INVERSES].rank > 0 && named % rows != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld positions are not permutations of %lld rows", (long long)named,
                    (long long)rows);
  out[0] = view->in[X];
  out[0].dim[args->batch_axes] = view->in[INDEX].dim[args->batch_axes];
  return sizes_check(&view->in[INDEX], &view->in[X], err);
}

static hr_status scatter_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_scatter_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 3, 1u << PARTIAL, err));
  HR_TRY(hr__shape_float(view, X, err));
  HR_TRY(index_shape(view, args->batch_axes, true, err));
  if (args->rows < 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld rows", (long long)args->rows);
  if (args->dtype != SAME_TYPE && !(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a result of type %s", hr_dtype_name((hr_dtype)args->dtype));
  out[0] = view->in[X];
  out[0].dim[args->batch_axes] = args->rows;
  if (args->dtype != SAME_TYPE) out[0].dtype = (hr_dtype)args->dtype;
  HR_TRY(sizes_check(&view->in[INDEX], &out[0], err));
  return hr__shape_like(view, PARTIAL, &out[0], err);
}

/* ---- gradients ---- */

/* A value with its axis `axis` as `k` parts of the same size. */
static hr_id parted(hr_builder *b, hr_id value, int axis, int64_t k) {
  if (b->status != HR_OK) return HR_NONE;
  hr_desc desc = b->graph->values[value].desc;
  int64_t size[HR_RANK + 1];
  for (int d = 0; d < desc.rank; d++)
    size[d < axis ? d : d + 1] = desc.dim[d];
  size[axis] = k;
  size[axis + 1] = desc.dim[axis] / k;
  return hr__reshape(b, value, desc.rank + 1, size);
}

/* Of permutations: each one's rows back in their order, and the sum over permutations. */
static void permuted_grad(hr_adjoint *a, int batch_axes, int64_t k, hr_id dy) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id inverses = hr__saved_in(a, INVERSES), dx;
  if (k == 1) {
    dx = hr__gather(b, inverses, dy);
  } else {
    dx = hr__gather(b, parted(b, inverses, batch_axes, k), parted(b, dy, batch_axes, k));
    dx = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, dx, 1u << batch_axes), 1u << batch_axes);
  }
  if (dx != HR_NONE && b->graph->values[dx].desc.dtype != hr__grad_dtype(a, X))
    dx = hr__copy(b, dx, hr__grad_dtype(a, X));
  hr__grad_add(a, X, dx);
}

static void gather_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, X)) return;
  int batch_axes = ((const hr_gather_args *)node->args)->batch_axes;
  if (node->in[INVERSES] != HR_NONE) {
    int64_t rows = b->graph->values[node->in[X]].desc.dim[batch_axes];
    int64_t k = b->graph->values[node->in[INDEX]].desc.dim[batch_axes] / rows;
    permuted_grad(a, batch_axes, k, dy);
    return;
  }
  hr_scatter_args args = {batch_axes, b->graph->values[node->in[X]].desc.dim[batch_axes], (int)hr__grad_dtype(a, X)};
  hr_id in[] = {hr__saved_in(a, INDEX), dy, hr__grad_partial(a, X)};
  hr__grad_set(a, X, hr__emit(b, &hr_op_scatter, in, 3, &args));
}

/* A partial sum is there in backward only. */
static void scatter_grad(hr_adjoint *a, const hr_node *node) {
  hr_id dy = hr__out_grad(a, 0);
  (void)node;
  if (dy == HR_NONE || !hr__wants_grad(a, X)) return;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dx = hr__gather(b, hr__saved_in(a, INDEX), dy);
  if (dx != HR_NONE && b->graph->values[dx].desc.dtype != hr__grad_dtype(a, X))
    dx = hr__copy(b, dx, hr__grad_dtype(a, X));
  hr__grad_add(a, X, dx);
}

/* ---- axes and cost ---- */

/* Along an axis that index and x share; along the index's own, where all read the same rows; or behind the rows. */
static bool gather_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  int own = ((const hr_gather_args *)view->args)->batch_axes;
  const hr_batch *index = &in[INDEX], *x = &in[X];
  if (view->in[INVERSES].rank > 0 && (in[INVERSES].axis != index->axis || in[INVERSES].rows != index->rows))
    return false;
  if (view->in[INVERSES].rank > 0 && index->axis == own) return false; /* a part of a permutation is none */
  bool shared = index->axis >= 0 && index->axis < own && x->axis == index->axis && x->rows == index->rows;
  bool rows = index->axis == own && x->axis < 0, columns = index->axis < 0 && x->axis > own;
  if (shared || rows || columns) out[0] = index->axis >= 0 ? *index : *x;
  return shared || rows || columns;
}

static bool scatter_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  const hr_batch *index = &in[INDEX];
  if (index->axis < 0 || index->axis >= ((const hr_scatter_args *)view->args)->batch_axes) return false;
  for (int i = X; i <= PARTIAL; i++)
    if (view->in[i].rank > 0 && (in[i].axis != index->axis || in[i].rows != index->rows)) return false;
  out[0] = *index;
  return true;
}

/* Only the rows that are named are read. */
static void gather_cost(const hr_op_view *view, hr_cost *cost) {
  double bytes = (double)hr_desc_bytes(&view->in[INDEX]) + 2.0 * (double)hr_desc_bytes(&view->out[0]);
  *cost = (hr_cost){.op_class = HR_CLASS_GATHER, .bytes = bytes};
}

static void scatter_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->in[X]), cost);
  cost->op_class = HR_CLASS_GATHER;
}

/* ---- CPU: gather ---- */

static int64_t rows_per_task(int64_t columns) {
  return 1 + HR_CHUNK / columns;
}

static void gather_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_gather_sizes s = hr__gather_sizes(&call->in[INDEX].desc, &call->in[X].desc);
  const int32_t *index = call->in[INDEX].data;
  size_t row_bytes = (size_t)s.columns * hr_dtype_bytes(call->in[X].desc.dtype);
  hr_range chunk = hr__chunk(s.groups * s.n, rows_per_task(s.columns), task);
  (void)worker;
  for (int64_t i = chunk.first; i < chunk.end; i++) {
    char *to = (char *)call->out[0].data + (size_t)i * row_bytes;
    int64_t row = index[i];
    if (row >= 0 && row < s.rows)
      memcpy(to, (const char *)call->in[X].data + (size_t)(i / s.n * s.rows + row) * row_bytes, row_bytes);
    else
      memset(to, 0, row_bytes);
  }
}

static hr_status gather_run(const hr_call *call) {
  hr_gather_sizes s = hr__gather_sizes(&call->in[INDEX].desc, &call->in[X].desc);
  hr__pool_run(call->device->pool, call->threads, hr__chunks(s.groups * s.n, rows_per_task(s.columns)), gather_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- CPU: scatter ---- */

/* Per group: start [rows + 1], order [n]. */
static size_t group_words(const hr_gather_sizes *s) {
  return (size_t)(s->rows + 1 + s->n);
}

static size_t scatter_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_gather_sizes s = hr__gather_sizes(&view->in[INDEX], &view->out[0]);
  (void)threads;
  return kind == HR_CPU ? (size_t)s.groups * group_words(&s) * sizeof(int32_t) : 0;
}

static void sort_task(void *arg, int64_t group, int worker) {
  const hr_call *call = arg;
  hr_gather_sizes s = hr__gather_sizes(&call->in[INDEX].desc, &call->out[0].desc);
  int32_t *start = (int32_t *)call->workspace + (size_t)group * group_words(&s);
  (void)worker;
  hr__index_sort((const int32_t *)call->in[INDEX].data + group * s.n, s.n, s.rows, start, start + s.rows + 1);
}

/* Row `at` of the result: the rows of x at positions order[0 .. count) from row `first` on, added to the partial
 * sum. */
HR_CLONES static void row_sum(const hr_call *call, int64_t columns, int64_t at, int64_t first, const int32_t *order,
                              int32_t count) {
  const hr_tensor *x = &call->in[X], *partial = &call->in[PARTIAL], *y = &call->out[0];
  float sum_block[HR_BLOCK], x_block[HR_BLOCK];
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column), to = at * columns + column;
    float *sum = hr__target(y, to, sum_block);
    if (partial->data) {
      const float *from = hr__load(partial, to, n, sum_block);
      if (from != sum) memcpy(sum, from, (size_t)n * sizeof *sum);
    } else {
      memset(sum, 0, (size_t)n * sizeof *sum);
    }
    for (int32_t k = 0; k < count; k++) {
      const float *add = hr__load(x, (first + order[k]) * columns + column, n, x_block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        sum[i] += add[i];
    }
    hr__store(y, to, n, sum);
  }
}

static void scatter_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_gather_sizes s = hr__gather_sizes(&call->in[INDEX].desc, &call->out[0].desc);
  bool in_place = call->in[PARTIAL].data == call->out[0].data;
  hr_range chunk = hr__chunk(s.groups * s.rows, rows_per_task(s.columns), task);
  (void)worker;
  for (int64_t at = chunk.first; at < chunk.end; at++) {
    int64_t group = at / s.rows, row = at % s.rows;
    const int32_t *start = (const int32_t *)call->workspace + (size_t)group * group_words(&s);
    int32_t count = start[row + 1] - start[row];
    if (!(count == 0 && in_place)) row_sum(call, s.columns, at, group * s.n, start + s.rows + 1 + start[row], count);
  }
}

static hr_status scatter_run(const hr_call *call) {
  hr_gather_sizes s = hr__gather_sizes(&call->in[INDEX].desc, &call->out[0].desc);
  hr__pool_run(call->device->pool, call->threads, s.groups, sort_task, (void *)(uintptr_t)call);
  hr__pool_run(call->device->pool, call->threads, hr__chunks(s.groups * s.rows, rows_per_task(s.columns)), scatter_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- samples ---- */

/* Rows of each sample, rows of all, single elements, and planes. */
static const hr_sample gather_samples[] = {
    {.n_in = 3,
     .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 3, {3, 7, 24}}},
     .args = &(const hr_gather_args){1},
     .index_below = 7},
    {.n_in = 3,
     .in = {{HR_I32, 1, {70}}, {HR_F32, 2, {19, 1037}}},
     .args = &(const hr_gather_args){0},
     .index_below = 19},
    {.n_in = 3,
     .in = {{HR_I32, 2, {5, 3}}, {HR_F32, 2, {5, 33}}},
     .args = &(const hr_gather_args){1},
     .index_below = 33},
    {.n_in = 3,
     .in = {{HR_I32, 3, {2, 3, 4}}, {HR_F32, 5, {2, 3, 6, 5, 8}}},
     .args = &(const hr_gather_args){2},
     .index_below = 6},
};

/* With rows that are named several times, and rows that are not. */
static const hr_sample scatter_samples[] = {
    {.n_in = 3,
     .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 3, {3, 11, 24}}, {HR_F32, 3, {3, 7, 24}}},
     .args = &(const hr_scatter_args){1, 7, SAME_TYPE},
     .index_below = 7},
    {.n_in = 3,
     .in = {{HR_I32, 1, {21}}, {HR_F32, 2, {21, 1037}}, {HR_F32, 2, {83, 1037}}},
     .args = &(const hr_scatter_args){0, 83, HR_F32},
     .index_below = 83},
    {.n_in = 3,
     .in = {{HR_I32, 2, {5, 3}}, {HR_F32, 2, {5, 3}}},
     .args = &(const hr_scatter_args){1, 33, SAME_TYPE},
     .index_below = 33},
    {.n_in = 3,
     .in = {{HR_I32, 1, {40}}, {HR_F32, 2, {40, 64}}, {HR_BF16, 2, {9, 64}}},
     .args = &(const hr_scatter_args){0, 9, HR_BF16},
     .index_below = 9},
};

const hr_op hr_op_gather = {
    .name = "gather",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << INVERSES,
    .args_bytes = sizeof(hr_gather_args),
    .saves = HR_SAVE_IN(INDEX) | HR_SAVE_IN(INVERSES),
    .computes = 1u << X,
    .batch = gather_batch,
    .typed_by = X,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = gather_shape,
    .grad = gather_grad,
    .cost = gather_cost,
    .cpu = {.run = gather_run},
    .samples = gather_samples,
    .n_samples = sizeof gather_samples / sizeof *gather_samples,
};

const hr_op hr_op_scatter = {
    .name = "scatter",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << PARTIAL,
    .args_bytes = sizeof(hr_scatter_args),
    .saves = HR_SAVE_IN(INDEX),
    .computes = 1u << X,
    .alias = {{PARTIAL, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .batch = scatter_batch,
    .typed_by = X,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = scatter_shape,
    .grad = scatter_grad,
    .cost = scatter_cost,
    .workspace = scatter_workspace,
    .cpu = {.run = scatter_run},
    .samples = scatter_samples,
    .n_samples = sizeof scatter_samples / sizeof *scatter_samples,
};
