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

/* By the difference of the points: -c <u, v> - 1 = c/2 <u - v, u - v>, which keeps its digits where they are near each
 * other, and acosh(1 + s) = 2 asinh(sqrt(s / 2)). */
hr_id hr__lorentz_distance(hr_builder *b, hr_id u, hr_id v, float curvature) {
  const float least = 1e-5f;
  if (b->status != HR_OK) return HR_NONE;
  hr_id apart = hr__binary(b, HR_FORMULA_sub, u, v);
  if (b->status != HR_OK) return HR_NONE;
  hr_id all = last_sum(b, hr__unary(b, HR_FORMULA_square, apart, 0, 0)); /* with x0 of the wrong sign */
  hr_id first = hr__unary(b, HR_FORMULA_square, hr__window(b, apart, last_axis(b, apart), 0, 1), 0, 0);
  hr_id inner = hr__binary(b, HR_FORMULA_sub, all, hr__unary(b, HR_FORMULA_affine, first, 2, 0));
  hr_id s = hr__unary(b, HR_FORMULA_affine, inner, curvature / 2, 0);
  s = hr__unary(b, HR_FORMULA_clamp, s, least, FLT_MAX);
  hr_id half = hr__unary(b, HR_FORMULA_sqrt, hr__unary(b, HR_FORMULA_affine, s, 0.5f, 0), 0, 0);
  return hr__unary(b, HR_FORMULA_affine, hr__unary(b, HR_FORMULA_asinh, half, 0, 0), 2 / sqrtf(curvature), 0);
}
