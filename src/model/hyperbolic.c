/* See hyperbolic.h. */
#include "model/hyperbolic.h"

#include <float.h>
#include <math.h>

#include "op/concat.h"
#include "op/pointwise.h"

static int last_axis(const hr_builder *b, hr_id x) {
  return b->graph->values[x].desc.rank - 1;
}

/* Sum over the last axis, which stays with size 1. */
static hr_id last_sum(hr_builder *b, hr_id x) {
  if (b->status != HR_OK) return HR_NONE;
  return hr__reduce(b, HR_REDUCE_SUM, x, 1u << last_axis(b, x));
}

hr_id hr__exp_map(hr_builder *b, hr_id v, float curvature) {
  const float least = 1e-16f; /* of n squared: below it v counts as the origin, and has no gradient through n */
  if (b->status != HR_OK) return HR_NONE;
  hr_id squares = last_sum(b, hr__unary(b, HR_FORMULA_square, v, 0, 0));
  squares = hr__unary(b, HR_FORMULA_affine, squares, curvature, 0);
  hr_id n = hr__unary(b, HR_FORMULA_sqrt, hr__unary(b, HR_FORMULA_clamp, squares, least, FLT_MAX), 0, 0);
  hr_id first = hr__unary(b, HR_FORMULA_affine, hr__unary(b, HR_FORMULA_cosh, n, 0, 0), 1 / sqrtf(curvature), 0);
  hr_id factor = hr__binary(b, HR_FORMULA_div, hr__unary(b, HR_FORMULA_sinh, n, 0, 0), n);
  hr_id rest = hr__binary(b, HR_FORMULA_mul, v, factor);
  if (b->status != HR_OK) return HR_NONE;
  return hr__concat(b, (hr_id[]){first, rest}, 2, last_axis(b, v));
}

hr_id hr__lorentz_distance(hr_builder *b, hr_id u, hr_id v, float curvature) {
  const float least = 1 + 1e-5f;
  if (b->status != HR_OK) return HR_NONE;
  int axis = last_axis(b, u);
  hr_id all = last_sum(b, hr__binary(b, HR_FORMULA_mul, u, v)); /* with x0 of the wrong sign */
  hr_id first = hr__binary(b, HR_FORMULA_mul, hr__window(b, u, axis, 0, 1), hr__window(b, v, axis, 0, 1));
  hr_id minus = hr__binary(b, HR_FORMULA_sub, hr__unary(b, HR_FORMULA_affine, first, 2, 0), all);
  hr_id cosine = hr__unary(b, HR_FORMULA_clamp, hr__unary(b, HR_FORMULA_affine, minus, curvature, 0), least, FLT_MAX);
  return hr__unary(b, HR_FORMULA_affine, hr__unary(b, HR_FORMULA_acosh, cosine, 0, 0), 1 / sqrtf(curvature), 0);
}
