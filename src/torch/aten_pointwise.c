/* Calls that go element by element. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

static hr_dtype promoted(hr_dtype a, hr_dtype b) {
  if (a == b) return a;
  if (a == HR_F32 || b == HR_F32) return HR_F32;
  bool whole = a == HR_I64 || a == HR_I32 || a == HR_U8;
  return whole ? b : a; /* two 16-bit types never meet */
}

static bool wanted(const hr_tape_node *node, int input) {
  return node->input[input].node != 0;
}

/* A result of one operand's form. */
static hr_tt like(hr_tape_call *c, hr_tt x) {
  const hr_tape_tensor *form = hr__tape_tensor(c->t, x);
  return hr__call_made(c, form->dims, form->dtype, form->permuted);
}

static hr_tt fresh_like(hr_tape *t, const char *call, hr_tt x) {
  const hr_tape_tensor *form = hr__tape_tensor(t, x);
  return hr__tape_fresh(t, call, form->dims, form->dtype, form->permuted);
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static void to_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__at_to(t, g, node->input[0].dtype);
}

static const hr_aten to_copy = {.name = "aten::_to_copy", .backward = to_backward};

hr_tt hr__at_to(hr_tape *t, hr_tt x, hr_dtype dtype) {
  if (x == HR_TT_NONE) return x;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  if (from.dtype == dtype) return x & HR_TT_UNNAMED ? x : hr__tape_shared(t, x);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &to_copy, 1, &x)) return HR_TT_NONE;
  hr_tt y = hr__call_made(&c, from.dims, dtype, from.permuted);
  if (y != HR_TT_NONE) hr__tape_tensor(t, y)->turned = from.turned;
  return hr__call_end(&c, y);
}

/* --- two operands ------------------------------------------------------------------------------------------------- */

/* The gradient of the second operand is made first. */
static void mul_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  if (wanted(node, 1)) out[1] = hr__at_mul(t, g, node->saved[0]);
  if (wanted(node, 0)) out[0] = hr__at_mul(t, g, node->saved[1]);
}

static const hr_aten mul = {.name = "aten::mul", .backward = mul_backward};

/* A result has the layout of its first operand of full size. */
static hr_tt both_made(hr_tape_call *c) {
  hr_tape_tensor a = *hr__tape_tensor(c->t, c->input[0]), b = *hr__tape_tensor(c->t, c->input[1]);
  hr_tdims dims = hr__tdims_broadcast(a.dims, b.dims);
  bool first = hr__tdims_elements(a.dims) == hr__tdims_elements(dims);
  return hr__call_made(c, dims, promoted(a.dtype, b.dtype), first ? a.permuted : b.permuted);
}

hr_tt hr__at_mul(hr_tape *t, hr_tt a, hr_tt b) {
  hr_tt inputs[] = {a, b};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &mul, 2, inputs)) return HR_TT_NONE;
  if (hr__call_wants(&c, 1)) hr__call_save(&c, 0, a);
  if (hr__call_wants(&c, 0)) hr__call_save(&c, 1, b);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  return hr__call_end(&c, both_made(&c));
}

/* The same tensor goes to both. */
static void add_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  for (int i = 0; i < 2; i++)
    if (wanted(node, i)) out[i] = hr__tape_shared(t, g);
}

static const hr_aten add = {.name = "aten::add", .backward = add_backward};

hr_tt hr__at_add(hr_tape *t, hr_tt a, hr_tt b) {
  hr_tt inputs[] = {a, b};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &add, 2, inputs)) return HR_TT_NONE;
  return hr__call_end(&c, both_made(&c));
}

/* --- one operand -------------------------------------------------------------------------------------------------- */

static void scale_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = fresh_like(t, node->call->name, g);
}

static void pass_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  (void)node;
  out[0] = hr__tape_shared(t, g);
}

static const hr_aten scale = {.name = "aten::mul", .backward = scale_backward};
static const hr_aten divide = {.name = "aten::div", .backward = scale_backward};
static const hr_aten neg = {.name = "aten::neg", .backward = scale_backward};
static const hr_aten shift = {.name = "aten::add", .backward = pass_backward};

static hr_tt plain(hr_tape *t, const hr_aten *aten, hr_tt x) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, aten, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, like(&c, x));
}

hr_tt hr__at_scale(hr_tape *t, hr_tt x) {
  return plain(t, &scale, x);
}

hr_tt hr__at_divide(hr_tape *t, hr_tt x) {
  return plain(t, &divide, x);
}

hr_tt hr__at_shift(hr_tape *t, hr_tt x) {
  return plain(t, &shift, x);
}

hr_tt hr__at_neg(hr_tape *t, hr_tt x) {
  return plain(t, &neg, x);
}

/* Those that keep their input. */
static hr_tt keeping(hr_tape *t, const hr_aten *aten, hr_tt x) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, aten, 1, &x)) return HR_TT_NONE;
  hr__call_save(&c, 0, x);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  return hr__call_end(&c, like(&c, x));
}

/* g (n x^(n-1)): a power, a product with n, a product with g. Of pow(x, 2) and of rsqrt, whose power is that of y. */
static void power_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  hr_tt power = fresh_like(t, "aten::pow", node->saved[0]);
  hr_tt factor = fresh_like(t, "aten::mul", node->saved[0]);
  out[0] = hr__at_mul(t, g, hr__tape_name(factor));
  hr__tape_drop(t, factor);
  hr__tape_drop(t, power);
}

static const hr_aten square = {.name = "aten::pow", .backward = power_backward};
static const hr_aten rsqrt_call = {.name = "aten::rsqrt", .backward = power_backward};

hr_tt hr__at_square(hr_tape *t, hr_tt x) {
  return keeping(t, &square, x);
}

hr_tt hr__at_rsqrt(hr_tape *t, hr_tt x) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &rsqrt_call, 1, &x)) return HR_TT_NONE;
  hr_tt y = like(&c, x);
  hr__call_save_result(&c, 0, y);
  return hr__call_end(&c, y);
}

static void silu_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  (void)node;
  out[0] = fresh_like(t, "aten::silu_backward", g);
}

static void gelu_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  (void)node;
  out[0] = fresh_like(t, "aten::gelu_backward", g);
}

static const hr_aten silu = {.name = "aten::silu", .backward = silu_backward};
static const hr_aten gelu = {.name = "aten::gelu", .backward = gelu_backward};

hr_tt hr__at_silu(hr_tape *t, hr_tt x) {
  return keeping(t, &silu, x);
}

hr_tt hr__at_gelu(hr_tape *t, hr_tt x) {
  return keeping(t, &gelu, x);
}

/* --- dropout: a mask of one byte for every element ---------------------------------------------------------------- */

static void dropout_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  (void)node;
  out[0] = fresh_like(t, "aten::native_dropout_backward", g);
}

static const hr_aten dropout = {.name = "aten::native_dropout", .backward = dropout_backward};

hr_tt hr__at_dropout(hr_tape *t, hr_tt x, double rate) {
  if (rate <= 0.0 || t->evaluates) return x & HR_TT_UNNAMED ? x : hr__tape_shared(t, x);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &dropout, 1, &x)) return HR_TT_NONE;
  hr_tdims dims = hr__tape_tensor(t, x)->dims;
  hr_tt mask = hr__call_made(&c, dims, HR_U8, false), y = like(&c, x);
  hr__call_save_result(&c, 0, mask);
  hr__tape_drop(t, mask);
  return hr__call_end(&c, y);
}
