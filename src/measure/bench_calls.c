/* Timing on the CPU, call by call: one to warm up, then calls until there are enough of them or enough time is gone. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "measure/benching.h"

enum { CALLS_LEAST = 3 };
static const double enough_seconds = 0.02, most_seconds = 0.25;

double hr__bench_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double hr__bench_median(double *times, int count) {
  qsort(times, (size_t)count, sizeof times[0], ascending);
  return times[count / 2];
}

hr_status hr__bench_calls(hr_bench_call call, void *arg, double *seconds) {
  double times[HR_BENCH_CALLS];
  HR_TRY(call(arg, -1));
  int count = 0;
  double begin = hr__bench_now(), end = begin;
  while (count < HR_BENCH_CALLS && end - begin < (count < CALLS_LEAST ? most_seconds : enough_seconds)) {
    double at = hr__bench_now();
    HR_TRY(call(arg, count));
    end = hr__bench_now();
    times[count++] = end - at;
  }
  *seconds = hr__bench_median(times, count);
  return HR_OK;
}

typedef struct dispatch {
  hr_device *device;
  int threads;
} dispatch;

static void task_nothing(void *arg, int64_t task, int worker) {
  (void)arg, (void)task, (void)worker;
}

static hr_status dispatch_call(void *arg, int index) {
  (void)index;
  const dispatch *d = arg;
  hr__pool_run(d->device->pool, d->threads, d->threads, task_nothing, NULL);
  return HR_OK;
}

double hr__bench_dispatch(hr_device *device, int threads) {
  dispatch d = {device, threads};
  double seconds = 0;
  (void)hr__bench_calls(dispatch_call, &d, &seconds); /* an empty task cannot fail */
  return seconds;
}

/* --- products ----------------------------------------------------------------------------------------------------- */

static void *take_filled(hr_bench_block *b, hr_dtype dtype, int64_t count) {
  float value = 0.01f;
  size_t bytes = (size_t)count * hr_dtype_bytes(dtype);
  char *data = hr__bench_take(b, bytes);
  uint16_t half = dtype == HR_F16 ? hr__f32_to_f16(value) : hr__f32_to_bf16(value);
  for (int64_t i = 0; i < count; i++) {
    if (dtype == HR_F32) memcpy(data + 4 * i, &value, 4);
    if (dtype == HR_BF16 || dtype == HR_F16) memcpy(data + 2 * i, &half, 2);
  }
  return data;
}

typedef struct product_run {
  hr_gemm *gemm;
  hr_device *device;
  int threads;
  const void *a, *b;
  void *c, *workspace;
} product_run;

static hr_status product_call(void *arg, int index) {
  (void)index;
  const product_run *run = arg;
  return hr__gemm_run(run->gemm, run->device->pool, run->threads, run->a, run->b, run->c, run->workspace);
}

static hr_status product_timed(hr_device *device, const hr_gemm_spec *spec, int threads, hr_bench_block *memory,
                               const hr_desc matrices[3], size_t workspace, double *seconds, hr_error *err) {
  product_run run = {.device = device, .threads = threads};
  void *operands[3];
  for (int i = 0; i < 3; i++)
    operands[i] = take_filled(memory, matrices[i].dtype, hr_desc_count(&matrices[i]));
  run.a = operands[0];
  run.b = operands[1];
  run.c = operands[2];
  run.workspace = hr__bench_take(memory, workspace);
  HR_TRY(hr__gemm_create(spec, threads, NULL, &run.gemm, err));
  hr_status status = hr__bench_calls(product_call, &run, seconds);
  hr__gemm_destroy(run.gemm);
  return status == HR_OK ? HR_OK
                         : hr__fail(err, status, "matrix product", NULL, "the library failed while it was timed");
}

hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err) {
  hr_desc matrices[3] = {
      {spec->a, 2, {spec->m, spec->k}}, {spec->b, 2, {spec->k, spec->n}}, {spec->c, 2, {spec->m, spec->n}}};
  size_t workspace = hr__gemm_workspace(spec, threads), bytes;
  if (!hr__add_size(workspace, HR_BENCH_LINE * 8, &bytes)) return hr__nomem(err);
  for (int i = 0; i < 3; i++)
    if (!hr__add_size(bytes, hr_desc_bytes(&matrices[i]), &bytes)) return hr__nomem(err);
  hr_bench_block memory = {.bytes = bytes};
  HR_TRY(hr__bench_map(bytes, &memory.base, err));
  hr_status status = product_timed(device, spec, threads, &memory, matrices, workspace, seconds, err);
  munmap(memory.base, memory.bytes);
  return status;
}
