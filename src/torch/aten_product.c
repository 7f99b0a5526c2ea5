/* Matrix products. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

/* --- linear: mm on rows, or addmm with a bias --------------------------------------------------------------------- */

/* A product of a's rows with as many columns as `columns`. */
static void product_count(hr_tape *t, hr_dtype dtype, int64_t elements, int64_t columns) {
  t->work.flops[dtype] += 2.0 * (double)elements * (double)columns;
}

/* Autograd sees rows of x and the weight turned round, so that what goes back to them are views. */
static hr_tt product_view(hr_tape *t, const hr_tape_edge *to, hr_dtype dtype) {
  hr_tt y = hr__tape_fresh(t, "aten::mm", to->dims, dtype, false);
  if (y != HR_TT_NONE) hr__tape_tensor(t, y)->viewed = true;
  return y;
}

static void linear_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS], int first) {
  hr_dtype dtype = hr__tape_tensor(t, g)->dtype;
  for (int k = 0; k < 2; k++) {
    int i = k == 0 ? first : 1 - first;
    if (node->input[i].node == 0) continue;
    out[i] = product_view(t, &node->input[i], dtype);
    hr__tape_workspace(t);
    product_count(t, dtype, hr__tdims_elements(node->input[0].dims), node->input[1].dims.at[0]);
  }
  if (node->input[2].node != 0) out[2] = hr__tape_shared(t, g); /* summed when it is fitted */
}

/* Without a bias the weight's gradient is made first, with one that of x. */
static void mm_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  linear_backward(t, node, g, out, 1);
}

static void addmm_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  linear_backward(t, node, g, out, 0);
}

static const hr_aten mm = {.name = "aten::mm", .backward = mm_backward};
static const hr_aten addmm = {.name = "aten::addmm", .backward = addmm_backward};

/* The gradient of x is made first; those of no call of autograd's own are no views. */
static void zero_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  hr_tape_tensor from = *hr__tape_tensor(t, g);
  for (int i = 0; i < 2; i++) {
    if (node->input[i].node == 0) continue;
    out[i] = hr__tape_fresh(t, "aten::mm", node->input[i].dims, from.dtype, false);
    hr__tape_workspace(t);
    product_count(t, from.dtype, hr__tdims_elements(node->input[0].dims), node->input[1].dims.at[0]);
  }
  if (node->input[2].node != 0) out[2] = hr__tape_sum(t, from.dims, node->input[2].dims, from.dtype);
}

static const hr_aten zero_call = {.name = "LinearFunctionForZeroStage3", .backward = zero_backward};

/* DeepSpeed's, which adds the bias in place and keeps x and weight whatever is trained. */
static hr_tt zero_linear(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias) {
  hr_tt inputs[] = {x, weight, bias};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &zero_call, 3, inputs)) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, x);
  form.dims.at[form.dims.n - 1] = hr__tape_tensor(t, weight)->dims.at[0];
  product_count(t, form.dtype, hr__tape_elements(t, x), hr__tape_tensor(t, weight)->dims.at[0]);
  hr_tt y = hr__call_made(&c, form.dims, form.dtype, false);
  hr__tape_workspace(t);
  for (int i = 0; i < 3; i++)
    hr__call_save_result(&c, i, inputs[i]);
  return hr__call_end(&c, y);
}

static hr_tt linear(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias) {
  if (t->zero_linear) return zero_linear(t, x, weight, bias);
  hr_tt inputs[] = {x, weight, bias};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, bias == HR_TT_NONE ? &mm : &addmm, 3, inputs)) return HR_TT_NONE;
  if (hr__call_wants(&c, 1)) hr__call_save(&c, 0, x);
  if (hr__call_wants(&c, 0)) hr__call_save(&c, 1, weight);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, x);
  form.dims.at[form.dims.n - 1] = hr__tape_tensor(t, weight)->dims.at[0];
  product_count(t, form.dtype, hr__tape_elements(t, x), hr__tape_tensor(t, weight)->dims.at[0]);
  hr_tt y = hr__call_made(&c, form.dims, form.dtype, false);
  hr__tape_workspace(t);
  if (bias != HR_TT_NONE) hr__tape_bias_workspace(t);
  return hr__call_end(&c, y);
}

/* C++ evaluates the casts of its arguments from the last to the first. */
hr_tt hr__at_linear(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias) {
  bias = hr__tape_narrowed(t, bias);
  weight = hr__tape_narrowed(t, weight);
  return linear(t, hr__tape_narrowed(t, x), weight, bias);
}

/* --- products of heads -------------------------------------------------------------------------------------------- */

/* The second operand's gradient is made first. */
static void bmm_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  hr_dtype dtype = hr__tape_tensor(t, g)->dtype;
  int64_t rows = node->input[0].dims.at[1], inner = node->input[0].dims.at[2];
  for (int i = 1; i >= 0; i--) {
    if (node->input[i].node == 0) continue;
    out[i] = hr__tape_fresh(t, "aten::bmm", node->input[i].dims, dtype, false);
    if (i == 1 && out[i] != HR_TT_NONE) hr__tape_tensor(t, out[i])->turned = node->number[0] != 0;
    hr__tape_workspace(t);
    product_count(t, dtype, hr__tdims_elements(node->input[1].dims) / inner * rows, inner);
  }
}

static const hr_aten bmm_call = {.name = "aten::bmm", .backward = bmm_backward};

/* a [n, rows, inner], b [n, inner, columns], or [n, columns, inner] where it is turned. */
static hr_tt bmm(hr_tape *t, hr_tt a, hr_tt b, bool turned) {
  hr_tt inputs[] = {a, b};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &bmm_call, 2, inputs)) return HR_TT_NONE;
  hr__call_number(&c, 0, turned);
  if (hr__call_wants(&c, 1)) hr__call_save(&c, 0, a);
  if (hr__call_wants(&c, 0)) hr__call_save(&c, 1, b);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr_tdims dims = hr__tape_tensor(t, a)->dims;
  int64_t elements = hr__tdims_elements(dims);
  dims.at[2] = hr__tape_tensor(t, b)->dims.at[turned ? 1 : 2];
  product_count(t, hr__tape_dtype(t, a), elements, dims.at[2]);
  hr_tt y = hr__call_made(&c, dims, hr__tape_dtype(t, a), false);
  hr__tape_workspace(t);
  return hr__call_end(&c, y);
}

static hr_tt flat(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return x;
  hr_tdims d = hr__tape_tensor(t, x)->dims;
  return hr__at_reshaped(t, x, hr__tdims3(d.at[0] * d.at[1], d.at[2], d.at[3]));
}

hr_tt hr__at_matmul(hr_tape *t, hr_tt a, hr_tt b, bool turned) {
  b = hr__tape_narrowed(t, b);
  a = hr__tape_narrowed(t, a);
  if (a == HR_TT_NONE || b == HR_TT_NONE) {
    hr__tape_drop(t, a & HR_TT_UNNAMED ? a : HR_TT_NONE);
    hr__tape_drop(t, b & HR_TT_UNNAMED ? b : HR_TT_NONE);
    return HR_TT_NONE;
  }
  hr_tdims d = hr__tape_tensor(t, a)->dims, other = hr__tape_tensor(t, b)->dims;
  hr_tt held[] = {hr__tape_again(t, a), hr__tape_again(t, b)}; /* by the call, copies of them or not */
  hr_tt rows = flat(t, a);
  hr_tt y = bmm(t, rows, flat(t, b), turned);
  for (int i = 0; i < 2; i++)
    hr__tape_drop(t, held[i]);
  return hr__at_reshaped(t, y, hr__tdims4(d.at[0], d.at[1], d.at[2], other.at[turned ? 2 : 3]));
}

hr_tt hr__at_product_made(hr_tape *t, hr_tdims dims, hr_dtype dtype) {
  hr_tt y = hr__tape_made(t, "aten::bmm", dims, dtype);
  hr__tape_workspace(t);
  return y;
}
