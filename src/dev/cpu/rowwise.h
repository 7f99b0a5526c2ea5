/* A product in f32 whose rows have the same bits alone and with others, for processors where oneDNN's have not.
 *
 * Before AVX-512 the library picks its kernel by the number of rows (one row: a product of matrix and vector; few rows:
 * one that does not repack B), and kernels differ in the order in which they sum over k. Here every element of C is one
 * chain of sums over k, in order, whatever m and n are and wherever the element is. It is as fast as the library: B is
 * repacked by panels of a few columns, which stay in the first-level cache, and A stays in the second.
 */
#ifndef HR_DEV_CPU_ROWWISE_H
#define HR_DEV_CPU_ROWWISE_H

#include "dev/cpu/gemm.h"

enum { HR_ROWWISE_K = 256 }; /* largest k */

/* Of the scratch. */
size_t hr__rowwise_bytes(int64_t k);

/* C (+)= A B or A Bt: all f32, rows any distance apart, k at most HR_ROWWISE_K, A not transposed. `avx2`: the processor
 * has that, and FMA. */
void hr__rowwise_run(const hr_gemm_spec *spec, bool avx2, const float *a, const float *b, float *c, float *scratch);

#endif
