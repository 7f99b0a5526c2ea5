/* Helpers of ops made of matrix products; see op/product.h. */
#include "op/product.h"

#include <string.h>

#include "op/stream.h"

enum { COPY_BYTES = 256 * 1024 }; /* one task */

typedef struct copy_job {
  const char *from;
  char *to;
  size_t bytes;
} copy_job;

static void copy_task(void *arg, int64_t task, int worker) {
  const copy_job *job = arg;
  hr_range range = hr__chunk((int64_t)job->bytes, COPY_BYTES, task);
  (void)worker;
  memcpy(job->to + range.first, job->from + range.first, (size_t)(range.end - range.first));
}

void hr__sum_begin(const hr_call *call, const hr_tensor *partial, const hr_tensor *out) {
  if (partial->data == out->data) return;
  copy_job job = {partial->data, out->data, hr_desc_bytes(&out->desc)};
  hr__pool_run(call->device->pool, call->threads, hr__chunks((int64_t)job.bytes, COPY_BYTES), copy_task, &job);
}

hr_status hr__workspace_check(const hr_call *call, size_t bytes, hr_error *err) {
  if (call->workspace_bytes >= bytes) return HR_OK;
  return hr__fail(err, HR_FAILURE, NULL, NULL, "%zu bytes of workspace were planned, %zu are needed",
                  call->workspace_bytes, bytes);
}

void hr__product_cap(size_t *cap, hr_gemm_spec spec, int threads) {
  size_t bytes = hr__gemm_workspace(&spec, threads);
  if (bytes > *cap) *cap = bytes;
}

hr_status hr__product_make(hr_gemm **gemm, hr_gemm_spec spec, const hr_call *call, hr_error *err) {
  return hr__gemm_create(&spec, call->threads, call->device, gemm, err);
}

hr_product hr__product_of(const hr_gemm_spec *spec) {
  return (hr_product){.m = spec->m,
                      .n = spec->n,
                      .k = spec->k,
                      .times = 1,
                      .transpose_a = spec->transpose_a,
                      .transpose_b = spec->transpose_b,
                      .accumulate = spec->accumulate,
                      .dtype = spec->b};
}
