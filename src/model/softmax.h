/* Softmax over the last axis of x, and what is made of it, as programs (op/pointwise.h). */
#ifndef HR_MODEL_SOFTMAX_H
#define HR_MODEL_SOFTMAX_H

#include "graph/builder.h"

/* e^x / sum of e^x. */
hr_id hr__softmax(hr_builder *b, hr_id x);
/* log(sum of e^x), [..., 1]. */
hr_id hr__log_sum_exp(hr_builder *b, hr_id x);

#endif
