/* The steps of programs on the CPU: one loop for every value and slope of op/formulas.h, in f32, rounded on the way to
 * what a tensor of the step's type would hold. */
#include <string.h>

#include "op/pointwise_parts.h"
#include "op/stream.h"

enum { CHEAP = 20 }; /* flops of a formula below which its loop rounds to bf16 itself */

/* Rounds to bf16 where NaNs have nothing in their lower half, so that rounding leaves them what they are: those of
 * operands in bf16, and those that arithmetic makes. */
HR_INLINE float narrow_rounded(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  word = (word + 0x7fffu + ((word >> 16) & 1u)) & 0xffff0000u;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Cheap formulas would lose much by a second pass over the tile. Others gain by one: compilers pull the rounding into
 * the cases of an exponential, and then do not vectorise the loop. */
#define LOOP(flops, expression)                                                                                        \
  if (round == HR_BF16 && (flops) < CHEAP && narrow) {                                                                 \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = narrow_rounded(expression);                            \
    return;                                                                                                            \
  }                                                                                                                    \
  _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = (expression);                                            \
  break;

#define LOOPS_1(name, flops, reads, value, slope)                                                                      \
  case HR_FORMULA_##name *HR_PARTS + HR_PART_VALUE:                                                                    \
    LOOP(flops, hr__value_##name(x[i], 0.0f, p, q))                                                                    \
  case HR_FORMULA_##name *HR_PARTS + HR_PART_SLOPE_A:                                                                  \
    LOOP(flops, hr__slope_a_##name(x[i], y[i], 0.0f, p, q))

#define LOOPS_2(name, flops, reads, value, slope_a, slope_b)                                                           \
  case HR_FORMULA_##name *HR_PARTS + HR_PART_VALUE:                                                                    \
    LOOP(flops, hr__value_##name(x[i], y[i], p, q))                                                                    \
  case HR_FORMULA_##name *HR_PARTS + HR_PART_SLOPE_A:                                                                  \
    LOOP(flops, hr__slope_a_##name(x[i], y[i], z[i], p, q))                                                            \
  case HR_FORMULA_##name *HR_PARTS + HR_PART_SLOPE_B:                                                                  \
    LOOP(flops, hr__slope_b_##name(x[i], y[i], z[i], p, q))

HR_CLONES void hr__step_run(const hr_step *step, int round, bool narrow, int64_t n, const float *const from[3],
                            float *to) {
  const float *x = from[0], *y = from[1], *z = from[2];
  const float p = step->p, q = step->q;
  switch (step->formula * HR_PARTS + step->part) {
    HR_FORMULAS_1(LOOPS_1)
    HR_FORMULAS_2(LOOPS_2)
  default:
    break;
  }
  if (round == HR_BF16 || round == HR_F16) hr__round((hr_dtype)round, n, to);
}
