/* The formula of rope on CUDA: a pair of a head, rotated by an angle. */
#ifndef HR_OP_ROPE_CUH
#define HR_OP_ROPE_CUH

__device__ inline float2 pair_rotate(float left, float right, float cosine, float sine) {
  return {__fmaf_rn(left, cosine, -(right * sine)), __fmaf_rn(right, cosine, left * sine)};
}

#endif
