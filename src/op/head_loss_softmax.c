/* What head_loss does with a chunk's logits: the softmax over its rows, and the gradient of the bias. */
#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "op/head_loss_parts.h"
#include "op/stream.h"

enum {
  ROW_TASK = 16384, /* logits in one task of the softmax */
  LANES = 32,       /* maxima side by side */
  DB_COLUMNS = 256  /* columns of one task that sums db */
};

HR_INLINE float row_max(const float *x, int64_t n) {
  float lane[LANES];
  int64_t i = 0;
  for (int j = 0; j < LANES; j++)
    lane[j] = -INFINITY;
  for (; i + LANES <= n; i += LANES)
#pragma omp simd
    for (int j = 0; j < LANES; j++)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < n; i++)
    lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
  return lane[0];
}

HR_INLINE void row_add(float *x, const hr_tensor *bias, int64_t n) {
  float block[HR_BLOCK];
  for (int64_t first = 0; first < n; first += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, n - first);
    const float *add = hr__load(bias, first, count, block);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
      x[first + i] += add[i];
  }
}

/* x becomes exp(x - most); returns the sum. */
HR_INLINE double row_exp(float *x, int64_t n, float most) {
  double total = 0.0;
  for (int64_t first = 0; first < n; first += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, n - first);
    float *block = x + first, sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
      block[i] = hr__expf(block[i] - most);
      sum += block[i];
    }
    total += (double)sum;
  }
  return total;
}

static int64_t task_rows(int64_t columns) {
  return 1 + ROW_TASK / columns;
}

HR_CLONES static void softmax_task(void *arg, int64_t task, int worker) {
  const hr_head_softmax *job = arg;
  hr_range range = hr__chunk(job->rows, task_rows(job->columns), task);
  int64_t n = job->columns;
  (void)worker;
  for (int64_t row = range.first; row < range.end; row++) {
    float *x = job->logits + row * n;
    int32_t target = job->targets[row];
    job->losses[row] = 0.0;
    if (target < 0 || target >= n) {
      if (job->backward) memset(x, 0, (size_t)n * sizeof *x);
      continue;
    }
    if (job->bias->data) row_add(x, job->bias, n);
    float most = row_max(x, n), chosen = x[target];
    double sum = row_exp(x, n, most);
    job->losses[row] = log(sum) + (double)most - (double)chosen;
    if (!job->backward) continue;
    float factor = (float)((double)job->scale / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      x[i] *= factor;
    x[target] -= job->scale;
  }
}

void hr__head_softmax(const hr_call *call, const hr_head_softmax *job) {
  int64_t tasks = hr__chunks(job->rows, task_rows(job->columns));
  hr__pool_run(call->device->pool, call->threads, tasks, softmax_task, (void *)(uintptr_t)job);
}

/* One block of columns. */
HR_CLONES static void db_task(void *arg, int64_t task, int worker) {
  const hr_head_db *job = arg;
  hr_range range = hr__chunk(job->columns, DB_COLUMNS, task);
  int64_t n = range.end - range.first;
  double total[DB_COLUMNS];
  float block[DB_COLUMNS];
  (void)worker;
  const float *before = job->before->data ? hr__load(job->before, range.first, n, block) : NULL;
  for (int64_t i = 0; i < n; i++)
    total[i] = before ? (double)before[i] : 0.0;
  for (int64_t row = 0; row < job->rows; row++) {
    const float *from = job->dlogits + row * job->columns + range.first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      total[i] += (double)from[i];
  }
  float *to = hr__target(job->db, range.first, block);
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)total[i];
  hr__store(job->db, range.first, n, to);
}

void hr__head_db(const hr_call *call, const hr_head_db *job) {
  hr__pool_run(call->device->pool, call->threads, hr__chunks(job->columns, DB_COLUMNS), db_task,
               (void *)(uintptr_t)job);
}
