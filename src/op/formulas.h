/* The formulas of pointwise ops: value and slope of each, written once for the CPU (C) and for CUDA.
 *
 * A line is all that an op of this kind needs here; its reference is a line in test/op/part_reference_programs.c.
 *
 *   HR_FORMULAS_1: F(name, flops, reads, value, slope)             y = value(a)
 *   HR_FORMULAS_2: F(name, flops, reads, value, slope_a, slope_b)  y = value(a, b)
 *
 * - a, b: operands; y: the value, inside of slopes; p, q: two numbers that come with a step of a program.
 * - reads: which operands the slopes need, A | B; what no slope needs is not kept for backward.
 * - slope: dy/da; a gradient is dy times it.
 * - flops: about how much work a value is, for planned times.
 *
 * Functions are those of HR_MATH(name): f32, on the CPU straight-line code (base/simd_math.h) that becomes vector
 * instructions.
 */
#ifndef HR_OP_FORMULAS_H
#define HR_OP_FORMULAS_H

enum { HR_READS_NONE = 0, HR_READS_A = 1, HR_READS_B = 2, HR_READS_BOTH = 3 };

#define HR_FORMULAS_1(F)                                                                                               \
  F(affine, 2, NONE, p *a + q, p)                                                                                      \
  F(abs, 1, A, a<0.0f ? -a : a, a> 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f)                                              \
  F(square, 1, A, a *a, 2.0f * a)                                                                                      \
  F(sqrt, 6, A, HR_MATH(sqrt)(a), 0.5f / y)                                                                            \
  F(rsqrt, 8, A, 1.0f / HR_MATH(sqrt)(a), -0.5f * y / a)                                                               \
  F(reciprocal, 6, A, 1.0f / a, -y * y)                                                                                \
  F(exp, 20, A, HR_MATH(exp)(a), y)                                                                                    \
  F(expm1, 20, A, HR_MATH(expm1)(a), y + 1.0f)                                                                         \
  F(log, 20, A, HR_MATH(log)(a), 1.0f / a)                                                                             \
  F(log1p, 24, A, HR_MATH(log1p)(a), 1.0f / (1.0f + a))                                                                \
  F(sigmoid, 24, A, 1.0f / (1.0f + HR_MATH(exp)(-a)), y * (1.0f - y))                                                  \
  F(tanh, 28, A, HR_MATH(tanh)(a), 1.0f - y * y)                                                                       \
  F(sinh, 28, A, HR_MATH(sinh)(a), HR_MATH(sqrt)(1.0f + y * y))                                                        \
  F(cosh, 28, A, HR_MATH(cosh)(a), HR_MATH(sinh)(a))                                                                   \
  F(asinh, 32, A, HR_MATH(asinh)(a), 1.0f / HR_MATH(sqrt)(a * a + 1.0f))                                               \
  F(acosh, 32, A, HR_MATH(acosh)(a), 1.0f / HR_MATH(sqrt)((a - 1.0f) * (a + 1.0f)))                                    \
  F(relu, 1, A, a > 0.0f ? a : 0.0f, a > 0.0f ? 1.0f : 0.0f)                                                           \
  F(leaky_relu, 2, A, a > 0.0f ? a : p * a, a > 0.0f ? 1.0f : p)                                                       \
  F(silu, 24, A, a / (1.0f + HR_MATH(exp)(-a)), HR_SILU_SLOPE(a))                                                      \
  F(gelu, 40, A, a *HR_MATH(normcdf)(a), HR_GELU_SLOPE(a))                                                             \
  F(softplus, 44, A, (a > 0.0f ? a : 0.0f) + HR_MATH(log1p)(HR_MATH(exp)(a < 0.0f ? a : -a)),                          \
    1.0f / (1.0f + HR_MATH(exp)(-a)))                                                                                  \
  F(clamp, 2, A, HR_AT_LEAST(a > q ? q : a, p), a<p || a> q ? 0.0f : 1.0f)                                             \
  F(sign, 1, NONE, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f, 0.0f)                                                    \
  F(floor, 4, NONE, HR_MATH(floor)(a), 0.0f)

#define HR_FORMULAS_2(F)                                                                                               \
  F(add, 1, NONE, a + b, 1.0f, 1.0f)                                                                                   \
  F(sub, 1, NONE, a - b, 1.0f, -1.0f)                                                                                  \
  F(mul, 1, BOTH, a *b, b, a)                                                                                          \
  F(div, 6, BOTH, a / b, 1.0f / b, -(a / b) / b)                                                                       \
  F(max, 1, BOTH, a > b ? a : b, a > b ? 1.0f : a == b ? 0.5f : 0.0f, a < b ? 1.0f : a == b ? 0.5f : 0.0f)             \
  F(min, 1, BOTH, a < b ? a : b, a < b ? 1.0f : a == b ? 0.5f : 0.0f, a > b ? 1.0f : a == b ? 0.5f : 0.0f)             \
  F(less, 1, NONE, a < b ? 1.0f : 0.0f, 0.0f, 0.0f)                                                                    \
  F(equal, 1, NONE, a == b ? 1.0f : 0.0f, 0.0f, 0.0f)                                                                  \
  F(keep, 1, B, b != 0.0f ? a : 0.0f, b != 0.0f ? 1.0f : 0.0f, 0.0f)                                                   \
  F(drop, 1, B, b != 0.0f ? 0.0f : a, b != 0.0f ? 0.0f : 1.0f, 0.0f)

#define HR_AT_LEAST(a, p) ((a) < (p) ? (p) : (a)) /* written so, both halves of clamp are one instruction */
#define HR_SILU_SLOPE(a)  hr__silu_slope(a)
#define HR_GELU_SLOPE(a)  (HR_MATH(normcdf)(a) + 0.398942280f * (a)*HR_MATH(exp)(-0.5f * (a) * (a)))

/* Formulas by number. */
typedef enum hr_formula {
#define HR_NAME_1(name, flops, reads, value, slope)            HR_FORMULA_##name,
#define HR_NAME_2(name, flops, reads, value, slope_a, slope_b) HR_FORMULA_##name,
  HR_FORMULAS_1(HR_NAME_1) HR_FORMULAS_2(HR_NAME_2)
#undef HR_NAME_1
#undef HR_NAME_2
      HR_FORMULA_COUNT
} hr_formula;

/* What a step computes of a formula: the value, or dy times a slope (operands dy, a, b). */
typedef enum hr_part { HR_PART_VALUE, HR_PART_SLOPE_A, HR_PART_SLOPE_B, HR_PARTS } hr_part;

#ifdef __CUDACC__
#define HR_FORMULA_FUNCTION __device__ static inline __attribute__((always_inline))
#define HR_MATH(name)       name##f
#else
#include "base/simd_math.h"
#define HR_FORMULA_FUNCTION static inline __attribute__((always_inline))
#define HR_MATH(name)       hr__##name##f
#endif

HR_FORMULA_FUNCTION float hr__silu_slope(float a) {
  float s = 1.0f / (1.0f + HR_MATH(exp)(-a));
  return s * (1.0f + a * (1.0f - s));
}

/* hr__value_NAME(a, b, p, q), hr__slope_a_NAME(dy, a, b, p, q), hr__slope_b_NAME: unused arguments cost nothing. */
#define HR_FUNCTIONS_2(name, flops, reads, value, slope_a, slope_b)                                                    \
  HR_FORMULA_FUNCTION float hr__value_##name(float a, float b, float p, float q) {                                     \
    (void)a, (void)b, (void)p, (void)q;                                                                                \
    return (value);                                                                                                    \
  }                                                                                                                    \
  HR_FORMULA_FUNCTION float hr__slope_a_##name(float dy, float a, float b, float p, float q) {                         \
    float y = hr__value_##name(a, b, p, q);                                                                            \
    (void)y;                                                                                                           \
    return dy * (slope_a);                                                                                             \
  }                                                                                                                    \
  HR_FORMULA_FUNCTION float hr__slope_b_##name(float dy, float a, float b, float p, float q) {                         \
    float y = hr__value_##name(a, b, p, q);                                                                            \
    (void)y;                                                                                                           \
    return dy * (slope_b);                                                                                             \
  }
#define HR_FUNCTIONS_1(name, flops, reads, value, slope) HR_FUNCTIONS_2(name, flops, reads, value, slope, 0.0f)
HR_FORMULAS_1(HR_FUNCTIONS_1)
HR_FORMULAS_2(HR_FUNCTIONS_2)
#undef HR_FUNCTIONS_1
#undef HR_FUNCTIONS_2

#endif
