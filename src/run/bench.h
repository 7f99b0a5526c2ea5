/* Timing of single kernels, outside of any plan: what measuring rates is made of.
 *
 * Kernels run on operands out of a ring: a stretch of memory larger than a processor's share of the last cache. Every
 * call takes the next position, so that what it reads is as cold as in a training step.
 */
#ifndef HR_RUN_BENCH_H
#define HR_RUN_BENCH_H

#include "dev/cpu/gemm.h"
#include "graph/op.h"

typedef struct hr_bench_ring {
  char *base;
  size_t bytes;
} hr_bench_ring;

hr_status hr__bench_ring_create(hr_bench_ring *ring, hr_error *err);
void hr__bench_ring_destroy(hr_bench_ring *ring);

/* One op at one shape. */
typedef struct hr_bench_case {
  const hr_op *op;
  hr_op_class op_class; /* the class it stands for */
  int n_in;
  hr_desc in[HR_OP_OPERANDS];
  const void *args;
} hr_bench_case;

const hr_bench_case *hr__bench_cases(size_t *count); /* ops of a training step, of every class */
const hr_bench_case *hr__bench_empty(void);          /* an op that has next to nothing to do */

/* Median seconds of one call on a CPU device, and the op's cost. */
hr_status hr__bench_op(hr_device *device, hr_bench_ring *ring, const hr_bench_case *what, int threads, double *seconds,
                       hr_cost *cost, hr_error *err);
/* The same for any operands; the ring grows where it is smaller than they are. `dead` has bit i where nothing reads
 * operand i afterwards, so that a result may take it over. */
hr_status hr__bench_node(hr_device *device, hr_bench_ring *ring, const hr_op *op, const hr_op_view *view, uint32_t dead,
                         int threads, double *seconds, hr_error *err);
/* Bytes of all operands and results, and of the scratch. False: more than a size can hold. */
bool hr__bench_bytes(const hr_op *op, const hr_op_view *view, int threads, size_t *bytes);
/* Seconds to wake `threads` threads of the pool and to see them done, with nothing to do. */
double hr__bench_dispatch(hr_device *device, int threads);
hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err);

#endif
