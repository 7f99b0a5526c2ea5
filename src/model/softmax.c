/* See softmax.h. The largest element is taken off before e^x, so that nothing overflows; its gradient cancels. */
#include "model/softmax.h"

#include "op/pointwise.h"

static unsigned last_axis(const hr_builder *b, hr_id x) {
  return 1u << (b->graph->values[x].desc.rank - 1);
}

/* e^(x - largest); *largest [..., 1]. */
static hr_id shifted_exp(hr_builder *b, hr_id x, hr_id *largest) {
  *largest = hr__reduce(b, HR_REDUCE_MAX, x, last_axis(b, x));
  return hr__unary(b, HR_FORMULA_exp, hr__binary(b, HR_FORMULA_sub, x, *largest), 0, 0);
}

hr_id hr__softmax(hr_builder *b, hr_id x) {
  hr_id largest;
  if (b->status != HR_OK) return HR_NONE;
  hr_id e = shifted_exp(b, x, &largest);
  return hr__binary(b, HR_FORMULA_div, e, hr__reduce(b, HR_REDUCE_SUM, e, last_axis(b, x)));
}

hr_id hr__log_sum_exp(hr_builder *b, hr_id x) {
  hr_id largest;
  if (b->status != HR_OK) return HR_NONE;
  hr_id e = shifted_exp(b, x, &largest);
  hr_id log = hr__unary(b, HR_FORMULA_log, hr__reduce(b, HR_REDUCE_SUM, e, last_axis(b, x)), 0, 0);
  return hr__binary(b, HR_FORMULA_add, log, largest);
}
