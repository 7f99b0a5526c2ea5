/* conv: its rules and its backward ops'; op/conv_kernel.c and op/conv_weights.c have the CPU's kernels, op/conv.cu has
 * CUDA's.
 *
 * x [N, C, size...] with one, two or three axes behind the channels; the kernel of W is turned nowhere (what others
 * call a cross-correlation). Every op but conv_db is a product over rows, which are places of the result in all samples
 * (of dW: windows), with rows unfolded a block at a time.
 */
#include "op/conv.h"

#include <string.h>

#include "graph/adjoint.h"
#include "op/conv_cuda.h"
#include "op/conv_parts.h"
#include "op/pointwise.h"
#include "op/shapes.h"
#include "op/slice.h"

enum {
  ARG_MOST = 1 << 20, /* of strides, padding and dilation: sums and products of them stay far from overflow */
  STRIDES_MOST = 4096 /* walks of conv_dx: each is a product of its own */
};

hr_id hr__conv(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const hr_conv_args *args) {
  return hr__conv_add(b, x, weight, bias, HR_NONE, args);
}

hr_id hr__conv_add(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id add, const hr_conv_args *args) {
  return hr__emit(b, &hr_op_conv, (hr_id[]){x, weight, bias, add}, 4, args);
}

hr_id hr__conv_transpose(hr_builder *b, hr_id x, hr_id weight, hr_id bias, const int64_t more[HR_CONV_AXES],
                         const hr_conv_args *args) {
  hr_conv_dx_args dx = {.conv = *args};
  if (b->status != HR_OK) return HR_NONE;
  const hr_desc from = b->graph->values[x].desc, w = b->graph->values[weight].desc;
  for (int d = 0; d < from.rank - 2 && d < HR_CONV_AXES; d++)
    dx.size[d] = (from.dim[2 + d] - 1) * args->stride[d] - 2 * args->padding[d] +
                 args->dilation[d] * (w.dim[2 + d] - 1) + 1 + more[d];
  hr_id y = hr__emit(b, &hr_op_conv_dx, (hr_id[]){x, weight, HR_NONE}, 3, &dx);
  if (bias == HR_NONE || b->status != HR_OK) return y;
  int64_t shape[HR_RANK] = {1, b->graph->values[bias].desc.dim[0], 1, 1, 1};
  return hr__binary(b, HR_FORMULA_add, y, hr__reshape(b, bias, from.rank, shape));
}

/* ---- shapes ---- */

static hr_status args_check(const hr_conv_args *args, int axes, hr_error *err) {
  int64_t strides = 1;
  for (int d = 0; d < axes; d++) {
    int64_t stride = args->stride[d], padding = args->padding[d], dilation = args->dilation[d];
    if (stride < 1 || stride > ARG_MOST || padding < 0 || padding > ARG_MOST || dilation < 1 || dilation > ARG_MOST)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                      "a convolution with stride %lld, padding %lld and dilation %lld along axis %d: padding is 0 to "
                      "%d, the others 1 to %d",
                      (long long)stride, (long long)padding, (long long)dilation, d, ARG_MOST, ARG_MOST);
    strides *= stride;
  }
  if (strides <= STRIDES_MOST) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                  "the strides of a convolution multiply to %lld, at most %d are supported", (long long)strides,
                  STRIDES_MOST);
}

static hr_status channels_check(const hr_desc *x, const hr_desc *w, int64_t groups, hr_error *err) {
  if (groups < 1 || x->dim[1] % groups != 0 || w->dim[0] % groups != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%lld channels cannot go to %lld in %lld groups",
                    (long long)x->dim[1], (long long)w->dim[0], (long long)groups);
  if (w->dim[1] != x->dim[1] / groups)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "the weight takes %lld channels, expected %lld (%lld in %lld groups)", (long long)w->dim[1],
                    (long long)(x->dim[1] / groups), (long long)x->dim[1], (long long)groups);
  return HR_OK;
}

/* What x and W give; of one type, sizes of at least 1. */
static hr_status result_of(const hr_desc *x, const hr_desc *w, const hr_conv_args *args, hr_desc *y, hr_error *err) {
  int axes = x->rank - 2;
  if (axes < 1 || axes > HR_CONV_AXES || w->rank != x->rank)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x of rank %d and a weight of rank %d, expected the same, 3 to %d",
                    x->rank, w->rank, 2 + HR_CONV_AXES);
  HR_TRY(args_check(args, axes, err));
  HR_TRY(channels_check(x, w, args->groups, err));
  *y = *x;
  y->dim[1] = w->dim[0];
  for (int d = 0; d < axes; d++) {
    int64_t size = x->dim[2 + d], kernel = w->dim[2 + d], padded = size + 2 * args->padding[d];
    if (kernel < 1 || size < 1 || kernel > padded || args->dilation[d] * (kernel - 1) >= padded)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                      "a kernel of %lld with dilation %lld does not fit into %lld with padding %lld (axis %d)",
                      (long long)kernel, (long long)args->dilation[d], (long long)size, (long long)args->padding[d], d);
    y->dim[2 + d] = (padded - args->dilation[d] * (kernel - 1) - 1) / args->stride[d] + 1;
  }
  return HR_OK;
}

static hr_status same_type(const hr_op_view *view, hr_error *err) {
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_float(view, 1, err));
  if (view->in[0].dtype == view->in[1].dtype) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operands of %s and %s, expected the same type",
                  hr_dtype_name(view->in[0].dtype), hr_dtype_name(view->in[1].dtype));
}

static hr_status conv_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, 4, 1u << 2 | 1u << 3, err));
  HR_TRY(same_type(view, err));
  HR_TRY(result_of(&view->in[0], &view->in[1], view->args, &out[0], err));
  hr_desc bias = {out[0].dtype, 1, {out[0].dim[1]}};
  HR_TRY(hr__shape_like(view, 2, &bias, err));
  return hr__shape_like(view, 3, &out[0], err);
}

/* `like` as x or W of the convolution that this is a gradient of: that many channels, and sizes from the arguments. */
static hr_status with_sizes(hr_desc like, int64_t first, int64_t second, const int64_t *sizes, hr_desc *out,
                            hr_error *err) {
  if (like.rank < 3 || like.rank > 2 + HR_CONV_AXES)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "dy has rank %d, expected 3 to %d", like.rank, 2 + HR_CONV_AXES);
  *out = like;
  out->dim[0] = first;
  out->dim[1] = second;
  for (int d = 2; d < like.rank; d++)
    out->dim[d] = sizes[d - 2];
  return HR_OK;
}

static hr_status conv_dx_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_conv_dx_args *args = view->args;
  const hr_desc *dy = &view->in[0], *w = &view->in[1];
  hr_desc y;
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(same_type(view, err));
  if (w->rank != dy->rank || args->conv.groups < 1 || args->conv.groups > w->dim[0])
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "dy of rank %d and a weight of rank %d in %lld groups", dy->rank,
                    w->rank, (long long)args->conv.groups);
  HR_TRY(with_sizes(*dy, dy->dim[0], w->dim[1] * args->conv.groups, args->size, &out[0], err));
  HR_TRY(result_of(&out[0], w, &args->conv, &y, err));
  HR_TRY(hr__shape_like(view, 0, &y, err));
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status gradient_dtype(hr_dtype dtype, hr_error *err) {
  if (HR_DTYPE_BIT(dtype) & HR_FLOATS) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a gradient of type %s", hr_dtype_name(dtype));
}

static hr_status conv_dw_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_conv_dw_args *args = view->args;
  const hr_desc *dy = &view->in[0], *x = &view->in[1];
  hr_desc y;
  HR_TRY(hr__shape_operands(view, 3, 1u << 2, err));
  HR_TRY(same_type(view, err));
  HR_TRY(gradient_dtype(args->dtype, err));
  if (x->rank != dy->rank || args->conv.groups < 1)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "dy of rank %d and x of rank %d in %lld groups", dy->rank, x->rank,
                    (long long)args->conv.groups);
  HR_TRY(with_sizes(*dy, dy->dim[1], x->dim[1] / args->conv.groups, args->kernel, &out[0], err));
  HR_TRY(result_of(x, &out[0], &args->conv, &y, err));
  HR_TRY(hr__shape_like(view, 0, &y, err));
  out[0].dtype = args->dtype;
  return hr__shape_like(view, 2, &out[0], err);
}

static hr_status conv_db_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_conv_db_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 2, 1u << 1, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(gradient_dtype(args->dtype, err));
  if (view->in[0].rank < 3 || view->in[0].rank > 2 + HR_CONV_AXES)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "dy has rank %d, expected 3 to %d", view->in[0].rank,
                    2 + HR_CONV_AXES);
  out[0] = (hr_desc){args->dtype, 1, {view->in[0].dim[1]}};
  return hr__shape_like(view, 1, &out[0], err);
}

/* ---- gradient ---- */

/* The gradient of W, operand 1. Plans compare arguments by their bytes (plan/peak.c): those between members are 0. */
static void weight_grad(hr_adjoint *a, const hr_node *node, const hr_conv_args *conv, hr_id dy, hr_id x) {
  hr_builder *b = hr__adjoint_builder(a);
  const hr_desc w = b->graph->values[node->in[1]].desc;
  hr_conv_dw_args dw;
  memset(&dw, 0, sizeof dw);
  dw.conv = *conv;
  dw.dtype = hr__grad_dtype(a, 1);
  for (int d = 2; d < w.rank; d++)
    dw.kernel[d - 2] = w.dim[d];
  hr_id in[] = {dy, x, hr__grad_partial(a, 1)};
  hr__grad_set(a, 1, hr__emit(b, &hr_op_conv_dw, in, 3, &dw));
}

static void conv_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  const hr_conv_args *args = node->args;
  const hr_desc x = b->graph->values[node->in[0]].desc;
  /* x is read once more, by dW: after that dx may lie where it was. */
  if (hr__wants_grad(a, 1)) weight_grad(a, node, args, dy, hr__saved_in(a, 0));
  if (node->in[2] != HR_NONE && hr__wants_grad(a, 2)) {
    hr_id in[] = {dy, hr__grad_partial(a, 2)};
    hr__grad_set(a, 2, hr__emit(b, &hr_op_conv_db, in, 2, &(hr_conv_db_args){hr__grad_dtype(a, 2)}));
  }
  if (hr__wants_grad(a, 0)) {
    hr_conv_dx_args dx = {.conv = *args};
    for (int d = 2; d < x.rank; d++)
      dx.size[d - 2] = x.dim[d];
    hr_id in[] = {dy, hr__saved_in(a, 1), hr__grad_partial(a, 0)};
    hr__grad_set(a, 0, hr__emit(b, &hr_op_conv_dx, in, 3, &dx));
  }
  if (node->in[3] != HR_NONE && hr__wants_grad(a, 3)) hr__grad_add(a, 3, dy);
}

/* conv_dx is linear in dy and in W as conv is: its gradients are conv's ops with x and y exchanged. */
static void conv_dx_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  hr_id g = hr__out_grad(a, 0);
  if (g == HR_NONE) return;
  const hr_conv_args *args = &((const hr_conv_dx_args *)node->args)->conv;
  if (hr__wants_grad(a, 1)) weight_grad(a, node, args, hr__saved_in(a, 0), g);
  if (hr__wants_grad(a, 0))
    hr__grad_set(a, 0, hr__conv_add(b, g, hr__saved_in(a, 1), HR_NONE, hr__grad_partial(a, 0), args));
  if (node->in[2] != HR_NONE && hr__wants_grad(a, 2)) hr__grad_add(a, 2, g);
}

/* ---- rows of windows ---- */

/* Elements of x that a window spans along an axis. */
static int64_t window_span(const hr_conv_args *args, const hr_desc *w, int axis) {
  return args->dilation[axis - 2] * (w->dim[axis] - 1) + 1;
}

/* Padding becomes rows beside x, which are read as 0. */
static bool conv_cut(const hr_op_view *view, int axis, hr_rows rows, hr_rows *in, hr_rows *made, void *args) {
  hr_conv_args *a = args;
  if (axis < 2) return false;
  int64_t stride = a->stride[axis - 2];
  in[0] = (hr_rows){rows.first * stride - a->padding[axis - 2],
                    (rows.count - 1) * stride + window_span(a, &view->in[1], axis)};
  in[3] = *made = rows;
  a->padding[axis - 2] = 0;
  return true;
}

/* Rows of dy whose windows meet those rows of x: all of their windows are made, without padding. */
static bool conv_dx_cut(const hr_op_view *view, int axis, hr_rows rows, hr_rows *in, hr_rows *made, void *args) {
  hr_conv_dx_args *a = args;
  if (axis < 2 || view->in[2].rank != 0) return false;
  int64_t stride = a->conv.stride[axis - 2], padding = a->conv.padding[axis - 2];
  int64_t span = window_span(&a->conv, &view->in[1], axis);
  int64_t behind = rows.first + padding - span, last = (rows.first + rows.count - 1 + padding) / stride;
  int64_t first = behind < 0 ? 0 : behind / stride + 1;
  if (last > view->in[0].dim[axis] - 1) last = view->in[0].dim[axis] - 1;
  if (first > last) first = last; /* no window meets them: whatever is made lies beside them */
  in[0] = (hr_rows){first, last - first + 1};
  *made = (hr_rows){first * stride - padding, (last - first) * stride + span};
  a->conv.padding[axis - 2] = 0;
  a->size[axis - 2] = made->count;
  return true;
}

/* ---- cost and workspace ---- */

static hr_conv_sizes conv_sizes(const hr_op_view *view) {
  return hr__conv_sizes(&view->in[0], &view->in[1], &view->out[0], view->args);
}

static hr_conv_sizes conv_dx_sizes(const hr_op_view *view) {
  return hr__conv_sizes(&view->out[0], &view->in[1], &view->in[0], &((const hr_conv_dx_args *)view->args)->conv);
}

static hr_conv_sizes conv_dw_sizes(const hr_op_view *view) {
  return hr__conv_sizes(&view->in[1], &view->out[0], &view->in[0], &((const hr_conv_dw_args *)view->args)->conv);
}

/* Whether the GPU's kernels unfold nothing. */
static bool tiled(const hr_op_view *view, const hr_conv_sizes *s, hr_conv_part part) {
  hr_conv_sizes flat = hr__conv_flat(*s);
  hr_conv_way way = hr__conv_cuda_way(&flat, view->in[0].dtype, part);
  return view->kind == HR_CUDA && (way == HR_CONV_TILED || way == HR_CONV_POINTS);
}

/* Each of `times` products of all groups; `unfolded`: elements that are written and read once more. */
static void product_cost(const hr_op_view *view, hr_product product, double unfolded, hr_cost *cost) {
  double bytes = (double)hr_dtype_bytes(view->in[0].dtype);
  product.dtype = view->in[0].dtype;
  *cost = (hr_cost){.op_class = HR_CLASS_PRODUCT, .products = {product}, .n_products = 1};
  cost->flops = 2.0 * (double)product.m * (double)product.n * (double)product.k * (double)product.times;
  cost->bytes = 2.0 * unfolded * bytes + (double)hr_desc_bytes(&view->out[0]);
}

/* On the CPU channels that stay apart are no products: they go by memory and arithmetic of vectors. */
static bool streams(const hr_op_view *view, const hr_conv_sizes *s, hr_cost *cost) {
  if (view->kind != HR_CPU || !hr__conv_is_apart(s)) return false;
  int64_t places = s->samples * s->groups * hr__conv_volume(s->y);
  hr__cost_stream(view, 2.0 * (double)places * (double)hr__conv_volume(s->kernel), cost);
  return true;
}

static void conv_cost(const hr_op_view *view, hr_cost *cost) {
  hr_conv_sizes s = conv_sizes(view);
  if (streams(view, &s, cost)) return;
  int64_t rows = s.samples * hr__conv_volume(s.y), inner = s.in * hr__conv_volume(s.kernel);
  hr_product product = {.m = rows, .n = s.out, .k = inner, .times = s.groups, .transpose_b = true};
  product_cost(view, product, tiled(view, &s, HR_CONV_FORWARD) ? 0 : (double)rows * (double)inner * (double)s.groups,
               cost);
}

/* As many products as walks, of which each takes its share of the kernel. */
static void conv_dx_cost(const hr_op_view *view, hr_cost *cost) {
  hr_conv_sizes s = conv_dx_sizes(view);
  if (streams(view, &s, cost)) return;
  int64_t walks = hr__conv_dx_walks(&s), rows = (s.samples * hr__conv_volume(s.x) - 1) / walks + 1;
  int64_t inner = (s.out * hr__conv_volume(s.kernel) - 1) / walks + 1;
  hr_product product = {.m = rows, .n = s.in, .k = inner, .times = s.groups * walks, .transpose_b = true};
  product_cost(view, product, tiled(view, &s, HR_CONV_DX) ? 0 : (double)rows * (double)inner * (double)product.times,
               cost);
}

static void conv_dw_cost(const hr_op_view *view, hr_cost *cost) {
  hr_conv_sizes s = conv_dw_sizes(view);
  if (streams(view, &s, cost)) return;
  int64_t rows = s.samples * hr__conv_volume(s.y), inner = s.in * hr__conv_volume(s.kernel);
  hr_product product = {.m = s.out, .n = inner, .k = rows, .times = s.groups, .accumulate = true};
  product_cost(view, product,
               tiled(view, &s, HR_CONV_DW) ? 0 : (double)rows * (double)(inner + s.out) * (double)s.groups, cost);
}

static void conv_db_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->in[0]), cost);
}

static size_t conv_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_conv_sizes s = conv_sizes(view), flat = hr__conv_flat(s);
  return kind == HR_CPU ? hr__conv_bytes(&s, view->in[0].dtype, threads)
                        : hr__conv_cuda_bytes(&flat, view->in[0].dtype);
}

static size_t conv_dx_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_conv_sizes s = conv_dx_sizes(view), flat = hr__conv_flat(s);
  hr_dtype dtype = view->in[0].dtype;
  return kind == HR_CPU ? hr__conv_dx_bytes(&s, dtype, threads) : hr__conv_cuda_dx_bytes(&flat, dtype);
}

static size_t conv_dw_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_conv_sizes s = conv_dw_sizes(view), flat = hr__conv_flat(s);
  hr_dtype dtype = view->in[0].dtype, result = view->out[0].dtype;
  return kind == HR_CPU ? hr__conv_dw_bytes(&s, dtype, result, threads)
                        : hr__conv_cuda_dw_of(&flat, dtype, result).bytes;
}

/* Unfolded: for each block of rows its rows are made, multiplied and put in place (conv_dw: rows of x and of dy, the
 * product). */
enum { BLOCK_LAUNCHES = 3 };

static int64_t blocks_launches(int64_t rows, int64_t block) {
  return rows > 0 ? BLOCK_LAUNCHES * ((rows - 1) / block + 1) : 0;
}

static int64_t conv_launches(const hr_op_view *view) {
  hr_conv_sizes s = conv_sizes(view), flat = hr__conv_flat(s);
  hr_dtype dtype = view->in[0].dtype;
  if (hr__conv_cuda_way(&flat, dtype, HR_CONV_FORWARD) != HR_CONV_UNFOLDED) return 1;
  hr_conv_cuda_pass pass = hr__conv_cuda_forward(&flat, dtype);
  return 1 + blocks_launches(pass.rows, pass.block);
}

static int64_t conv_dx_launches(const hr_op_view *view) {
  hr_conv_sizes s = conv_dx_sizes(view), flat = hr__conv_flat(s);
  hr_dtype dtype = view->in[0].dtype;
  int64_t walks = hr__conv_dx_walks(&flat), count = walks;
  if (hr__conv_cuda_way(&flat, dtype, HR_CONV_DX) != HR_CONV_UNFOLDED) return count;
  for (int64_t number = 0; number < walks; number++) {
    hr_conv_cuda_pass pass = hr__conv_cuda_dx(&flat, number, dtype);
    count += blocks_launches(pass.rows, pass.block);
  }
  return count;
}

static int64_t conv_dw_launches(const hr_op_view *view) {
  hr_conv_sizes s = conv_dw_sizes(view), flat = hr__conv_flat(s);
  hr_dtype dtype = view->in[0].dtype;
  if (hr__conv_cuda_way(&flat, dtype, HR_CONV_DW) != HR_CONV_UNFOLDED) return 1;
  hr_conv_cuda_dw pass = hr__conv_cuda_dw_of(&flat, dtype, view->out[0].dtype);
  return 1 + blocks_launches(pass.rows, pass.block);
}

static void conv_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_conv_sizes s = conv_sizes(view);
  hr__conv_products(&s, view->in[0].dtype, threads, set);
}

static void conv_dx_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_conv_sizes s = conv_dx_sizes(view);
  hr__conv_dx_products(&s, view->in[0].dtype, threads, set);
}

static void conv_dw_products(const hr_op_view *view, int threads, hr_gemm_set *set) {
  hr_conv_sizes s = conv_dw_sizes(view);
  hr__conv_dw_products(&s, view->in[0].dtype, threads, set);
}

static size_t conv_db_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  (void)threads;
  return kind == HR_CPU ? 0 : hr__conv_cuda_db_of(&view->in[0]).bytes;
}

/* ---- samples ---- */

/* Along one axis: a tokenizer's first, middle and last convolution; groups, dilation and much padding; strides that
 * share a divisor with the dilation; strides longer than the kernel, so that some of x meets no window. Then along two
 * and three axes, different on each. */
#define FIRST                                                                                                          \
  { .stride = {2}, .padding = {3}, .dilation = {1}, .groups = 1 }
#define MIDDLE                                                                                                         \
  { .stride = {2}, .padding = {2}, .dilation = {1}, .groups = 1 }
#define LAST                                                                                                           \
  { .stride = {4}, .padding = {0}, .dilation = {1}, .groups = 1 }
#define GROUPED                                                                                                        \
  { .stride = {3}, .padding = {4}, .dilation = {2}, .groups = 3 }
#define SPARSE                                                                                                         \
  { .stride = {4}, .padding = {1}, .dilation = {2}, .groups = 1 }
#define PLANE                                                                                                          \
  { .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2 }
#define APART                                                                                                          \
  { .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 6 }
#define VOLUME                                                                                                         \
  { .stride = {1, 2, 3}, .padding = {1, 0, 1}, .dilation = {2, 1, 1}, .groups = 1 }
#define POINTS                                                                                                         \
  { .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .groups = 1 }
#define CUBE                                                                                                           \
  { .stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1 }

static const hr_sample conv_samples[] = {
    {.n_in = 4,
     .in = {{HR_F32, 3, {6, 1, 16}}, {HR_F32, 3, {32, 1, 7}}, {HR_F32, 1, {32}}},
     .args = &(const hr_conv_args)FIRST},
    {.n_in = 4,
     .in = {{HR_F32, 3, {70, 4, 8}}, {HR_F32, 3, {6, 4, 5}}, {HR_F32, 1, {6}}, {HR_F32, 3, {70, 6, 4}}},
     .args = &(const hr_conv_args)MIDDLE},
    {.n_in = 4,
     .in = {{HR_F32, 3, {9, 5, 7}}, {HR_F32, 3, {19, 5, 4}}, {0}, {HR_F32, 3, {9, 19, 1}}},
     .args = &(const hr_conv_args)LAST},
    {.n_in = 4, .in = {{HR_F32, 3, {4, 6, 11}}, {HR_F32, 3, {9, 2, 3}}}, .args = &(const hr_conv_args)GROUPED},
    {.n_in = 4, .in = {{HR_F32, 3, {2, 3, 10}}, {HR_F32, 3, {5, 3, 3}}}, .args = &(const hr_conv_args)SPARSE},
    {.n_in = 4,
     .in = {{HR_F32, 4, {2, 4, 6, 7}}, {HR_F32, 4, {6, 2, 3, 2}}, {HR_F32, 1, {6}}},
     .args = &(const hr_conv_args)PLANE},
    {.n_in = 4,
     .in = {{HR_F32, 5, {2, 3, 4, 6, 8}}, {HR_F32, 5, {5, 3, 2, 3, 2}}, {HR_F32, 1, {5}}},
     .args = &(const hr_conv_args)VOLUME},
    {.n_in = 4,
     .in = {{HR_F32, 4, {2, 6, 6, 7}}, {HR_F32, 4, {6, 1, 3, 2}}, {HR_F32, 1, {6}}, {HR_F32, 4, {2, 6, 3, 9}}},
     .args = &(const hr_conv_args)APART},
    {.n_in = 4,
     .in = {{HR_F32, 4, {4, 3, 7, 8}}, {HR_F32, 4, {3, 1, 3, 3}}, {HR_F32, 1, {3}}, {HR_F32, 4, {4, 3, 7, 6}}},
     .args = &(const hr_conv_args){.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 3}},
    {.n_in = 4, /* large maps, in several blocks */
     .in = {{HR_F32, 4, {2, 3, 24, 25}}, {HR_F32, 4, {5, 3, 1, 1}}, {HR_F32, 1, {5}}, {HR_F32, 4, {2, 5, 24, 25}}},
     .args = &(const hr_conv_args)POINTS},
    {.n_in = 4,
     .in = {{HR_F32, 4, {2, 4, 33, 22}}, {HR_F32, 4, {6, 2, 3, 5}}, {HR_F32, 1, {6}}},
     .args = &(const hr_conv_args){.stride = {1, 2}, .padding = {2, 3}, .dilation = {2, 1}, .groups = 2}},
    {.n_in = 4, .in = {{HR_F32, 5, {1, 2, 6, 9, 10}}, {HR_F32, 5, {3, 2, 3, 3, 3}}}, .args = &(const hr_conv_args)CUBE},
    {.n_in = 4, /* rows of several blocks, of which some windows read nothing but padding */
     .in = {{HR_F32, 3, {1, 2, 2100}}, {HR_F32, 3, {2, 1, 3}}},
     .args = &(const hr_conv_args){.stride = {1}, .padding = {5}, .dilation = {2}, .groups = 2}},
    {.n_in = 4, /* channels of an odd number of elements */
     .in = {{HR_F32, 5, {2, 3, 3, 5, 7}}, {HR_F32, 5, {4, 3, 3, 3, 3}}, {HR_F32, 1, {4}}},
     .args = &(const hr_conv_args)CUBE},
    {.n_in = 4, /* as many channels as products of warpgroups have, and fewer; channels of odd and of even numbers */
     .in = {{HR_F32, 5, {1, 31, 3, 5, 7}}, {HR_F32, 5, {29, 31, 3, 3, 3}}, {HR_F32, 1, {29}}},
     .args = &(const hr_conv_args)CUBE},
    {.n_in = 4,
     .in = {{HR_F32, 5, {1, 60, 2, 3, 6}}, {HR_F32, 5, {62, 60, 2, 3, 3}}, {0}, {HR_F32, 5, {1, 62, 1, 5, 8}}},
     .args = &(const hr_conv_args){.stride = {1, 1, 1}, .padding = {0, 2, 2}, .dilation = {1, 1, 1}, .groups = 1}},
    {.n_in = 4, /* places to few channels, by themselves and in eights */
     .in = {{HR_F32, 4, {2, 9, 7, 3}}, {HR_F32, 4, {3, 9, 1, 1}}, {HR_F32, 1, {3}}},
     .args = &(const hr_conv_args)POINTS},
    {.n_in = 4,
     .in = {{HR_F32, 4, {2, 5, 4, 6}}, {HR_F32, 4, {1, 5, 1, 1}}, {HR_F32, 1, {1}}, {HR_F32, 4, {2, 1, 4, 6}}},
     .args = &(const hr_conv_args)POINTS},
};
static const hr_sample conv_dx_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 4, {4, 3, 7, 6}}, {HR_F32, 4, {3, 1, 3, 3}}, {HR_F32, 4, {4, 3, 7, 8}}},
     .args = &(const hr_conv_dx_args){{.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 3}, {7, 8}}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 6, 4, 9}}, {HR_F32, 4, {6, 1, 3, 2}}, {HR_F32, 4, {2, 6, 7, 7}}},
     .args = &(const hr_conv_dx_args){APART, {7, 7}}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {1, 2, 2106}}, {HR_F32, 3, {2, 1, 3}}},
     .args = &(const hr_conv_dx_args){{.stride = {1}, .padding = {5}, .dilation = {2}, .groups = 2}, {2100}}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {70, 6, 4}}, {HR_F32, 3, {6, 4, 5}}, {HR_F32, 3, {70, 4, 7}}},
     .args = &(const hr_conv_dx_args){MIDDLE, {7}}},
    {.n_in = 3, .in = {{HR_F32, 3, {6, 19, 2}}, {HR_F32, 3, {19, 5, 3}}}, .args = &(const hr_conv_dx_args){LAST, {7}}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {4, 9, 5}}, {HR_F32, 3, {9, 2, 3}}},
     .args = &(const hr_conv_dx_args){GROUPED, {10}}},
    {.n_in = 3, .in = {{HR_F32, 3, {2, 5, 2}}, {HR_F32, 3, {5, 3, 3}}}, .args = &(const hr_conv_dx_args){SPARSE, {8}}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 6, 3, 9}}, {HR_F32, 4, {6, 2, 3, 2}}, {HR_F32, 4, {2, 4, 5, 7}}},
     .args = &(const hr_conv_dx_args){PLANE, {5, 7}}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {2, 5, 4, 2, 3}}, {HR_F32, 5, {5, 3, 2, 3, 2}}},
     .args = &(const hr_conv_dx_args){VOLUME, {4, 5, 6}}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {2, 3, 3, 5, 7}}, {HR_F32, 5, {3, 2, 3, 3, 3}}, {HR_F32, 5, {2, 2, 3, 5, 7}}},
     .args = &(const hr_conv_dx_args){CUBE, {3, 5, 7}}},
    {.n_in = 3, /* products of warpgroups */
     .in = {{HR_F32, 5, {1, 61, 3, 3, 6}}, {HR_F32, 5, {61, 30, 3, 3, 3}}, {HR_F32, 5, {1, 30, 3, 3, 6}}},
     .args = &(const hr_conv_dx_args){CUBE, {3, 3, 6}}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 3, 7, 3}}, {HR_F32, 4, {3, 9, 1, 1}}, {HR_F32, 4, {2, 9, 7, 3}}},
     .args = &(const hr_conv_dx_args){POINTS, {7, 3}}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 1, 4, 6}}, {HR_F32, 4, {1, 5, 1, 1}}},
     .args = &(const hr_conv_dx_args){POINTS, {4, 6}}},
    {.n_in = 3, /* phases of windows that move by two, odd sizes */
     .in = {{HR_F32, 4, {2, 3, 8, 7}}, {HR_F32, 4, {3, 2, 3, 3}}, {HR_F32, 4, {2, 2, 15, 13}}},
     .args =
         &(const hr_conv_dx_args){{.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1}, {15, 13}}},
    {.n_in = 3, /* one phase has three taps along every axis, as windows that move by one have */
     .in = {{HR_F32, 5, {1, 18, 4, 5, 6}}, {HR_F32, 5, {18, 3, 5, 5, 5}}, {HR_F32, 5, {1, 3, 7, 9, 11}}},
     .args = &(const hr_conv_dx_args){{.stride = {2, 2, 2}, .padding = {2, 2, 2}, .dilation = {1, 1, 1}, .groups = 1},
                                      {7, 9, 11}}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {1, 17, 3, 5, 5}}, {HR_F32, 5, {17, 2, 3, 3, 3}}},
     .args = &(const hr_conv_dx_args){{.stride = {2, 2, 2}, .padding = {2, 2, 2}, .dilation = {2, 2, 2}, .groups = 1},
                                      {5, 9, 9}}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {1, 18, 2, 5, 6}}, {HR_F32, 5, {18, 3, 2, 2, 2}}},
     .args = &(const hr_conv_dx_args){{.stride = {2, 2, 2}, .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .groups = 1},
                                      {4, 10, 12}}},
};
static const hr_sample conv_dw_samples[] = {
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 6, 3, 9}}, {HR_F32, 4, {2, 6, 6, 7}}, {HR_F32, 4, {6, 1, 3, 2}}},
     .args = &(const hr_conv_dw_args){APART, {3, 2}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {70, 6, 4}}, {HR_F32, 3, {70, 4, 8}}, {HR_F32, 3, {6, 4, 5}}},
     .args = &(const hr_conv_dw_args){MIDDLE, {5}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {3, 32, 8}}, {HR_F32, 3, {3, 1, 16}}},
     .args = &(const hr_conv_dw_args){FIRST, {7}, HR_BF16}},
    {.n_in = 3,
     .in = {{HR_F32, 3, {4, 9, 5}}, {HR_F32, 3, {4, 6, 11}}, {HR_F32, 3, {9, 2, 3}}},
     .args = &(const hr_conv_dw_args){GROUPED, {3}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_BF16, 4, {2, 6, 3, 9}}, {HR_BF16, 4, {2, 4, 6, 7}}, {HR_BF16, 4, {6, 2, 3, 2}}},
     .args = &(const hr_conv_dw_args){PLANE, {3, 2}, HR_BF16}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {2, 5, 4, 2, 3}}, {HR_F32, 5, {2, 3, 4, 6, 8}}},
     .args = &(const hr_conv_dw_args){VOLUME, {2, 3, 2}, HR_F32}},
    {.n_in = 3, /* several blocks of rows */
     .in = {{HR_F32, 3, {310, 3, 30}}, {HR_F32, 3, {310, 1, 31}}},
     .args = &(const hr_conv_dw_args){{.stride = {1}, .padding = {0}, .dilation = {1}, .groups = 1}, {2}, HR_F32}},
    {.n_in = 3, /* lines of an odd number of elements in channels of an odd one, and of an even one */
     .in = {{HR_F32, 5, {2, 3, 3, 5, 7}}, {HR_F32, 5, {2, 2, 3, 5, 7}}, {HR_F32, 5, {3, 2, 3, 3, 3}}},
     .args = &(const hr_conv_dw_args){CUBE, {3, 3, 3}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 5, {1, 3, 2, 6, 5}}, {HR_F32, 5, {1, 2, 2, 6, 5}}},
     .args = &(const hr_conv_dw_args){CUBE, {3, 3, 3}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 3, 7, 3}}, {HR_F32, 4, {2, 9, 7, 3}}, {HR_F32, 4, {3, 9, 1, 1}}},
     .args = &(const hr_conv_dw_args){POINTS, {1, 1}, HR_F32}},
    {.n_in = 3,
     .in = {{HR_F32, 4, {2, 1, 4, 6}}, {HR_F32, 4, {2, 5, 4, 6}}},
     .args = &(const hr_conv_dw_args){POINTS, {1, 1}, HR_F32}},
};
static const hr_sample conv_db_samples[] = {
    {.n_in = 2, .in = {{HR_F32, 3, {5, 32, 8}}}, .args = &(const hr_conv_db_args){HR_BF16}},
    {.n_in = 2, .in = {{HR_F32, 4, {3, 7, 5, 27}}, {HR_F32, 1, {7}}}, .args = &(const hr_conv_db_args){HR_F32}},
};

const hr_op hr_op_conv = {
    .name = "conv",
    .n_in = 4,
    .n_out = 1,
    .optional = 1u << 2 | 1u << 3,
    .args_bytes = sizeof(hr_conv_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = ~0u,
    .alias = {{3, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1 | 1u << 2,
    .cut = conv_cut,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = conv_shape,
    .grad = conv_grad,
    .cost = conv_cost,
    .workspace = conv_workspace,
    .launches = conv_launches,
    .products = conv_products,
    .cpu = {.prepare = hr__conv_prepare, .release = hr__conv_release, .run = hr__conv_run},
    .samples = conv_samples,
    .n_samples = sizeof conv_samples / sizeof *conv_samples,
};

const hr_op hr_op_conv_dx = {
    .name = "conv_dx",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_conv_dx_args),
    .saves = HR_SAVE_IN(0) | HR_SAVE_IN(1),
    .computes = ~0u,
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .cut = conv_dx_cut,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = conv_dx_shape,
    .grad = conv_dx_grad,
    .cost = conv_dx_cost,
    .workspace = conv_dx_workspace,
    .launches = conv_dx_launches,
    .products = conv_dx_products,
    .cpu = {.prepare = hr__conv_dx_prepare, .release = hr__conv_release, .run = hr__conv_dx_run},
    .samples = conv_dx_samples,
    .n_samples = sizeof conv_dx_samples / sizeof *conv_dx_samples,
};

const hr_op hr_op_conv_dw = {
    .name = "conv_dw",
    .n_in = 3,
    .n_out = 1,
    .optional = 1u << 2,
    .args_bytes = sizeof(hr_conv_dw_args),
    .alias = {{2, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = conv_dw_shape,
    .cost = conv_dw_cost,
    .workspace = conv_dw_workspace,
    .launches = conv_dw_launches,
    .products = conv_dw_products,
    .cpu = {.prepare = hr__conv_dw_prepare, .release = hr__conv_dw_release, .run = hr__conv_dw_run},
    .samples = conv_dw_samples,
    .n_samples = sizeof conv_dw_samples / sizeof *conv_dw_samples,
};

const hr_op hr_op_conv_db = {
    .name = "conv_db",
    .n_in = 2,
    .n_out = 1,
    .optional = 1u << 1,
    .args_bytes = sizeof(hr_conv_db_args),
    .alias = {{1, 0, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = conv_db_shape,
    .cost = conv_db_cost,
    .workspace = conv_db_workspace,
    .cpu = {.run = hr__conv_db_run},
    .samples = conv_db_samples,
    .n_samples = sizeof conv_db_samples / sizeof *conv_db_samples,
};
