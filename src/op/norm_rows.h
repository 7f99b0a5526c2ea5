/* Rows of a norm on the CPU: how they fall to tasks, and sums over a row. */
#ifndef HR_OP_NORM_ROWS_H
#define HR_OP_NORM_ROWS_H

#include "op/norm.h"
#include "op/stream.h"

/* Runs `task` over tasks of a forward call; hr__norm_task says which rows are a task's. */
hr_status hr__norm_run(const hr_call *call, hr_task task);
hr_range hr__norm_task(const hr_call *call, int64_t task);

/* Runs `chunk` over chunks of rows of a backward call, then adds up the sums that they have left in the workspace, in
 * the order of the chunks. hr__norm_chunk says which rows are a chunk's; hr__norm_sums where its sums belong, f32
 * [weights, H], zero now; NULL where none is wanted. */
hr_status hr__norm_bwd_run(const hr_call *call, hr_task chunk);
hr_range hr__norm_chunk(const hr_call *call, int64_t chunk);
float *hr__norm_sums(const hr_call *call, int64_t chunk);

/* Sum of the row that begins at element `first`. */
HR_INLINE float hr__row_sum(const hr_tensor *x, int64_t first, int64_t columns, float *scratch) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *from = hr__load(x, first + column, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += from[i];
    total += sum;
  }
  return total;
}

/* Sum of (x - mean)^2: the mean is known, so that nothing cancels. */
HR_INLINE float hr__row_squares(const hr_tensor *x, int64_t first, int64_t columns, float mean, float *scratch) {
  float total = 0.0f;
  for (int64_t column = 0; column < columns; column += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - column);
    const float *from = hr__load(x, first + column, n, scratch);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += (from[i] - mean) * (from[i] - mean);
    total += sum;
  }
  return total;
}

#endif
