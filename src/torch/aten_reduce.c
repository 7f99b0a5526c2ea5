/* Calls along the last axis. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

static hr_tt fresh_as(hr_tape *t, const char *call, hr_tt x, hr_dtype dtype) {
  const hr_tape_tensor *form = hr__tape_tensor(t, x);
  return hr__tape_fresh(t, call, form->dims, dtype, form->permuted);
}

/* --- mean --------------------------------------------------------------------------------------------------------- */

static void mean_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = hr__tape_fresh(t, "aten::div", node->input[0].dims, hr__tape_tensor(t, g)->dtype, node->number[0] != 0);
}

static const hr_aten mean = {.name = "aten::mean", .backward = mean_backward};

hr_tt hr__at_mean(hr_tape *t, hr_tt x) {
  if (x == HR_TT_NONE) return x;
  hr_tape_tensor from = *hr__tape_tensor(t, x);
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &mean, 1, &x)) return HR_TT_NONE;
  hr__call_number(&c, 0, from.permuted);
  from.dims.at[from.dims.n - 1] = 1;
  return hr__call_end(&c, hr__call_made(&c, from.dims, from.dtype, from.permuted));
}

/* --- softmax ------------------------------------------------------------------------------------------------------ */

static void softmax_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = fresh_as(t, "aten::_softmax_backward_data", g, node->input[0].dtype);
}

static void log_softmax_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  out[0] = fresh_as(t, "aten::_log_softmax_backward_data", g, node->input[0].dtype);
}

static const hr_aten softmax = {.name = "aten::_softmax", .backward = softmax_backward};
static const hr_aten log_softmax = {.name = "aten::_log_softmax", .backward = log_softmax_backward};

/* They keep their results. */
static hr_tt soft(hr_tape *t, const hr_aten *aten, const char *call, hr_tt x, hr_dtype dtype) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, aten, 1, &x)) return HR_TT_NONE;
  hr_tt y = fresh_as(t, call, x, dtype);
  hr__call_save_result(&c, 0, y);
  return hr__call_end(&c, y);
}

hr_tt hr__at_softmax(hr_tape *t, const char *call, hr_tt x) {
  return soft(t, &softmax, call ? call : softmax.name, x, hr__tape_dtype(t, x));
}

hr_tt hr__at_wide_softmax(hr_tape *t, hr_tt x) {
  if (hr__tape_dtype(t, x) != HR_F16) x = hr__at_to(t, x, HR_F32);
  return soft(t, &softmax, softmax.name, x, HR_F32);
}

hr_tt hr__at_log_softmax(hr_tape *t, hr_tt x) {
  return soft(t, &log_softmax, log_softmax.name, x, hr__tape_dtype(t, x));
}

/* --- layer norm --------------------------------------------------------------------------------------------------- */

static void layer_norm_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  static const char call[] = "aten::native_layer_norm_backward";
  hr_dtype dtype = hr__tape_tensor(t, g)->dtype;
  for (int i = 0; i < 3; i++)
    if (node->input[i].node != 0)
      out[i] = hr__tape_fresh(t, call, node->input[i].dims, i == 0 ? dtype : node->input[i].dtype, false);
}

static const hr_aten layer_norm = {.name = "aten::native_layer_norm", .backward = layer_norm_backward};

/* On the list of calls that autocast gives f32. */
hr_tt hr__at_layer_norm(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias) {
  if (t->autocast) {
    bias = hr__at_to(t, bias, HR_F32);
    weight = hr__at_to(t, weight, HR_F32);
    x = hr__at_to(t, x, HR_F32);
  }
  hr_tt inputs[] = {x, weight, bias};
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &layer_norm, 3, inputs)) return HR_TT_NONE;
  hr__call_save(&c, 0, x);
  hr__call_save(&c, 1, weight);
  hr__call_save(&c, 2, bias);
  if (hr__call_stopped(&c)) return HR_TT_NONE;
  hr_tape_tensor form = *hr__tape_tensor(t, x);
  hr_tdims rows = form.dims;
  rows.at[rows.n - 1] = 1;
  hr_tt y = hr__call_made(&c, form.dims, form.dtype, false), statistics[2];
  for (int i = 0; i < 2; i++)
    statistics[i] = hr__call_made(&c, rows, HR_F32, false);
  for (int i = 0; i < 2; i++) {
    hr__call_save_result(&c, 3 + i, statistics[i]);
    hr__tape_drop(t, statistics[i]);
  }
  return hr__call_end(&c, y);
}
