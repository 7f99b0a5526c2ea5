/* What the files of the bench share. */
#ifndef HR_MEASURE_BENCHING_H
#define HR_MEASURE_BENCHING_H

#include "measure/bench.h"

enum {
  HR_BENCH_LINE = 256, /* what operands are aligned to */
  HR_BENCH_CALLS = 15  /* on the CPU, at most, after the one that warms up */
};

double hr__bench_now(void); /* seconds of a clock that does not jump */

/* Sorts them. */
double hr__bench_median(double *times, int count);

/* --- bench_ring.c ------------------------------------------------------------------------------------------------- */

/* Memory that is handed out in lines. */
typedef struct hr_bench_block {
  char *base;
  size_t used, bytes;
} hr_bench_block;
void *hr__bench_take(hr_bench_block *b, size_t bytes);

hr_status hr__bench_map(size_t bytes, char **base, hr_error *err); /* of the host; ended by munmap */

/* To that many bytes at least; what was in it is lost. */
hr_status hr__bench_ring_grow(hr_bench_ring *ring, size_t bytes, hr_error *err);
void hr__bench_ring_fill(const hr_bench_ring *ring);
hr_status hr__bench_pattern(const hr_bench_ring *ring, char *data, size_t bytes, hr_error *err);

/* --- bench_bind.c ------------------------------------------------------------------------------------------------- */

hr_status hr__bench_bind(hr_device *device, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                         hr_bench_block *memory, const hr_launch *first, hr_tensor *tensors, hr_launch *launch,
                         hr_error *err);
/* Numbers for its operands. */
hr_status hr__bench_fill(const hr_bench_ring *ring, const hr_launch *launch, const hr_op_view *view, hr_error *err);

/* --- bench_calls.c ------------------------------------------------------------------------------------------------ */

/* Call number `index`; -1 is the one that warms up. */
typedef hr_status (*hr_bench_call)(void *arg, int index);
hr_status hr__bench_calls(hr_bench_call call, void *arg, double *seconds); /* the median */

/* --- bench_replay.c ----------------------------------------------------------------------------------------------- */

hr_status hr__bench_clock_create(hr_bench_ring *ring, hr_error *err);
void hr__bench_clock_destroy(hr_bench_ring *ring);

/* Seconds of a launch out of `count`, which go round. */
hr_status hr__bench_recorded(hr_bench_ring *ring, const hr_launch *launches, size_t count, bool follows_clocks,
                             double *seconds, hr_error *err);

#endif
