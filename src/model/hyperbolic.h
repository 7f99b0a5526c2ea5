/* Hyperbolic space as the sheet of a hyperboloid (Lorentz model): points x = (x0, x1, ...) with
 * <x, x> = -x0^2 + x1^2 + ... = -1/c, where c is the curvature. In f32: cosh and sinh grow too fast for less.
 */
#ifndef HR_MODEL_HYPERBOLIC_H
#define HR_MODEL_HYPERBOLIC_H

#include "graph/builder.h"

/* The exponential map at the origin: v [..., d] -> [..., 1 + d], (cosh n, sinh n · v/n) / sqrt(c) with
 * n = sqrt(c) |v|, at least 1e-8. */
hr_id hr__exp_map(hr_builder *b, hr_id v, float curvature);

/* Distance of points, [..., 1 + d] each and broadcast as operands of programs are: acosh(-c <u, v>) / sqrt(c), with
 * -c <u, v> at least 1 + 1e-5. The last axis stays, with size 1. */
hr_id hr__lorentz_distance(hr_builder *b, hr_id u, hr_id v, float curvature);

#endif
