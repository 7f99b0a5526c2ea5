/* head_loss: projection to the vocabulary and cross-entropy, chunk by chunk of rows; see op/head_loss.h.
 *
 * The backward op computes the loss as well (its rule puts it in place of the forward op's). Per chunk of C rows:
 *
 *   logits  [C, V] = x Wt (+ bias)                f32, in the workspace
 *   dlogits [C, V] = (softmax - onehot) * scale   in place; scale = dloss * loss_weight; 0 for ignored rows
 *   dx      [C, H] = dlogits W
 *   dW      [V, H] += dlogitst x                  in its own type: 16-bit is rounded once per chunk
 *   db      [V]    += sum of dlogits over rows    the same
 *
 * Every chunk passes over the whole of W and dW, so chunks must be large enough for arithmetic to outweigh that
 * traffic: see op/head_loss_chunks.c.
 */
#include "op/head_loss.h"

#include "graph/adjoint.h"
#include "op/head_loss_cuda.h"
#include "op/head_loss_parts.h"
#include "op/product.h"
#include "op/shapes.h"
#include "op/stream.h"

enum {
  BWD_OPTIONAL = 1u << HR_HEAD_BWD_DX_PARTIAL | 1u << HR_HEAD_BWD_DW_PARTIAL | 1u << HR_HEAD_BWD_BIAS |
                 1u << HR_HEAD_BWD_DB_PARTIAL
};

hr_id hr__head_loss(hr_builder *b, hr_id x, hr_id weight, hr_id targets) {
  return hr__head_loss_biased(b, x, weight, HR_NONE, targets);
}

hr_id hr__head_loss_biased(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id targets) {
  hr_head_loss_args args = {0};
  hr_id in[HR_HEAD_OPERANDS] = {x, weight, targets, hr__control(b), bias};
  return hr__emit(b, &hr_op_head_loss, in, HR_HEAD_OPERANDS, &args);
}

/* What both ops check alike. */
static hr_status head_check(const hr_op_view *view, int bias_in, int64_t chunk_rows, hr_error *err) {
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 1, err));
  const hr_desc *x = &view->in[0], *w = &view->in[1], *control = &view->in[3];
  if (x->rank < 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x has rank %d, expected at least 2", x->rank);
  if (w->rank != 2 || w->dtype != x->dtype || w->dim[1] != hr_desc_columns(x))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "the weight does not go with rows of %s [%lld]",
                    hr_dtype_name(x->dtype), (long long)hr_desc_columns(x));
  if (w->dim[0] > INT32_MAX)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a vocabulary of %lld does not fit i32", (long long)w->dim[0]);
  hr_desc targets = *x;
  targets.dtype = HR_I32;
  targets.rank--;
  HR_TRY(hr__shape_like(view, 2, &targets, err));
  if (control->dtype != HR_U8 || hr_desc_bytes(control) != sizeof(hr_control))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand 3 is not a control block");
  if (chunk_rows < 0) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "chunk_rows is negative");
  hr_desc bias = hr__desc1(HR_F32, w->dim[0]);
  return hr__shape_like_float(view, bias_in, &bias, err);
}

static hr_status head_loss_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_head_loss_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_HEAD_OPERANDS, 1u << HR_HEAD_BIAS, err));
  HR_TRY(head_check(view, HR_HEAD_BIAS, args->chunk_rows, err));
  out[0] = hr__desc1(HR_F32, 1);
  return HR_OK;
}

static hr_status head_loss_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_head_loss_bwd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_HEAD_BWD_OPERANDS, BWD_OPTIONAL, err));
  HR_TRY(head_check(view, HR_HEAD_BWD_BIAS, args->chunk_rows, err));
  hr_desc scalar = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_like(view, HR_HEAD_BWD_DLOSS, &scalar, err));
  out[0] = scalar;
  out[1] = args->want_dx ? view->in[0] : hr__desc1(view->in[0].dtype, 0);
  if (!(HR_DTYPE_BIT(args->dw_dtype) & HR_FLOATS) || !(HR_DTYPE_BIT(args->db_dtype) & HR_FLOATS))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "gradients of types %s and %s", hr_dtype_name(args->dw_dtype),
                    hr_dtype_name(args->db_dtype));
  out[2] = args->want_dw ? view->in[1] : hr__desc1(HR_F32, 0);
  out[2].dtype = args->dw_dtype;
  out[3] = hr__desc1(args->db_dtype, args->want_db ? view->in[1].dim[0] : 0);
  HR_TRY(hr__shape_like(view, HR_HEAD_BWD_DX_PARTIAL, &out[1], err));
  HR_TRY(hr__shape_like(view, HR_HEAD_BWD_DW_PARTIAL, &out[2], err));
  return hr__shape_like(view, HR_HEAD_BWD_DB_PARTIAL, &out[3], err);
}

static void head_loss_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dloss = hr__out_grad(a, 0);
  hr_head_loss_bwd_args args = {.chunk_rows = ((const hr_head_loss_args *)node->args)->chunk_rows,
                                .want_dx = hr__wants_grad(a, 0),
                                .want_dw = hr__wants_grad(a, 1),
                                .dw_dtype = hr__grad_dtype(a, 1),
                                .want_db = hr__wants_grad(a, HR_HEAD_BIAS),
                                .db_dtype = HR_F32};
  if (dloss == HR_NONE || !(args.want_dx || args.want_dw || args.want_db)) return;
  if (args.want_db) args.db_dtype = hr__grad_dtype(a, HR_HEAD_BIAS);
  hr_id in[HR_HEAD_BWD_OPERANDS] = {hr__saved_in(a, 0),
                                    hr__saved_in(a, 1),
                                    hr__saved_in(a, 2),
                                    hr__saved_in(a, 3),
                                    dloss,
                                    hr__grad_partial(a, 0),
                                    hr__grad_partial(a, 1),
                                    hr__saved_in(a, HR_HEAD_BIAS),
                                    hr__grad_partial(a, HR_HEAD_BIAS)};
  hr_id loss = hr__emit(b, &hr_op_head_loss_bwd, in, HR_HEAD_BWD_OPERANDS, &args);
  if (args.want_dx) hr__grad_set(a, 0, hr__node_out(b, loss, 1));
  if (args.want_dw) hr__grad_set(a, 1, hr__node_out(b, loss, 2));
  if (args.want_db) hr__grad_set(a, HR_HEAD_BIAS, hr__node_out(b, loss, 3));
  hr__replace_out(a, 0, loss);
}

static hr_head view_head(const hr_op_view *view) {
  return hr__head_of(&view->in[0], &view->in[1], ((const hr_head_loss_args *)view->args)->chunk_rows);
}

static hr_head view_head_bwd(const hr_op_view *view) {
  return hr__head_bwd_of(&view->in[0], &view->in[1], view->args, view->in[HR_HEAD_BWD_DX_PARTIAL].rank != 0,
                         view->in[HR_HEAD_BWD_DW_PARTIAL].rank != 0);
}

static void cost_add(hr_cost *cost, const hr_head *h, hr_gemm_spec spec) {
  hr_product product = hr__product_of(&spec);
  product.times = h->chunks;
  cost->products[cost->n_products++] = product;
  cost->flops += 2.0 * (double)h->rows * (double)h->width * (double)h->vocabulary;
}

static void head_cost(const hr_head *h, hr_cost *cost) {
  double logits = (double)h->rows * (double)h->vocabulary;
  *cost = (hr_cost){.op_class = HR_CLASS_PRODUCT, .flops = 12.0 * logits, .bytes = 8.0 * logits};
  cost_add(cost, h, hr__head_logits(h, h->chunk_rows));
  if (h->want_dx) cost_add(cost, h, hr__head_dx(h, h->chunk_rows));
  if (h->want_dw) cost_add(cost, h, hr__head_dw(h, h->chunk_rows, h->add_dw || h->chunks > 1));
}

/* CUDA cuts rows in its own way: see op/head_loss_cuda.h. */
static void head_cost_on(hr_head *h, int64_t wanted, hr_device_kind kind, hr_cost *cost) {
  if (kind == HR_CUDA) {
    h->chunk_rows =
        hr__head_cuda_chunk(h->rows, hr__head_cuda_up(h->vocabulary, HR_HEAD_CUDA_LINE), h->want_dw, wanted);
    h->chunks = hr__chunks(h->rows, h->chunk_rows);
  }
  head_cost(h, cost);
}

static void head_loss_cost(const hr_op_view *view, hr_cost *cost) {
  hr_head h = view_head(view);
  head_cost_on(&h, ((const hr_head_loss_args *)view->args)->chunk_rows, view->kind, cost);
}

static void head_loss_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  hr_head h = view_head_bwd(view);
  head_cost_on(&h, ((const hr_head_loss_bwd_args *)view->args)->chunk_rows, view->kind, cost);
}

static size_t cuda_bytes(const hr_head *h, int64_t wanted) {
  return hr__head_cuda_of(h->rows, h->width, h->vocabulary, wanted, h->dtype, h->want_dx, h->want_dw, h->dw_dtype)
      .bytes;
}

static size_t head_loss_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_head h = view_head(view);
  return kind == HR_CPU ? hr__head_layout_of(&h, threads).bytes
                        : cuda_bytes(&h, ((const hr_head_loss_args *)view->args)->chunk_rows);
}

static size_t head_loss_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_head h = view_head_bwd(view);
  return kind == HR_CPU ? hr__head_layout_of(&h, threads).bytes
                        : cuda_bytes(&h, ((const hr_head_loss_bwd_args *)view->args)->chunk_rows);
}

/* As op/head_loss_kernel.c makes them: the single chunk of a short call is the last one. */
static void head_products(const hr_head *h, int threads, hr_gemm_set *set) {
  for (int last = h->chunks > 1 ? 0 : 1; last < 2; last++) {
    int64_t rows = last ? h->last_rows : h->chunk_rows;
    hr_gemm_spec logits = hr__head_logits(h, rows), dx = hr__head_dx(h, rows);
    hr_gemm_spec dw = hr__head_dw(h, rows, h->add_dw || h->chunks > 1);
    hr__gemm_set_add(set, &logits, threads);
    if (h->want_dx) hr__gemm_set_add(set, &dx, threads);
    if (h->want_dw) hr__gemm_set_add(set, &dw, threads);
  }
  hr_gemm_spec first = hr__head_dw(h, h->chunk_rows, h->add_dw);
  if (h->want_dw && h->chunks > 1) hr__gemm_set_add(set, &first, threads);
}

static void head_loss_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_head h = view_head(view);
  head_products(&h, threads, set);
}

static void head_loss_bwd_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_head h = view_head_bwd(view);
  head_products(&h, threads, set);
}

#define SAMPLE(operands, rows, width, vocabulary, arguments, ...)                                                      \
  {                                                                                                                    \
    .n_in = operands,                                                                                                  \
    .in = {{HR_F32, 2, {rows, width}},                                                                                 \
           {HR_F32, 2, {vocabulary, width}},                                                                           \
           {HR_I32, 1, {rows}},                                                                                        \
           {HR_U8, 1, {sizeof(hr_control)}},                                                                           \
           __VA_ARGS__},                                                                                               \
    .args = arguments, .index_below = vocabulary                                                                       \
  }

static const hr_head_loss_args one_chunk = {0}, eights = {8};
static const hr_head_loss_bwd_args both = {.want_dx = true, .want_dw = true},
                                   narrow = {8, true, true, HR_BF16, false, HR_F32},
                                   frozen = {.chunk_rows = 8, .want_dx = true},
                                   threes = {.chunk_rows = 3, .want_dx = true, .want_dw = true},
                                   narrow_bias = {8, true, true, HR_F32, true, HR_BF16},
                                   only_bias = {.chunk_rows = 3, .want_dx = true, .want_db = true};

static const hr_sample head_loss_samples[] = {
    {.n_in = HR_HEAD_OPERANDS,
     .in = {{HR_F32, 3, {2, 9, 16}}, {HR_F32, 2, {37, 16}}, {HR_I32, 2, {2, 9}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &one_chunk,
     .index_below = 37},
    SAMPLE(HR_HEAD_OPERANDS, 21, 24, 70, &eights, {0}),
    SAMPLE(HR_HEAD_OPERANDS, 21, 24, 70, &eights, {HR_F32, 1, {70}}),
};
static const hr_sample head_loss_bwd_samples[] = {
    {.n_in = HR_HEAD_BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 9, 16}},
            {HR_F32, 2, {37, 16}},
            {HR_I32, 2, {2, 9}},
            {HR_U8, 1, {sizeof(hr_control)}},
            {HR_F32, 1, {1}}},
     .args = &both,
     .index_below = 37},
    SAMPLE(HR_HEAD_BWD_OPERANDS, 21, 24, 70, &narrow, {HR_F32, 1, {1}}, {HR_F32, 2, {21, 24}}, {HR_BF16, 2, {70, 24}}),
    SAMPLE(HR_HEAD_BWD_OPERANDS, 21, 24, 70, &frozen, {HR_F32, 1, {1}}),
    SAMPLE(HR_HEAD_BWD_OPERANDS, 5, 8, 5003, &threes, {HR_F32, 1, {1}}),
    SAMPLE(HR_HEAD_BWD_OPERANDS, 21, 24, 70, &narrow_bias, {HR_F32, 1, {1}}, {0}, {0}, {HR_F32, 1, {70}},
           {HR_BF16, 1, {70}}),
    SAMPLE(HR_HEAD_BWD_OPERANDS, 5, 8, 1301, &only_bias, {HR_F32, 1, {1}}, {0}, {0}, {HR_F32, 1, {1301}}),
};

const hr_op hr_op_head_loss = {
    .name = "head_loss",
    .n_in = HR_HEAD_OPERANDS,
    .n_out = 1,
    .optional = 1u << HR_HEAD_BIAS,
    .args_bytes = sizeof(hr_head_loss_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1) | HR_SAVE_IN(2) | HR_SAVE_IN(3) | HR_SAVE_IN(HR_HEAD_BIAS),
    .computes = 1u << 0 | 1u << 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = head_loss_shape,
    .grad = head_loss_grad,
    .cost = head_loss_cost,
    .workspace = head_loss_workspace,
    .products = head_loss_products,
    .cpu = {.prepare = hr__head_loss_prepare, .release = hr__head_release, .run = hr__head_loss_run},
    .samples = head_loss_samples,
    .n_samples = sizeof head_loss_samples / sizeof *head_loss_samples,
};

const hr_op hr_op_head_loss_bwd = {
    .name = "head_loss_bwd",
    .n_in = HR_HEAD_BWD_OPERANDS,
    .n_out = 4,
    .optional = BWD_OPTIONAL,
    .args_bytes = sizeof(hr_head_loss_bwd_args),
    .alias = {{HR_HEAD_BWD_DX_PARTIAL, 1, HR_ALIAS_ACCUMULATE},
              {HR_HEAD_BWD_DW_PARTIAL, 2, HR_ALIAS_ACCUMULATE},
              {HR_HEAD_BWD_DB_PARTIAL, 3, HR_ALIAS_ACCUMULATE}},
    .n_alias = 3,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = head_loss_bwd_shape,
    .cost = head_loss_bwd_cost,
    .workspace = head_loss_bwd_workspace,
    .products = head_loss_bwd_products,
    .cpu = {.prepare = hr__head_loss_bwd_prepare, .release = hr__head_release, .run = hr__head_loss_bwd_run},
    .samples = head_loss_bwd_samples,
    .n_samples = sizeof head_loss_bwd_samples / sizeof *head_loss_bwd_samples,
};
