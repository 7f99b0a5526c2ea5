/* A product with its operands, its result by hand in f64, and a guarded workspace. */
#ifndef TEST_DEV_PART_GEMM_H
#define TEST_DEV_PART_GEMM_H

#include "dev/cpu/gemm.h"

typedef struct gemm_case {
  hr_gemm_spec spec;
  void *a, *b, *c;  /* c: what is there before the product */
  void *result;     /* c after the last run */
  double *expected; /* [m, n], of A as it is stored */
  double *rounded;  /* [m, n], of A rounded to bf16: what a processor that multiplies bf16 makes of an f32 A beside a
                     * bf16 B; NULL: A is multiplied as it is everywhere */
  double *spread;   /* [m, n], root of the sum of squares of all terms */
  size_t c_bytes;
} gemm_case;

/* Draws the operands. */
void gemm_case_init(gemm_case *g, hr_gemm_spec spec, unsigned seed);
/* Computes the result by hand, which gemm_case_error compares with. */
void gemm_case_expect(gemm_case *g);
void gemm_case_fini(gemm_case *g);

/* Runs on a pool of `threads` (0: hr__gemm_run_here as worker 0) and checks guards and the gaps between rows of C. */
void gemm_case_run(gemm_case *g, int threads);

/* How far the result is off, as a part of what roundings allow (1: all of it), in the L2 norm.
 *
 * - Terms are multiplied and added in f32 in any order: k + 1 roundings of values that are at most as large as partial
 *   sums. Terms here have random signs, so partial sums are about as large as the spread, and errors add up like a
 *   random walk: (1 + sqrt(k + 1)) units of f32 times the spread. For k = 1 no two roundings can be more than that.
 * - A 16-bit result is rounded once more, by at most its unit times its size.
 * - Nothing else is rounded: B is exact, and A where it is not `rounded`. */
double gemm_case_error(const gemm_case *g);

/* A spec with tight or padded rows. */
hr_gemm_spec gemm_spec_make(int64_t m, int64_t n, int64_t k, int transposes, bool accumulate, hr_dtype a, hr_dtype b,
                            hr_dtype c, int64_t padding);

#endif
