/* Checks and costs shared by the rules of the ops. */
#include "op/shapes.h"

#include <stdio.h>

enum { DESC_TEXT = 128 };

/* "bf16 [2, 16, 64]" */
static const char *desc_text(const hr_desc *desc, char out[DESC_TEXT]) {
  int used = snprintf(out, DESC_TEXT, "%s [", hr_dtype_name(desc->dtype));
  for (int i = 0; i < desc->rank && used < DESC_TEXT; i++)
    used += snprintf(out + used, (size_t)(DESC_TEXT - used), "%s%lld", i ? ", " : "", (long long)desc->dim[i]);
  if (used < DESC_TEXT) snprintf(out + used, (size_t)(DESC_TEXT - used), "]");
  return out;
}

static bool dtype_is_float(hr_dtype dtype) {
  return (HR_DTYPE_BIT(dtype) & HR_FLOATS) != 0;
}

hr_status hr__shape_operands(const hr_op_view *view, int n_in, uint32_t optional, hr_error *err) {
  if (view->n_in != n_in) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "takes %d operands, got %d", n_in, view->n_in);
  for (int i = 0; i < n_in; i++) {
    if (view->in[i].rank == 0 && !(optional & (1u << i)))
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d is missing", i);
  }
  return HR_OK;
}

hr_status hr__shape_float(const hr_op_view *view, int in, hr_error *err) {
  const hr_desc *desc = &view->in[in];
  char text[DESC_TEXT];
  bool sound = desc->rank >= 1 && desc->rank <= HR_RANK && dtype_is_float(desc->dtype);
  for (int i = 0; sound && i < desc->rank; i++)
    sound = desc->dim[i] >= 1;
  if (sound) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d is %s, expected f32, bf16 or f16 with sizes of at least 1",
                  in, desc_text(desc, text));
}

hr_status hr__shape_like(const hr_op_view *view, int in, const hr_desc *expected, hr_error *err) {
  const hr_desc *desc = &view->in[in];
  char has[DESC_TEXT], wants[DESC_TEXT];
  if (desc->rank == 0) return HR_OK;
  if (desc->dtype == expected->dtype && hr_desc_same_shape(desc, expected)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "operand %d is %s, expected %s", in, desc_text(desc, has),
                  desc_text(expected, wants));
}

hr_status hr__shape_like_float(const hr_op_view *view, int in, const hr_desc *expected, hr_error *err) {
  hr_desc same = *expected;
  if (dtype_is_float(view->in[in].dtype)) same.dtype = view->in[in].dtype;
  return hr__shape_like(view, in, &same, err);
}

hr_desc hr__shape_starts(const hr_desc *rows) {
  hr_desc starts = *rows;
  starts.dtype = HR_I32;
  starts.rank--;
  starts.dim[starts.rank] = 0;
  return starts;
}

static double desc_traffic(const hr_desc *desc) {
  return desc->rank == 0 ? 0.0 : (double)hr_desc_bytes(desc);
}

void hr__cost_stream(const hr_op_view *view, double flops, hr_cost *cost) {
  hr_dtype first = (view->n_in > 0 ? view->in[0] : view->out[0]).dtype;
  bool narrow = first == HR_BF16 || first == HR_F16;
  *cost = (hr_cost){.op_class = narrow ? HR_CLASS_STREAM_16 : HR_CLASS_STREAM, .flops = flops, .narrow = narrow};
  for (int i = 0; i < view->n_in; i++)
    cost->bytes += desc_traffic(&view->in[i]);
  for (int j = 0; j < view->n_out; j++)
    cost->bytes += desc_traffic(&view->out[j]);
}
