/* embedding: y = W[token], and its gradient dW[t] = sum of dy where token = t. */
#include "op/embedding.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/index_sort.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { EMBEDDING_DW_PARTIAL = 2 }; /* operand number */

hr_id hr__embedding(hr_builder *b, hr_id tokens, hr_id weight) {
  return hr__embedding_padded(b, tokens, weight, -1);
}

hr_id hr__embedding_padded(hr_builder *b, hr_id tokens, hr_id weight, int64_t padding) {
  hr_embedding_args args = {padding < 0 ? 0 : padding + 1};
  return hr__emit(b, &hr_op_embedding, (hr_id[]){tokens, weight}, 2, &args);
}

/* Tokens are any i32 tensor that leaves room for one more axis; positions are counted in 32 bits. */
static hr_status tokens_shape(const hr_op_view *view, hr_error *err) {
  const hr_desc *tokens = &view->in[0];
  if (tokens->dtype != HR_I32 || tokens->rank >= HR_RANK)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "tokens must be i32 with at most %d dimensions", HR_RANK - 1);
  if (hr_desc_count(tokens) > INT32_MAX)
    return hr__fail(err, HR_BAD_INPUT, NULL, "use a smaller batch", "more than %d tokens", INT32_MAX);
  return HR_OK;
}

static hr_status embedding_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(tokens_shape(view, err));
  HR_TRY(hr__shape_float(view, 1, err));
  if (view->in[1].rank != 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the table must be [rows, columns]");
  out[0] = view->in[0];
  out[0].dtype = view->in[1].dtype;
  out[0].dim[out[0].rank++] = view->in[1].dim[1];
  return HR_OK;
}

static void embedding_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 1)) return;
  const hr_embedding_args *own = node->args;
  hr_embedding_dw_args args = {b->graph->values[node->in[1]].desc.dim[0], hr__grad_dtype(a, 1), own->padded};
  hr_id in[] = {hr__saved_in(a, 0), dy, hr__grad_partial(a, 1)};
  hr__grad_set(a, 1, hr__emit(b, &hr_op_embedding_dw, in, 3, &args));
}

/* Only the rows that tokens name are read. */
static void embedding_cost(const hr_op_view *view, hr_cost *cost) {
  double bytes = (double)hr_desc_bytes(&view->in[0]) + 2.0 * (double)hr_desc_bytes(&view->out[0]);
  *cost = (hr_cost){.op_class = HR_CLASS_GATHER, .bytes = bytes};
}

static int64_t embedding_rows_per_task(const hr_desc *rows) {
  return 1 + HR_CHUNK / hr_desc_columns(rows);
}

static void embedding_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *weight = &call->in[1], *y = &call->out[0];
  const int32_t *tokens = call->in[0].data;
  int64_t rows = weight->desc.dim[0];
  size_t row_bytes = (size_t)weight->desc.dim[1] * hr_dtype_bytes(weight->desc.dtype);
  hr_range chunk = hr__chunk(hr_desc_rows(&y->desc), embedding_rows_per_task(&y->desc), task);
  (void)worker;

  for (int64_t i = chunk.first; i < chunk.end; i++) {
    char *to = (char *)y->data + (size_t)i * row_bytes;
    int64_t token = tokens[i];
    if (token >= 0 && token < rows) {
      memcpy(to, (const char *)weight->data + (size_t)token * row_bytes, row_bytes);
    } else {
      memset(to, 0, row_bytes);
    }
  }
}

static hr_status embedding_run(const hr_call *call) {
  const hr_desc *y = &call->out[0].desc;
  int64_t tasks = hr__chunks(hr_desc_rows(y), embedding_rows_per_task(y));
  hr__pool_run(call->device->pool, call->threads, tasks, embedding_task, (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- embedding_dw: tokens, dy, partial? -> dW ---- */

static hr_status embedding_dw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_embedding_dw_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 3, 1u << EMBEDDING_DW_PARTIAL, err));
  HR_TRY(tokens_shape(view, err));
  HR_TRY(hr__shape_float(view, 1, err));
  hr_desc dy = view->in[0];
  dy.dtype = view->in[1].dtype;
  dy.dim[dy.rank++] = hr_desc_columns(&view->in[1]);
  HR_TRY(hr__shape_like(view, 1, &dy, err));
  if (args->rows < 1 || args->rows > INT32_MAX)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a table of %lld rows", (long long)args->rows);
  if (!(HR_DTYPE_BIT(args->dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(args->dtype));
  out[0] = hr__desc2(args->dtype, args->rows, dy.dim[dy.rank - 1]);
  return hr__shape_like(view, EMBEDDING_DW_PARTIAL, &out[0], err);
}

static void embedding_dw_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->in[1]), cost);
  cost->op_class = HR_CLASS_GATHER;
}

/* Positions by token: start[t] .. start[t+1] bounds the group of token t in `order`. */
typedef struct token_groups {
  int32_t *start; /* [rows + 1] */
  int32_t *order; /* [tokens], ascending within a group */
} token_groups;

static size_t embedding_dw_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  const hr_embedding_dw_args *args = view->args;
  (void)threads;
  if (kind == HR_CUDA) return hr__embedding_sort_bytes(hr_desc_count(&view->in[0]));
  return (size_t)(args->rows + 1 + hr_desc_count(&view->in[0])) * sizeof(int32_t);
}

static token_groups token_groups_of(const hr_call *call) {
  const hr_embedding_dw_args *args = call->args;
  int32_t *start = call->workspace;
  return (token_groups){start, start + args->rows + 1};
}

static void tokens_sort(const hr_call *call) {
  token_groups groups = token_groups_of(call);
  const int32_t *tokens = call->in[0].data;
  int64_t rows = call->out[0].desc.dim[0], count = hr_desc_count(&call->in[0].desc);
  hr__index_sort(tokens, count, rows, groups.start, groups.order);
}

/* Sums one row's group in f32 and writes it once; that of the padding token counts as empty. */
HR_CLONES static void embedding_dw_row(const hr_call *call, const token_groups *groups, int64_t token) {
  const hr_tensor *dy = &call->in[1], *partial = &call->in[EMBEDDING_DW_PARTIAL], *dw = &call->out[0];
  const hr_embedding_dw_args *args = call->args;
  int64_t columns = dw->desc.dim[1];
  int32_t end = token + 1 == args->padded ? groups->start[token] : groups->start[token + 1];
  float sum_block[HR_BLOCK], dy_block[HR_BLOCK];

  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column), at = token * columns + column;
    float *sum = hr__target(dw, at, sum_block);
    if (partial->data) {
      const float *from = hr__load(partial, at, n, sum_block);
      if (from != sum) memcpy(sum, from, (size_t)n * sizeof *sum);
    } else {
      memset(sum, 0, (size_t)n * sizeof *sum);
    }
    for (int32_t k = groups->start[token]; k < end; k++) {
      const float *add = hr__load(dy, groups->order[k] * columns + column, n, dy_block);
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        sum[i] += add[i];
    }
    hr__store(dw, at, n, sum);
  }
}

static void embedding_dw_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *partial = &call->in[EMBEDDING_DW_PARTIAL], *dw = &call->out[0];
  token_groups groups = token_groups_of(call);
  hr_range chunk = hr__chunk(dw->desc.dim[0], embedding_rows_per_task(&dw->desc), task);
  bool in_place = partial->data == dw->data;
  (void)worker;

  for (int64_t token = chunk.first; token < chunk.end; token++) {
    bool empty = groups.start[token] == groups.start[token + 1];
    if (!(empty && in_place)) embedding_dw_row(call, &groups, token);
  }
}

static hr_status embedding_dw_run(const hr_call *call) {
  const hr_desc *dw = &call->out[0].desc;
  int64_t tasks = hr__chunks(dw->dim[0], embedding_rows_per_task(dw));
  tokens_sort(call);
  hr__pool_run(call->device->pool, call->threads, tasks, embedding_dw_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_embedding_args no_padding = {0};
static const hr_sample embedding_samples[] = {
    {.n_in = 2, .in = {{HR_I32, 2, {2, 32}}, {HR_F32, 2, {64, 48}}}, .args = &no_padding, .index_below = 64},
    {.n_in = 2, .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 2, {7, 13}}}, .args = &no_padding, .index_below = 7},
    {.n_in = 2, .in = {{HR_I32, 1, {70}}, {HR_F32, 2, {19, 1037}}}, .args = &no_padding, .index_below = 19},
};

/* With repeats in every group, and with most rows empty. */
static const hr_sample embedding_dw_samples[] = {
    {.n_in = 3,
     .in = {{HR_I32, 2, {2, 32}}, {HR_F32, 3, {2, 32, 48}}, {HR_F32, 2, {16, 48}}},
     .args = &(const hr_embedding_dw_args){.rows = 16, .dtype = HR_F32},
     .index_below = 16},
    {.n_in = 3,
     .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 3, {3, 11, 13}}, {HR_F32, 2, {7, 13}}},
     .args = &(const hr_embedding_dw_args){.rows = 7, .dtype = HR_F32},
     .index_below = 7},
    {.n_in = 3, /* the first row is that of padding, and the last */
     .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 3, {3, 11, 13}}, {HR_F32, 2, {7, 13}}},
     .args = &(const hr_embedding_dw_args){.rows = 7, .dtype = HR_F32, .padded = 1},
     .index_below = 7},
    {.n_in = 3,
     .in = {{HR_I32, 2, {3, 11}}, {HR_F32, 3, {3, 11, 13}}, {HR_F32, 2, {7, 13}}},
     .args = &(const hr_embedding_dw_args){.rows = 7, .dtype = HR_F32, .padded = 7},
     .index_below = 7},
    {.n_in = 3,
     .in = {{HR_I32, 1, {21}}, {HR_F32, 2, {21, 1037}}, {HR_BF16, 2, {83, 1037}}},
     .args = &(const hr_embedding_dw_args){.rows = 83, .dtype = HR_BF16},
     .index_below = 83},
};

const hr_op hr_op_embedding = {
    .name = "embedding",
    .n_in = 2,
    .n_out = 1,
    .args_bytes = sizeof(hr_embedding_args),
    .saves = HR_SAVE_IN(0),
    .axes = HR_AXES_ROWS,
    .shares = 1u << 1,
    .typed_by = 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = embedding_shape,
    .grad = embedding_grad,
    .cost = embedding_cost,
    .cpu = {.run = embedding_run},
    .samples = embedding_samples,
    .n_samples = sizeof embedding_samples / sizeof *embedding_samples,
};

const hr_op hr_op_embedding_dw = {
    .name = "embedding_dw",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << EMBEDDING_DW_PARTIAL,
    .args_bytes = sizeof(hr_embedding_dw_args),
    .alias = {{EMBEDDING_DW_PARTIAL, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .typed_by = 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = embedding_dw_shape,
    .cost = embedding_dw_cost,
    .workspace = embedding_dw_workspace,
    .cpu = {.run = embedding_dw_run},
    .samples = embedding_dw_samples,
    .n_samples = sizeof embedding_dw_samples / sizeof *embedding_dw_samples,
};
