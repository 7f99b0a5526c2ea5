/* Matrix products on the GPU. dev/cuda/cublaslt.cu is the only file that calls cuBLASLt.
 *
 * D [m,n] = op(A) [m,k] op(B) [k,n] (+ C [m,n]) (+ bias [n]), all row-major with rows `ld` elements apart; A and B of
 * one type, D, C and the bias of another or the same; arithmetic is f32 (no TF32).
 *
 * The algorithm is chosen in prepare, once for each kind of product: the library's first choice says what the bits of
 * the result are, and of all its proposals that give the same bits the fastest is taken. So speed never changes
 * results, and a choice by the clock is as good as a fixed one.

 *
 * The library adds to a 16-bit result in place by another way than out of place, with other roundings, when it sees
 * that beta is 1. So products whose C may be D read it from the device, where it cannot see it, and have one way; those
 * that are declared apart (hr_op.not_in_place) show it and have the other, which is the faster one.
 */
#ifndef HR_DEV_CUDA_CUBLASLT_H
#define HR_DEV_CUDA_CUBLASLT_H

#include "dev/cuda/launch.cuh"

struct hr_lt_shape {
  int64_t m, n, k;
  int64_t lda, ldb, ldd; /* of the rows as stored; ldd of C as well */
  bool transpose_a;      /* A is stored [k,m] */
  bool transpose_b;      /* B is stored [n,k] */
  bool add, bias;        /* there is a C, a bias */
  bool apart;            /* C is never D; set, the product may be faster */
  hr_dtype in, out;      /* of A and B; of D, C and bias */
};

struct hr_lt_operands {
  const void *a, *b;
  const void *c, *bias; /* C may be D */
  void *d;
};

struct hr_lt_product; /* one kind of product with its algorithm; shared, and owned by the device */

hr_status hr__lt_create(hr_cuda_state *state, hr_error *err);
void hr__lt_destroy(hr_cuda_state *state);

/* Finds or chooses. A kind that is new runs on its operands, which are zeros afterwards: while kernels are prepared the
 * arena holds nothing yet. `scratch` has hr__lt_bytes bytes or more. */
hr_status hr__lt_prepare(const hr_call *call, const hr_lt_shape *shape, const hr_lt_operands *at, void *scratch,
                         size_t scratch_bytes, const hr_lt_product **out, hr_error *err);
hr_status hr__lt_run(const hr_call *call, const hr_lt_product *product, const hr_lt_operands *at, void *scratch);

#endif
