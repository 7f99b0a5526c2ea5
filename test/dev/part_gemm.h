/* A product with its operands, its result by hand in f64, and a guarded workspace. */
#ifndef TEST_DEV_PART_GEMM_H
#define TEST_DEV_PART_GEMM_H

#include "dev/cpu/gemm.h"

typedef struct gemm_case {
  hr_gemm_spec spec;
  void *a, *b, *c;  /* c: what is there before the product */
  void *result;     /* c after the last run */
  double *expected; /* [m, n] */
  size_t c_bytes;
} gemm_case;

void gemm_case_init(gemm_case *g, hr_gemm_spec spec, unsigned seed);
void gemm_case_fini(gemm_case *g);

/* Runs on a pool of `threads` (0: hr__gemm_run_here as worker 0) and checks guards and the gaps between rows of C. */
void gemm_case_run(gemm_case *g, int threads);

/* |result - expected| / |expected| in the L2 norm. */
double gemm_case_error(const gemm_case *g);

/* A spec with tight or padded rows. */
hr_gemm_spec gemm_spec_make(int64_t m, int64_t n, int64_t k, int transposes, bool accumulate, hr_dtype a, hr_dtype b,
                            hr_dtype c, int64_t padding);

#endif
