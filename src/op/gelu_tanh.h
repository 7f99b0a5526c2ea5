/* The part of x that gelu by tanh lets through, and its slope, on the CPU: for gelu and for what it gates (swiglu.h).
 *
 *   (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))   with 2 u = HR_GELU_SCALE (x + HR_GELU_CUBE x^3)
 */
#ifndef HR_OP_GELU_TANH_H
#define HR_OP_GELU_TANH_H

#include "base/simd_math.h"
#include "op/stream.h"

#define HR_GELU_SCALE 1.59576912f /* 2 sqrt(2 / pi) */
#define HR_GELU_CUBE  0.044715f

HR_INLINE float hr__gelu_tanh_part(float x) {
  return 1.0f / (1.0f + hr__expf(-HR_GELU_SCALE * (x + HR_GELU_CUBE * x * x * x)));
}

/* Of x times that part, s. */
HR_INLINE float hr__gelu_tanh_slope(float x, float s) {
  return s + x * s * (1.0f - s) * (HR_GELU_SCALE * (1.0f + 3.0f * HR_GELU_CUBE * x * x));
}

#endif
