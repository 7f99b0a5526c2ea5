/* Timing of single kernels, outside of any plan: what measuring rates is made of.
 *
 * Kernels run on operands out of a ring: a stretch of the device's memory larger than a processor's share of the last
 * cache, or than a GPU's. Every call takes the next position, so that what it reads is as cold as in a training step.
 * On the CPU calls are timed one by one; on a GPU they are recorded as a step is and replayed, so that a node's time
 * has the gap to the next one in it.
 *
 * A training step holds a GPU at its power limit, and there its clocks are lower than in the moments after a pause: by
 * a seventh on an H200, reached within some tenths of a second. To heat up before every measurement would take minutes,
 * and one factor for all would have to know how far clocks have sunk in each. So a large product goes along as a clock:
 * what it takes when it has run for long is found once, and it runs right before and right after all that is measured.
 * Products and attention, which follow the clocks, are then given the time that they take when it takes its long-run
 * time; what waits for memory, whose clock stays, is left as it is.
 */
#ifndef HR_MEASURE_BENCH_H
#define HR_MEASURE_BENCH_H

#include "dev/cpu/gemm.h"
#include "graph/op.h"

typedef struct hr_bench_clock hr_bench_clock;
typedef struct hr_bench_ring {
  hr_device *device;
  hr_bench_clock *clock; /* NULL on devices without marks, whose clocks are as they are */
  char *base;
  size_t bytes;
  char *pattern;         /* on a GPU: HR_BENCH_PATTERN bytes of the host's, pinned */
  double sample_seconds; /* on a GPU: length of one of the samples that a median is taken of */
} hr_bench_ring;
enum { HR_BENCH_PATTERN = 32 << 20 };

hr_status hr__bench_ring_create(hr_device *device, hr_bench_ring *ring, hr_error *err);
void hr__bench_ring_destroy(hr_bench_ring *ring);

/* One op at one shape. */
typedef struct hr_bench_case {
  const hr_op *op;
  hr_op_class op_class; /* the class it stands for */
  int n_in;
  hr_desc in[HR_OP_OPERANDS];
  const void *args;
} hr_bench_case;

/* Ops of a training step, of every class, as large as a kind of device needs them. */
const hr_bench_case *hr__bench_cases(hr_device_kind kind, size_t *count);
const hr_bench_case *hr__bench_empty(void); /* an op that has next to nothing to do */

/* The device's kernel of an op; NULL: it has none. */
const hr_kernel *hr__bench_kernel(hr_device *device, const hr_op *op);

/* Median seconds of one call, as in a step, and the op's cost. */
hr_status hr__bench_op(hr_bench_ring *ring, const hr_bench_case *what, int threads, double *seconds, hr_cost *cost,
                       hr_error *err);
/* The same for any operands; the ring grows where it is smaller than they are. `dead` has bit i where nothing reads
 * operand i afterwards, so that a result may take it over. */
hr_status hr__bench_node(hr_bench_ring *ring, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                         double *seconds, hr_error *err);
/* Bytes of all operands and results, and of the scratch. False: more than a size can hold. */
bool hr__bench_bytes(const hr_device *device, const hr_op *op, const hr_op_view *view, int threads, size_t *bytes);
/* Seconds to wake `threads` threads of the pool and to see them done, with nothing to do. */
double hr__bench_dispatch(hr_device *device, int threads);
/* A matrix product of the library that the CPU device has. */
hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err);

#endif
