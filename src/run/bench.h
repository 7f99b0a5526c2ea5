/* Timing of single kernels, outside of any plan: what measuring rates is made of. */
#ifndef HR_RUN_BENCH_H
#define HR_RUN_BENCH_H

#include "dev/cpu/gemm.h"
#include "graph/op.h"

/* One op at one shape. */
typedef struct hr_bench_case {
  const hr_op *op;
  hr_op_class op_class; /* the class it stands for */
  int n_in;
  hr_desc in[HR_OP_OPERANDS];
  const void *args;
  int64_t index_below; /* integer operands are drawn from [0, index_below) */
} hr_bench_case;

const hr_bench_case *hr__bench_cases(size_t *count); /* ops of a training step, of every class */
const hr_bench_case *hr__bench_empty(void);          /* an op that has next to nothing to do */

/* Median seconds of one call on a CPU device, and the op's cost. */
hr_status hr__bench_op(hr_device *device, const hr_bench_case *what, int threads, double *seconds, hr_cost *cost,
                       hr_error *err);
/* Seconds to wake `threads` threads of the pool and to see them done, with nothing to do. */
double hr__bench_dispatch(hr_device *device, int threads);
hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err);

#endif
