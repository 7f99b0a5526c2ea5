/* Calls along the last axis. See aten.h. */
#include "torch/aten.h"
#include "torch/call.h"

static hr_tt fresh_as(hr_tape *t, const char *call, hr_tt x, hr_dtype dtype) {
  const hr_tape_tensor *form = hr__tape_tensor(t, x);
  return hr__tape_fresh(t, call, form->dims, dtype, form->permuted);
}

/* --- sums of rows ------------------------------------------------------------------------------------------------- */

enum { REDUCE_THREADS = 512, WARP = 32, VALUES_LEAST = 16, VALUES_MOST = 256 };

static int64_t power_below(int64_t n, int64_t most) {
  int64_t power = 1;
  while (power * 2 <= n && power * 2 <= most)
    power *= 2;
  return power;
}

static int64_t over(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

/* What a sum over `rows` to `columns` takes for sums of blocks, which are f32. PyTorch's reductions (Reduce.cuh) let a
 * block of threads go down 1/height of the rows for a few columns; where that leaves each thread 256 values or more and
 * blocks are too few to fill the GPU, rows are divided among blocks as well. */
static uint64_t sum_scratch(const hr_tape *t, int64_t rows, int64_t columns) {
  int64_t wide = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1; /* columns a thread takes at once */
  int64_t most = REDUCE_THREADS / wide, across = columns / wide;
  int64_t width = power_below(across, most), height = power_below(rows, most);
  width = width < WARP ? width : WARP;
  height = height < most / width ? height : most / width;
  width = power_below(across, most / height);
  int64_t values = over(rows, height), grid = over(across, width);
  int64_t target = t->multiprocessors * (t->threads_each / (width * height));
  if (values < VALUES_MOST || grid > target ||
      rows < (height * VALUES_LEAST < VALUES_MOST ? height * VALUES_LEAST : VALUES_MOST))
    return 0;
  int64_t blocks = over(target, grid), least = over(values, VALUES_MOST);
  if (blocks > over(values, VALUES_LEAST)) blocks = over(values, VALUES_LEAST);
  if (blocks < least) blocks = least;
  return blocks > 1 ? (uint64_t)(4 * columns * blocks * width * wide) : 0;
}

hr_tt hr__tape_sum(hr_tape *t, hr_tdims from, hr_tdims to, hr_dtype dtype) {
  hr_tt y = hr__tape_fresh(t, "aten::sum", to, dtype, false);
  int64_t columns = hr__tdims_elements(to);
  /* of the last axis alone */
  bool rows = from.n > 0 && to.n > 0 && from.at[from.n - 1] == columns && to.at[to.n - 1] == columns;
  hr__tape_scratch_end(
      t, hr__tape_scratch(t, "aten::sum", rows ? sum_scratch(t, hr__tdims_elements(from) / columns, columns) : 0));
  return y;
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

/* The product of gradient and result is made beside it. */
static void softmax_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  static const char call[] = "aten::_softmax_backward_data";
  out[0] = fresh_as(t, call, g, node->input[0].dtype);
  hr__tape_scratch_end(t, hr__tape_scratch(t, call, hr__tape_bytes(t, g)));
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

hr_tt hr__at_softmax(hr_tape *t, hr_tt x) {
  return soft(t, &softmax, softmax.name, x, hr__tape_dtype(t, x));
}

/* Which scores and which whole rows are masked, and the number that these get, are tensors for that long. */
hr_tt hr__at_safe_softmax(hr_tape *t, hr_tt x) {
  static const char call[] = "aten::_safe_softmax";
  hr_tt y = soft(t, &softmax, call, x, hr__tape_dtype(t, x));
  if (t->stopped || y == HR_TT_NONE) return y;
  const hr_tape_tensor *form = hr__tape_tensor(t, y);
  uint64_t all = (uint64_t)hr__tape_elements(t, y), length = (uint64_t)form->dims.at[form->dims.n - 1];
  uint64_t bytes[] = {all, all / length, hr_dtype_bytes(form->dtype)};
  enum { PARTS = sizeof bytes / sizeof *bytes };
  uint32_t scratch[PARTS];
  for (int i = 0; i < PARTS; i++)
    scratch[i] = hr__tape_scratch(t, call, bytes[i]);
  for (int i = PARTS; i-- > 0;)
    hr__tape_scratch_end(t, scratch[i]);
  return y;
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
