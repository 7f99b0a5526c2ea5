/* Steps of programs in bf16 that the device computes on two elements at once.
 *
 * A step is f32 arithmetic rounded to bf16. Of a sum, a difference and a product of two bf16 that is what the device's
 * own arithmetic gives, which rounds once: f32 has more than twice the digits and two, and a product is exact in it.
 * NaNs come out as one in both ways. Other formulas go through f32 (pointwise.cuh): a multiplication with an addition
 * behind it, for one, is rounded twice there.
 */
#ifndef HR_OP_POINTWISE_PAIRS_CUH
#define HR_OP_POINTWISE_PAIRS_CUH

#include "op/pointwise_program.cuh"

typedef __nv_bfloat162 pair;

__device__ __forceinline__ pair word_pair(uint32_t word) {
  pair both;
  memcpy(&both, &word, sizeof both);
  return both;
}

template <typename V, typename F> __device__ __forceinline__ void pairs_map(V &x, const V &y, const V &z, const F &f) {
#pragma unroll
  for (int w = 0; w < V::WORDS; w++) {
    pair made = f(word_pair(x.word[w]), word_pair(y.word[w]), word_pair(z.word[w]));
    memcpy(&x.word[w], &made, sizeof made);
  }
}

/* Bounds are rounded first: no bf16 lies between one and what it is rounded to. Not with a bound of 0, whose sign would
 * not be the formula's, and not with one that is NaN. */
template <typename V> __device__ __forceinline__ bool pairs_clamp(float p, float q, V &x, const V &y, const V &z) {
  pair low = __float2bfloat162_rn(p), high = __float2bfloat162_rn(q);
  float least = __low2float(low), most = __low2float(high);
  if (!(least < 0.0f || least > 0.0f) || !(most < 0.0f || most > 0.0f)) return false;
  pairs_map(x, y, z, [low, high](pair u, pair, pair) { return __hmax2_nan(__hmin2_nan(u, high), low); });
  return true;
}

#define PAIRS(name, part, expression)                                                                                  \
  case HR_FORMULA_##name *HR_PARTS + part:                                                                             \
    pairs_map(x, y, z, [zero, one](pair u, pair v, pair w) {                                                           \
      (void)u, (void)v, (void)w, (void)zero, (void)one;                                                                \
      return expression;                                                                                               \
    });                                                                                                                \
    return true;

/* x = formula(x, y, z), where the formula is one of these. */
template <typename V>
__device__ __forceinline__ bool pairs_run(const program_step &step, V &x, const V &y, const V &z) {
  const pair zero = __float2bfloat162_rn(0.0f), one = __float2bfloat162_rn(1.0f);
  switch (step.code) {
    PAIRS(add, HR_PART_VALUE, __hadd2_rn(u, v))
    PAIRS(add, HR_PART_SLOPE_A, __hmul2_rn(u, one))
    PAIRS(add, HR_PART_SLOPE_B, __hmul2_rn(u, one))
    PAIRS(sub, HR_PART_VALUE, __hsub2_rn(u, v))
    PAIRS(sub, HR_PART_SLOPE_A, __hmul2_rn(u, one))
    PAIRS(mul, HR_PART_VALUE, __hmul2_rn(u, v))
    PAIRS(mul, HR_PART_SLOPE_A, __hmul2_rn(u, w))
    PAIRS(mul, HR_PART_SLOPE_B, __hmul2_rn(u, v))
    PAIRS(square, HR_PART_VALUE, __hmul2_rn(u, u))
    PAIRS(relu, HR_PART_VALUE, __hmax2(u, zero))
    PAIRS(relu, HR_PART_SLOPE_A, __hmul2_rn(u, __hgt2(v, zero)))
  case HR_FORMULA_clamp *HR_PARTS + HR_PART_VALUE:
    return pairs_clamp(step.p, step.q, x, y, z);
  default:
    return false;
  }
}
#undef PAIRS

#endif
