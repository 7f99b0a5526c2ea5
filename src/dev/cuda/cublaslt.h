/* Matrix products on the GPU. dev/cuda/cublaslt.cu is the only file that calls cuBLASLt.
 *
 * D [m,n] = op(A) [m,k] op(B) [k,n] (+ C [m,n]) (+ bias [n]), all row-major; A and B of one type, D, C and the bias
 * of another or the same; arithmetic is f32 (no TF32). The algorithm is chosen once, in prepare, and held to the
 * scratch that the plan gave the call.
 */
#ifndef HR_DEV_CUDA_CUBLASLT_H
#define HR_DEV_CUDA_CUBLASLT_H

#include "dev/cuda/launch.cuh"

struct hr_lt_product {
  const hr_tensor *a, *b;    /* stored [m,k] and [k,n]; transposed: [k,m] and [n,k] */
  const hr_tensor *c, *bias; /* NULL: absent. C may be D. */
  const hr_tensor *d;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

hr_status hr__lt_create(hr_cuda_state *state, hr_error *err);
void hr__lt_destroy(hr_cuda_state *state);

/* Library objects and algorithm for one call; runs the product once without effect, so that its code is loaded. */
hr_status hr__lt_prepare(const hr_call *call, const hr_lt_product *product, void **prepared, hr_error *err);
void hr__lt_release(void *prepared);
hr_status hr__lt_run(const hr_call *call, void *prepared);

#endif
