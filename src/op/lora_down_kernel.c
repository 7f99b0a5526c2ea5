/* lora_down on the CPU: by blocks of rows, whose masked x, or product before it is masked, lies in the workspace:
 *
 *   sums [rows, width] = (mask x) [rows, in]  At                     h  = sums / (1 - p)
 *   dx   [rows, in]    = mask (dh [rows, width]  A) / (1 - p)
 *   sums [width, in]  += dht [width, rows]  (mask x) [rows, in]      dA = sums / (1 - p), behind all blocks
 *
 * Sums are f32.
 */
#include <string.h>

#include "base/mem.h"
#include "op/lora_down.h"
#include "op/lora_down_parts.h"
#include "op/product.h"
#include "op/stream.h"

enum { ROWS = 512, TASK_ROWS = 8 }; /* rows of a block; of a task that masks */

/* The product of a block of `rows` rows. */
static hr_gemm_spec block_spec(const hr_lora_down *l, int64_t rows) {
  if (l->kind == HR_LORA_DOWN)
    return (hr_gemm_spec){.m = rows,
                          .n = l->width,
                          .k = l->in,
                          .lda = l->in,
                          .ldb = l->in,
                          .ldc = l->width,
                          .transpose_b = true,
                          .a = l->dtype,
                          .b = l->dtype,
                          .c = HR_F32};
  if (l->kind == HR_LORA_DOWN_DX)
    return (hr_gemm_spec){.m = rows,
                          .n = l->in,
                          .k = l->width,
                          .lda = l->width,
                          .ldb = l->in,
                          .ldc = l->in,
                          .a = l->dtype,
                          .b = l->dtype,
                          .c = HR_F32};
  return (hr_gemm_spec){.m = l->width,
                        .n = l->in,
                        .k = rows,
                        .lda = l->width,
                        .ldb = l->in,
                        .ldc = l->in,
                        .transpose_a = true,
                        .accumulate = true,
                        .a = l->dtype,
                        .b = l->dtype,
                        .c = HR_F32};
}

/* Rows of whole blocks, and of the last one where it is shorter; 0: there is none. */
static int64_t whole_rows(const hr_lora_down *l) {
  return l->rows >= ROWS ? ROWS : 0;
}
static int64_t last_rows(const hr_lora_down *l) {
  return l->rows % ROWS;
}

/* Workspace, in bytes: the block; sums behind it; scratch of the products. */
typedef struct down_layout {
  size_t sums, gemm, bytes;
} down_layout;

static size_t rounded(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

static down_layout layout_of(const hr_lora_down *l, int threads) {
  size_t element = l->kind == HR_LORA_DOWN_DX ? sizeof(float) : hr_dtype_bytes(l->dtype), cap = 0;
  size_t rows = (size_t)(l->rows < ROWS ? l->rows : ROWS);
  down_layout layout = {.sums = rounded(rows * (size_t)l->in * element)};
  size_t sums = l->kind == HR_LORA_DOWN      ? rows * (size_t)l->width
                : l->kind == HR_LORA_DOWN_DW ? (size_t)(l->width * l->in)
                                             : 0;
  layout.gemm = layout.sums + rounded(sums * sizeof(float));
  if (whole_rows(l)) hr__product_cap(&cap, block_spec(l, whole_rows(l)), threads);
  if (last_rows(l)) hr__product_cap(&cap, block_spec(l, last_rows(l)), threads);
  layout.bytes = layout.gemm + cap;
  return layout;
}

size_t hr__lora_down_bytes(const hr_lora_down *l, int threads) {
  return layout_of(l, threads).bytes;
}

void hr__lora_down_products(const hr_lora_down *l, int threads, hr_gemm_set *set) {
  hr_gemm_spec whole = block_spec(l, whole_rows(l)), last = block_spec(l, last_rows(l));
  if (whole_rows(l)) hr__gemm_set_add(set, &whole, threads);
  if (last_rows(l)) hr__gemm_set_add(set, &last, threads);
}

typedef struct down_plan {
  hr_lora_down lora;
  down_layout layout;
  hr_gemm *whole, *last;
} down_plan;

void hr__lora_down_release(void *prepared) {
  down_plan *plan = prepared;
  if (!plan) return;
  hr__gemm_destroy(plan->whole);
  hr__gemm_destroy(plan->last);
  hr__free(plan);
}

static hr_status plan_fill(down_plan *plan, const hr_call *call, hr_error *err) {
  const hr_lora_down *l = &plan->lora;
  if (whole_rows(l)) HR_TRY(hr__product_make(&plan->whole, block_spec(l, whole_rows(l)), call, err));
  if (last_rows(l)) HR_TRY(hr__product_make(&plan->last, block_spec(l, last_rows(l)), call, err));
  return HR_OK;
}

static hr_status kind_prepare(const hr_call *call, hr_lora_down_kind kind, void **prepared, hr_error *err) {
  hr_lora_down l = hr__lora_down_of(kind, &call->in[0].desc, &call->in[1].desc, &call->out[0].desc);
  down_layout layout = layout_of(&l, call->threads);
  HR_TRY(hr__workspace_check(call, layout.bytes, err));
  down_plan *plan = hr__alloc_zero(1, sizeof *plan);
  if (!plan) return hr__nomem(err);
  plan->lora = l;
  plan->layout = layout;
  hr_status status = plan_fill(plan, call, err);
  if (status != HR_OK) {
    hr__lora_down_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

hr_status hr__lora_down_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return kind_prepare(call, HR_LORA_DOWN, prepared, err);
}
hr_status hr__lora_down_dx_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return kind_prepare(call, HR_LORA_DOWN_DX, prepared, err);
}
hr_status hr__lora_down_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return kind_prepare(call, HR_LORA_DOWN_DW, prepared, err);
}

/* One block on its way through the mask: rows [first, first + rows) of `from` become those of `to`, plus those of
 * `add`. Rows of a block in the workspace count from 0. */
typedef struct mask_job {
  const hr_control *control;
  uint64_t key;
  uint32_t limit;
  float scale;
  int64_t first_sample, sample_rows, in;
  int64_t first, rows;
  hr_tensor from, to, add; /* add.data: NULL for none */
  int64_t from_row, to_row;
} mask_job;

HR_CLONES static void mask_row(const mask_job *job, int64_t i) {
  int64_t row = job->first + i;
  uint64_t sample = job->control->sample + (uint64_t)(job->first_sample + row / job->sample_rows);
  int64_t element = row % job->sample_rows * job->in;
  float from_block[HR_BLOCK], add_block[HR_BLOCK], block[HR_BLOCK];
  uint16_t lanes[HR_BLOCK];
  for (int64_t at = 0; at < job->in; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, job->in - at), place = (job->to_row + i) * job->in + at;
    hr__mask_lanes(job->key, sample, element + at, n, lanes);
    const float *from = hr__load(&job->from, (job->from_row + i) * job->in + at, n, from_block);
    float *to = hr__target(&job->to, place, block);
    if (job->add.data) {
      const float *add = hr__load(&job->add, place, n, add_block);
#pragma omp simd
      for (int64_t e = 0; e < n; e++)
        to[e] = add[e] + (lanes[e] >= job->limit ? from[e] * job->scale : 0.0f);
    } else {
#pragma omp simd
      for (int64_t e = 0; e < n; e++)
        to[e] = lanes[e] >= job->limit ? from[e] * job->scale : 0.0f;
    }
    hr__store(&job->to, place, n, to);
  }
}

static void mask_task(void *arg, int64_t task, int worker) {
  const mask_job *job = arg;
  hr_range rows = hr__chunk(job->rows, TASK_ROWS, task);
  (void)worker;
  for (int64_t i = rows.first; i < rows.end; i++)
    mask_row(job, i);
}

static mask_job job_of(const hr_call *call, const hr_dropout_args *args, const hr_desc *x) {
  const hr_control *control = call->in[2].data;
  mask_job job = {.control = control,
                  .key = hr__dropout_key(control->seed, call->stream_key, control->step, args->use),
                  .limit = hr__mask_limit(args->p),
                  .first_sample = args->first,
                  .sample_rows = hr_desc_rows(x) / x->dim[0],
                  .in = hr_desc_columns(x)};
  job.scale = hr__mask_scale(job.limit);
  return job;
}

static void block_mask(const hr_call *call, mask_job *job) {
  hr__pool_run(call->device->pool, call->threads, hr__chunks(job->rows, TASK_ROWS), mask_task, job);
}

/* Row `row` of a matrix with `columns` columns. */
static char *row_of(const hr_tensor *tensor, int64_t row, int64_t columns) {
  return (char *)tensor->data + (size_t)(row * columns) * hr_dtype_bytes(tensor->desc.dtype);
}

static hr_status block_multiply(const hr_call *call, int64_t rows, const void *a, const void *b, void *c) {
  const down_plan *plan = call->prepared;
  return hr__gemm_run(rows == ROWS ? plan->whole : plan->last, call->device->pool, call->threads, a, b, c,
                      (char *)call->workspace + plan->layout.gemm);
}

/* The block in the workspace, of some type. */
static hr_tensor block_tensor(const hr_call *call, hr_dtype dtype) {
  return (hr_tensor){.data = call->workspace, .desc = {.dtype = dtype}};
}

/* to = partial + scale x the sums of the workspace, elements [first, first + count) of the tensor; no partial: NULL. */
typedef struct sums_job {
  const float *sums;
  const hr_tensor *partial, *to;
  int64_t first, count;
  float scale;
} sums_job;

HR_CLONES static void sums_task(void *arg, int64_t task, int worker) {
  const sums_job *job = arg;
  hr_range chunk = hr__chunk(job->count, HR_BLOCK, task);
  int64_t n = chunk.end - chunk.first, at = job->first + chunk.first;
  const float *sums = job->sums + chunk.first;
  float partial_block[HR_BLOCK], block[HR_BLOCK];
  (void)worker;
  float *to = hr__target(job->to, at, block);
  if (job->partial && job->partial->data) {
    const float *from = hr__load(job->partial, at, n, partial_block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = from[i] + job->scale * sums[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = job->scale * sums[i];
  }
  hr__store(job->to, at, n, to);
}

static float *sums_of(const hr_call *call) {
  const down_plan *plan = call->prepared;
  return (float *)(void *)((char *)call->workspace + plan->layout.sums);
}

static void sums_store(const hr_call *call, sums_job *job) {
  job->sums = sums_of(call);
  job->to = &call->out[0];
  hr__pool_run(call->device->pool, call->threads, hr__chunks(job->count, HR_BLOCK), sums_task, job);
}

hr_status hr__lora_down_run(const hr_call *call) {
  const down_plan *plan = call->prepared;
  const hr_lora_down *l = &plan->lora;
  mask_job job = job_of(call, call->args, &call->in[0].desc);
  float scale = job.scale;
  job.scale = 1.0f;
  job.from = call->in[0];
  job.to = block_tensor(call, l->dtype);
  for (int64_t first = 0; first < l->rows; first += ROWS) {
    job.first = job.from_row = first;
    job.rows = hr__min(ROWS, l->rows - first);
    block_mask(call, &job);
    HR_TRY(block_multiply(call, job.rows, call->workspace, call->in[1].data, sums_of(call)));
    sums_store(call, &(sums_job){.first = first * l->width, .count = job.rows * l->width, .scale = scale});
  }
  return HR_OK;
}

hr_status hr__lora_down_dx_run(const hr_call *call) {
  const down_plan *plan = call->prepared;
  const hr_lora_down *l = &plan->lora;
  mask_job job = job_of(call, call->args, &call->out[0].desc);
  job.from = block_tensor(call, HR_F32);
  job.to = call->out[0];
  job.add = call->in[3];
  for (int64_t first = 0; first < l->rows; first += ROWS) {
    job.first = job.to_row = first;
    job.rows = hr__min(ROWS, l->rows - first);
    HR_TRY(block_multiply(call, job.rows, row_of(&call->in[0], first, l->width), call->in[1].data, call->workspace));
    block_mask(call, &job);
  }
  return HR_OK;
}

hr_status hr__lora_down_dw_run(const hr_call *call) {
  const down_plan *plan = call->prepared;
  const hr_lora_down *l = &plan->lora;
  const hr_lora_down_dw_args *args = call->args;
  int64_t count = l->width * l->in;
  mask_job job = job_of(call, &args->drop, &call->in[1].desc);
  float scale = job.scale;
  job.scale = 1.0f;
  job.from = call->in[1];
  job.to = block_tensor(call, l->dtype);
  memset(sums_of(call), 0, (size_t)count * sizeof(float));
  for (int64_t first = 0; first < l->rows; first += ROWS) {
    job.first = job.from_row = first;
    job.rows = hr__min(ROWS, l->rows - first);
    block_mask(call, &job);
    HR_TRY(block_multiply(call, job.rows, row_of(&call->in[0], first, l->width), call->workspace, sums_of(call)));
  }
  sums_store(call, &(sums_job){.partial = &call->in[3], .count = count, .scale = scale});
  return HR_OK;
}
