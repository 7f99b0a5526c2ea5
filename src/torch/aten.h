/* ATen: the calls that models of the public libraries are made of, as tape.h runs them. Each has one table entry
 * (hr_aten) with its name and its backward, beside the function that makes its result and keeps what backward reads.
 *
 * x.to(dtype) and the like give the tensor itself where there is nothing to do, as PyTorch does.
 */
#ifndef HR_TORCH_ATEN_H
#define HR_TORCH_ATEN_H

#include "torch/tape.h"

/* aten_pointwise.c */
hr_tt hr__at_to(hr_tape *t, hr_tt x, hr_dtype dtype);
hr_tt hr__at_mul(hr_tape *t, hr_tt a, hr_tt b);
hr_tt hr__at_add(hr_tape *t, hr_tt a, hr_tt b);
hr_tt hr__at_scale(hr_tape *t, hr_tt x);  /* by a number of Python's */
hr_tt hr__at_shift(hr_tape *t, hr_tt x);  /* plus a number of Python's */
hr_tt hr__at_divide(hr_tape *t, hr_tt x); /* by a number of Python's */
hr_tt hr__at_neg(hr_tape *t, hr_tt x);
hr_tt hr__at_square(hr_tape *t, hr_tt x); /* pow(x, 2) */
hr_tt hr__at_rsqrt(hr_tape *t, hr_tt x);
hr_tt hr__at_silu(hr_tape *t, hr_tt x);
hr_tt hr__at_gelu(hr_tape *t, hr_tt x);
hr_tt hr__at_dropout(hr_tape *t, hr_tt x, double rate); /* x itself where the rate is 0 */

/* aten_shape.c. heads: [B, T, n D] -> [B, n, T, D], a view; merged: back, a copy where the memory does not lie so. */
hr_tt hr__at_heads(hr_tape *t, hr_tt x, int64_t count);
hr_tt hr__at_merged(hr_tape *t, hr_tt x);
hr_tt hr__at_split_heads(hr_tape *t, hr_tt x, int64_t count); /* [B, T, n D] -> [B, T, n, D], a view */
hr_tt hr__at_turned_heads(hr_tape *t, hr_tt x);               /* [B, T, n, D] -> [B, n, T, D], a view */
hr_tt hr__at_half_of(hr_tape *t, hr_tt x, int which);         /* of the last axis: a view, 0 or 1 */
hr_tt hr__at_joined(hr_tape *t, hr_tt a, hr_tt b);            /* cat along the last axis */
hr_tt hr__at_repeated(hr_tape *t, hr_tt x, int64_t times);    /* heads, each so often: repeat_interleave */
hr_tt hr__at_expanded(hr_tape *t, hr_tt x, int64_t times); /* the same by expand and reshape: a view of a single head */
hr_tt hr__at_clone(hr_tape *t, hr_tt x);
hr_tt hr__at_reshaped(hr_tape *t, hr_tt x, hr_tdims dims); /* a view where memory lies in order, else a copy */

/* aten_reduce.c */
hr_tt hr__at_mean(hr_tape *t, hr_tt x); /* over the last axis, which stays with length 1 */
hr_tt hr__at_softmax(hr_tape *t, hr_tt x);
/* Rows that are masked as a whole get 0. */
hr_tt hr__at_safe_softmax(hr_tape *t, hr_tt x);
/* In f32: x is cast first, but for f16, which the kernel reads itself. */
hr_tt hr__at_wide_softmax(hr_tape *t, hr_tt x);
hr_tt hr__at_log_softmax(hr_tape *t, hr_tt x);
hr_tt hr__at_layer_norm(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias);

/* aten_product.c. x [..., in], weight [out, in], bias [out] or NONE. Under autocast in its type. */
hr_tt hr__at_linear(hr_tape *t, hr_tt x, hr_tt weight, hr_tt bias);
/* a [B, n, rows, inner] times b [B, n, inner, columns]. `turned`: b is given as [B, n, columns, inner]. */
hr_tt hr__at_matmul(hr_tape *t, hr_tt a, hr_tt b, bool turned);
/* A product that no gradient flows through, by the form of its result. */
hr_tt hr__at_product_made(hr_tape *t, hr_tdims dims, hr_dtype dtype);

/* aten_attention.c: scaled_dot_product_attention. */
typedef enum hr_sdpa { HR_SDPA_AUTO, HR_SDPA_CUDNN, HR_SDPA_FLASH, HR_SDPA_EFFICIENT, HR_SDPA_MATH } hr_sdpa;
typedef struct hr_sdpa_rules {
  hr_sdpa first;    /* AUTO: what PyTorch's own order gives */
  bool cudnn_first; /* compute 9.x and 10.x; else flash, and cuDNN last */
} hr_sdpa_rules;
typedef struct hr_sdpa_args {
  hr_sdpa_rules rules;
  bool causal;
  double dropout;
  hr_tt mask; /* or NONE */
} hr_sdpa_args;
/* q [B, heads, T, D], k and v [B, kv_heads, T, D]. */
hr_tt hr__at_sdpa(hr_tape *t, hr_tt q, hr_tt k, hr_tt v, const hr_sdpa_args *args);
/* The implementation that it takes for them. */
hr_sdpa hr__at_sdpa_choice(const hr_tape *t, hr_tt q, hr_tt k, const hr_sdpa_args *args);

/* aten_table.c */
hr_tt hr__at_embedding(hr_tape *t, hr_tt weight, hr_tt ids);
hr_tt hr__at_nll_loss(hr_tape *t, hr_tt log_probabilities, hr_tt targets); /* their mean */

#endif
