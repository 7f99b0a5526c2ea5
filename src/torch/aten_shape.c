/* Views, and what copies where a view cannot be. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

/* --- heads -------------------------------------------------------------------------------------------------------- */

/* A gradient that lies as [B, n, T, D] is copied before it is [B, T, n D]; one that lies as [B, n, D, T] has n and D in
 * a row already. */
static hr_tt in_rows(hr_tape *t, hr_tt g, hr_tdims dims) {
  const hr_tape_tensor *form = hr__tape_tensor(t, g);
  if (form->permuted || form->turned || form->dims.at[1] == 1) return hr__tape_view(t, g, dims, false);
  return hr__tape_fresh(t, "aten::clone", dims, hr__tape_tensor(t, g)->dtype, false);
}

static void heads_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = in_rows(t, g, node->input[0].dims);
}

static const hr_aten heads = {.name = "aten::transpose", .backward = heads_backward};

hr_tt hr__at_heads(hr_tape *t, hr_tt x, int64_t count) {
  if (x == HR_TT_NONE) return x;
  hr_tdims d = hr__tape_tensor(t, x)->dims;
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &heads, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, hr__call_view(&c, x, hr__tdims4(d.at[0], count, d.at[1], d.at[2] / count), count > 1));
}

static void merged_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_view(t, g, node->input[0].dims, true);
}

static const hr_aten merged = {.name = "aten::clone", .backward = merged_backward};

hr_tt hr__at_merged(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return x;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tdims dims = hr__tdims3(from.dims.at[0], from.dims.at[2], from.dims.at[1] * from.dims.at[3]);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &merged, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c,
                      from.permuted ? hr__call_view(&c, x, dims, false) : hr__call_made(&c, dims, from.dtype, false));
}

static void split_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  bool scattered = hr__tape_tensor(t, g)->permuted;
  hr_tdims dims = node->input[0].dims;
  out[0] = scattered ? hr__tape_fresh(t, "aten::clone", dims, hr__tape_tensor(t, g)->dtype, false)
                     : hr__tape_view(t, g, dims, false);
}

static const hr_aten split = {.name = "aten::view", .backward = split_backward};

hr_tt hr__at_split_heads(hr_tape *t, hr_tt x, int64_t count) {
  if (x == HR_TT_NONE) return x;
  hr_tdims d = hr__tape_tensor(t, x)->dims;
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &split, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, hr__call_view(&c, x, hr__tdims4(d.at[0], d.at[1], count, d.at[2] / count), false));
}

static void turned_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_view(t, g, node->input[0].dims, !hr__tape_tensor(t, g)->permuted);
}

static const hr_aten turned = {.name = "aten::transpose", .backward = turned_backward};

hr_tt hr__at_turned_heads(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return x;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tdims d = from.dims;
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &turned, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, hr__call_view(&c, x, hr__tdims4(d.at[0], d.at[2], d.at[1], d.at[3]), !from.permuted));
}

/* --- halves ------------------------------------------------------------------------------------------------------- */

static void half_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_fresh(t, "aten::slice_backward", node->input[0].dims, hr__tape_tensor(t, g)->dtype, false);
}

static const hr_aten half_call = {.name = "aten::slice", .backward = half_backward};

static hr_tdims halved(hr_tdims dims) {
  dims.at[dims.n - 1] /= 2;
  return dims;
}

hr_tt hr__at_half_of(hr_tape *t, hr_tt x, int which) {
  (void)which;
  if (x == HR_TT_NONE) return x;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &half_call, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, hr__call_view(&c, x, halved(from.dims), from.permuted));
}

static void joined_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  for (int i = 0; i < 2; i++)
    if (node->input[i].node != 0) out[i] = hr__tape_view(t, g, node->input[i].dims, hr__tape_tensor(t, g)->permuted);
}

static const hr_aten joined = {.name = "aten::cat", .backward = joined_backward};

hr_tt hr__at_joined(hr_tape *t, hr_tt a, hr_tt b) {
  hr_tt inputs[] = {a, b};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &joined, 2, inputs)) return HR_TT_NONE;
  hr_tape_tensor first = *hr__tape_tensor(t, a);
  first.dims.at[first.dims.n - 1] += hr__tape_tensor(t, b)->dims.at[first.dims.n - 1];
  return hr__call_end(&c, hr__call_made(&c, first.dims, first.dtype, false));
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void repeated_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_fresh(t, "aten::sum", node->input[0].dims, hr__tape_tensor(t, g)->dtype, false);
}

static const hr_aten repeated = {.name = "aten::clone", .backward = repeated_backward};

hr_tt hr__at_repeated(hr_tape *t, hr_tt x, int64_t times) {
  if (x == HR_TT_NONE || times == 1) return x & HR_TT_UNNAMED ? x : hr__tape_shared(t, x);
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &repeated, 1, &x)) return HR_TT_NONE;
  from.dims.at[1] *= times;
  return hr__call_end(&c, hr__call_made(&c, from.dims, from.dtype, false));
}

hr_tt hr__at_expanded(hr_tape *t, hr_tt x, int64_t times) {
  if (x == HR_TT_NONE || times == 1 || hr__tape_tensor(t, x)->dims.at[1] > 1) return hr__at_repeated(t, x, times);
  hr_tdims dims = hr__tape_tensor(t, x)->dims;
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &repeated, 1, &x)) return HR_TT_NONE;
  dims.at[1] = times;
  hr_tt view = hr__call_view(&c, x, dims, false);
  if (view != HR_TT_NONE) hr__tape_tensor(t, view)->expanded = true;
  return hr__call_end(&c, view);
}

static void clone_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  (void)node;
  out[0] = hr__tape_shared(t, g);
}

static const hr_aten clone = {.name = "aten::clone", .backward = clone_backward};

hr_tt hr__at_clone(hr_tape *t, hr_tt x) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &clone, 1, &x)) return HR_TT_NONE;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  return hr__call_end(&c, hr__call_made(&c, from.dims, from.dtype, from.permuted));
}

/* The heads of several rows lie in order only once they are copied; those of one row as they are. */
static hr_tt reshape(hr_tape *t, hr_tt x, hr_tdims dims) {
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  bool copied = (from.permuted || from.expanded) && from.dims.at[0] > 1;
  hr_tt y = copied ? hr__tape_fresh(t, "aten::clone", dims, from.dtype, false) : hr__tape_view(t, x, dims, false);
  if (y != HR_TT_NONE) hr__tape_tensor(t, y)->turned = from.turned && !copied;
  return y;
}

static void reshaped_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = reshape(t, g, node->input[0].dims);
}

static const hr_aten reshaped = {.name = "aten::view", .backward = reshaped_backward};

hr_tt hr__at_reshaped(hr_tape *t, hr_tt x, hr_tdims dims) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &reshaped, 1, &x)) return HR_TT_NONE;
  return hr__call_end(&c, reshape(t, x, dims));
}
